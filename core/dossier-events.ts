import type { Dossier, DossierEntry, PlainObject } from './dossier.ts';
import { type Claims, entryName } from './dossier-claims.ts';
import { type DecisionCase, moneyText } from './dossier-decision.ts';
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
  const granted = body.grant?.escalation_id === id && body.grant.status === 'approved';
  if (answered === null) return granted ? `Nothing shows who approved the escalation ${id}.` : null;
  return answerProblem(given, id, answered);
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

/** Checks what was booked or released, and how it went: each entry is of this receipt, and not above what was allowed. */
export function checkConsequences(given: DecisionCase, claims: Claims): void {
  const { dossier, body } = given;
  const parts = [
    ['consumption', /^(?:outcome|consumption)(?:\.|$)/, dossier.consumption],
    ['execution', /^execution\./, dossier.execution],
  ] as const;
  for (const [name, kinds, list] of parts) {
    for (const one of list) claims.either(name, eventProblem(given, kinds, one), eventText(given, one));
  }
  if (body.decision === 'allow' && dossier.consumption.length === 0) {
    claims.ok('consumption', 'Nothing had been booked or released of it when this file was made.');
  }
}

function eventProblem({ dossier, body }: DecisionCase, kinds: RegExp, one: DossierEntry): string | null {
  const name = entryName(one);
  const event = eventOf(dossier, one);
  if (!kinds.test(one.entry.kind) || event === null) return `${name} is not about ${dossier.receipt.receipt_id}.`;
  if (body.decision !== 'allow') return `${name} is about something that was not allowed.`;
  if (one.entry.seq <= dossier.decision.entry.seq) return `${name} comes before the decision.`;
  if (event['mandate_id'] !== undefined && event['mandate_id'] !== body.mandate?.id)
    return `${name} names another mandate.`;
  const { amount, final_amount: final } = event;
  const allowed = body.action?.amount;
  if (amount !== undefined && amount !== allowed) return `${name} is about another amount than was allowed.`;
  const above = one.entry.kind === 'consumption.booked' && !(typeof final === 'number' && final <= (allowed ?? -1));
  return above ? `${name} books more than was allowed.` : null;
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
