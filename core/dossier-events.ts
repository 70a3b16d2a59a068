import type { EscalationStatus } from './decide.ts';
import type { Dossier, DossierEntry, PlainObject } from './dossier.ts';
import { type Claims, entryName } from './dossier-claims.ts';
import { type DecisionCase, moneyText } from './dossier-decision.ts';
import type { EvidenceKind } from './evidence.ts';
import type { JsonValue } from './jcs.ts';

type EscalationPart = Dossier['escalations'][number];

/** Checks that each escalation is one that the decision names, who asked for it and who answered. */
export function checkEscalations(given: DecisionCase, claims: Claims): void {
  const { dossier, body } = given;
  const named = [body.escalation?.id, body.grant?.escalation_id, body.standing?.escalation_id];
  const expected = new Set(named.filter((id) => id !== undefined));
  const shown: readonly string[] = dossier.escalations.map(({ escalation_id: id }) => id);
  const missing = [...expected].find((id) => !shown.includes(id));
  if (missing !== undefined)
    claims.failed('escalation', `The escalation ${missing} of the decision is not in the file.`);
  for (const part of dossier.escalations) {
    const { escalation_id: id } = part;
    const known = expected.has(id) && shown.indexOf(id) === shown.lastIndexOf(id);
    const problem = known ? partProblem(given, part) : `The escalation ${id} is not one of the decision's.`;
    claims.either('escalation', problem, partText(part));
  }
}

function partProblem(given: DecisionCase, { escalation_id: id, opened, answered }: EscalationPart): string | null {
  const { dossier, body } = given;
  if (opened === null && body.escalation?.id !== id) return `Nothing shows what asked for the escalation ${id}.`;
  if (opened !== null) {
    const name = entryName(opened);
    const { entry } = opened;
    if (entry.kind !== 'decision' || entry.seq >= dossier.decision.entry.seq) return `${name} did not ask before.`;
    if (member(entry.body, 'escalation', 'id') !== id) return `${name} did not ask for the escalation ${id}.`;
    if (member(entry.body, 'mandate', 'id') !== body.mandate?.id) return `${name} is of another mandate.`;
  }
  const settled = settlementProblem(given, id, answered);
  if (answered === null || settled !== null) return settled;
  return answerProblem(given, id, answered);
}

/** What must have answered an escalation for it to be in a state; null: nothing may have. */
const ANSWER_OF_STATE: Readonly<Record<EscalationStatus, EvidenceKind | null>> = {
  pending: null,
  approved: 'escalation.approved',
  used: 'escalation.approved',
  rejected: 'escalation.rejected',
  expired: 'escalation.expired',
};

/** Whether the state in which the decision found the escalation is what was answered before it. */
function settlementProblem({ dossier, body }: DecisionCase, id: string, answered: DossierEntry | null): string | null {
  const found = [body.grant, body.standing].find((one) => one?.escalation_id === id);
  if (found === undefined) return null;
  const kind = ANSWER_OF_STATE[found.status];
  const before = answered !== null && answered.entry.seq < dossier.decision.entry.seq ? answered : null;
  if ((before?.entry.kind ?? null) === kind) return null;
  if (before !== null)
    return `${entryName(before)} came before the decision, which calls the escalation ${found.status}.`;
  if (kind === 'escalation.approved') return `Nothing shows who approved the escalation ${id}.`;
  return `Nothing shows that the escalation ${id} was ${found.status}.`;
}

function answerProblem({ dossier, body }: DecisionCase, id: string, answered: DossierEntry): string | null {
  const { entry } = answered;
  const name = entryName(answered);
  if (!/^escalation\.(?:approved|rejected|expired)$/.test(entry.kind)) return `${name} answers no escalation.`;
  if (entry.body['escalation_id'] !== id) return `${name} answers another escalation.`;
  if (entry.body['mandate_id'] !== body.mandate?.id) return `${name} is of another mandate.`;
  const { grant } = body;
  if (grant?.escalation_id !== id || grant.status !== 'approved') return null;
  if (entry.kind !== 'escalation.approved') return `${name} is no approval, and the decision rests on one.`;
  if (entry.seq >= dossier.decision.entry.seq) return `${name} is later than the decision that rests on it.`;
  const { ctx, decided_by: by, closes_at: closes } = entry.body;
  // At another gateway instance the approval was for another action: the decision's facts then have no ctx.
  if (grant.ctx !== '' && ctx !== grant.ctx) return `${name} approved another action than the decision was given.`;
  if (by !== grant.decided_by) return `${name} names another approver than the decision.`;
  return typeof closes === 'string' && Date.parse(closes) === grant.closes_at_ms
    ? null
    : `${name} ends at another time.`;
}

function partText({ escalation_id: id, answered }: EscalationPart): string {
  if (answered === null) return `The escalation ${id} was not answered when this file was made.`;
  const { kind, at, body } = answered.entry;
  const by = typeof body['decided_by'] === 'string' ? ` by ${body['decided_by']}` : '';
  return `The escalation ${id} was ${kind.slice('escalation.'.length)}${by} at ${at} (entry ${answered.entry.seq}).`;
}

/** Either of them ends what an allow reserved, once (contract §5). */
const BOOKS: ReadonlySet<string> = new Set(['consumption.booked', 'consumption.lapsed']);
const CONSUMPTIONS: ReadonlySet<string> = new Set([...BOOKS, 'consumption.refused', 'outcome', 'outcome.settled']);
const EXECUTIONS: ReadonlySet<string> = new Set(['execution.reported', 'execution.refused']);

/** Checks what was booked or released, and how it went: all of this receipt, and not above what was allowed. */
export function checkConsequences(given: DecisionCase, claims: Claims): void {
  const { dossier, body } = given;
  const parts = [
    ['consumption', CONSUMPTIONS, dossier.consumption],
    ['execution', EXECUTIONS, dossier.execution],
  ] as const;
  for (const [name, kinds, list] of parts) {
    for (const one of list) claims.either(name, eventProblem(given, kinds, one), eventText(given, one));
  }
  const [, second] = dossier.consumption.filter(({ entry: { kind } }) => BOOKS.has(kind));
  if (second !== undefined) claims.failed('consumption', `${entryName(second)} books again what was booked before.`);
  if (body.decision === 'allow' && dossier.consumption.length === 0) {
    claims.skipped('consumption', 'The service shows no booking and no release; that there was none is not proven.');
  }
}

function eventProblem({ dossier, body }: DecisionCase, kinds: ReadonlySet<string>, one: DossierEntry): string | null {
  const name = entryName(one);
  const event = eventOf(dossier, one);
  if (!kinds.has(one.entry.kind) || event === null) return `${name} is not about ${dossier.receipt.receipt_id}.`;
  if (body.decision !== 'allow') return `${name} is about something that was not allowed.`;
  if (one.entry.seq <= dossier.decision.entry.seq) return `${name} comes before the decision.`;
  if (event['mandate_id'] !== undefined && event['mandate_id'] !== body.mandate?.id)
    return `${name} names another mandate.`;
  const { amount, final_amount: final } = event;
  const allowed = body.action?.amount;
  if (amount !== undefined && amount !== allowed) return `${name} is about another amount than was allowed.`;
  const above = one.entry.kind === 'consumption.booked' && !(typeof final === 'number' && final <= (allowed ?? -1));
  if (above) return `${name} books more than was allowed.`;
  const { executed_amount: executed } = event;
  const beyond = one.entry.kind === 'execution.reported' && typeof executed === 'number' && executed > (allowed ?? -1);
  return beyond ? `${name} reports more than was allowed.` : null;
}

/** What an entry says of this receipt: outcomes share an entry (docs/design/0002). */
function eventOf({ receipt }: Dossier, { entry }: DossierEntry): PlainObject | null {
  const { outcomes } = entry.body;
  const list: readonly JsonValue[] = Array.isArray(outcomes) ? outcomes : [entry.body];
  const found = list.find((one) => isObject(one) && one['receipt_id'] === receipt.receipt_id);
  return isObject(found) ? found : null;
}

function eventText(given: DecisionCase, one: DossierEntry): string {
  const event = eventOf(given.dossier, one) ?? {};
  const { terms } = given;
  const currency = event['currency'] ?? terms?.currency;
  const { outcome, cause, final_amount: final, executed_amount: executed, amount } = event;
  const detail = [
    typeof outcome === 'string' ? outcome : '',
    typeof cause === 'string' ? cause : '',
    amount === undefined ? '' : moneyText(amount, currency),
    final === undefined ? '' : `final ${moneyText(final, currency)}`,
    typeof executed === 'number' ? `executed ${moneyText(executed, currency)}` : '',
  ].filter((text) => text !== '');
  return `${entryName(one)} of ${one.entry.at}: ${detail.join(', ') || 'recorded'}.`;
}

function member(object: PlainObject, name: string, inner: string): JsonValue | undefined {
  const value = object[name];
  return isObject(value) ? value[inner] : undefined;
}

function isObject(value: JsonValue | undefined): value is PlainObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
