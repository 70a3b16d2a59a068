import { hash } from 'node:crypto';
import type { Dossier, DossierEntry, PlainObject } from './dossier.ts';
import { type Claims, entryName } from './dossier-claims.ts';
import { termsOf } from './dossier-terms.ts';
import { canonicalize, type JsonValue } from './jcs.ts';
import { MANDATE_STATES, type MandateStatus, type MandateTerms, mandateDigest } from './mandate.ts';
import { formatMinor, isCurrency } from './money.ts';
import {
  decideAgain,
  hasKnownCodes,
  type RecordedDecision,
  recordedContext,
  recordedDecision,
  verdictDifference,
} from './recorded-decision.ts';

/** What a dossier's decision says, once its form is known; `terms` null: there is no such mandate. */
export interface DecisionCase {
  readonly dossier: Dossier;
  readonly body: RecordedDecision;
  readonly terms: MandateTerms | null;
}

/** Reads the decision of a dossier, or says why it cannot be read; then nothing that depends on it is looked at. */
export function readDecision(dossier: Dossier, claims: Claims): DecisionCase | null {
  const { decision, receipt, mandate } = dossier;
  const name = entryName(decision);
  if (decision.entry.kind !== 'decision' || decision.entry.id !== receipt.receipt_id) {
    claims.failed('decision', `${name} is not the decision of ${receipt.receipt_id}.`);
    return null;
  }
  const parsed = recordedDecision.safeParse(decision.entry.body);
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join('.') ?? '';
    claims.unknown('decision', `${name} holds what this checker does not know${where === '' ? '' : ` (${where})`}.`);
    return null;
  }
  const body = parsed.data;
  const terms = mandate === null ? null : termsOf(mandate.terms.entry.body);
  return { dossier, body, terms };
}

/** Whether the receipt at the top of the dossier says what the decision's entry says. */
export function checkReceipt({ dossier, body }: DecisionCase, claims: Claims): void {
  const { receipt, decision } = dossier;
  const { entry, hash } = decision;
  const same =
    receipt.account === entry.account &&
    receipt.decided_at === entry.at &&
    receipt.decision === body.decision &&
    receipt.ctx === (body.ctx ?? null) &&
    receipt.evidence.seq === entry.seq &&
    receipt.evidence.hash === hash;
  const problem = same ? null : `The receipt says something else than ${entryName(decision)}.`;
  claims.either('receipt', problem, `The receipt ${receipt.receipt_id} is what ${entryName(decision)} says.`);
}

/** Whether `action` is what `ctx` is the digest of, and what the entry says of it. */
export function checkAction({ dossier, body, terms }: DecisionCase, claims: Claims): void {
  const shown = dossier.action === null ? null : canonicalize(dossier.action as JsonValue);
  const recorded = attempt(() => recordedContext(body, terms));
  const name = entryName(dossier.decision);
  if (recorded === undefined || shown !== recorded) {
    claims.failed('action', `The action is not the one that ${name} was decided for.`);
  } else if (recorded === null && body.action !== null) {
    claims.failed('action', `${name} names no digest of the action that it was decided for.`);
  } else if (recorded === null) {
    claims.ok('action', `No action could be read from the request, as ${name} says.`);
  } else {
    const digest = `sha-256:${hash('sha256', recorded, 'hex')}`;
    const problem = digest === body.ctx ? null : `${name} names another digest than that of its action.`;
    claims.either('action', problem, `The action is the one that was decided: its digest is ${digest}.`);
  }
}

/** Whether the mandate is the one that was decided under, as it stood then. */
export function checkMandate({ dossier, body, terms }: DecisionCase, claims: Claims): void {
  const { mandate, decision } = dossier;
  if (body.mandate === undefined || mandate === null) {
    const problem = body.mandate === undefined && mandate === null ? null : 'The mandate of the decision is missing.';
    claims.either('mandate', problem, 'There was no such mandate.');
    return;
  }
  const { terms: set, status } = mandate;
  const problem = termsProblem({ dossier, body, terms }, set) ?? statusProblem(body.mandate, decision, status);
  const since = status === null ? '' : `, ${statusOf(status)} since entry ${status.entry.seq}`;
  claims.either(
    'mandate',
    problem,
    `Version ${body.mandate.version} of ${body.mandate.id} was decided under, as ${entryName(set)} set it${since}.`,
  );
}

function termsProblem({ dossier, body, terms }: DecisionCase, set: DossierEntry): string | null {
  const { mandate } = body;
  const name = entryName(set);
  if (set.entry.kind !== 'mandate.created' && set.entry.kind !== 'mandate.changed') return `${name} sets no terms.`;
  if (terms === null) return `${name} does not state its terms as they must be.`;
  if (set.entry.seq > dossier.decision.entry.seq) return `${name} is later than the decision.`;
  const digest = mandateDigest(terms);
  if (digest !== mandate?.digest) return `${name} states other terms than the decision was made under.`;
  return terms.mandate_id === mandate.id && terms.version === mandate.version ? null : `${name} is of another mandate.`;
}

const STATUS_OF_KIND: Readonly<Record<string, MandateStatus>> = {
  'mandate.activated': 'active',
  'mandate.resumed': 'active',
  'mandate.suspended': 'suspended',
  'mandate.revoked': 'revoked',
  'mandate.expired': 'expired',
  'mandate.consumed': 'consumed',
};

function statusOf({ entry }: DossierEntry): MandateStatus | null {
  const status = STATUS_OF_KIND[entry.kind];
  return status !== undefined && MANDATE_STATES.includes(status) ? status : null;
}

function statusProblem(
  recorded: NonNullable<RecordedDecision['mandate']>,
  decision: DossierEntry,
  moved: DossierEntry | null,
): string | null {
  if (moved === null) {
    return recorded.status === 'draft' ? null : `Nothing shows how ${recorded.id} came to be ${recorded.status}.`;
  }
  const name = entryName(moved);
  if (moved.entry.seq > decision.entry.seq) return `${name} is later than the decision.`;
  if (moved.entry.body['mandate_id'] !== recorded.id) return `${name} is of another mandate.`;
  return statusOf(moved) === recorded.status ? null : `${name} leaves the mandate in another state than recorded.`;
}

/** Decides again from what was recorded, with the function that decided, and compares. */
export function checkVerdict({ dossier, body, terms }: DecisionCase, claims: Claims): void {
  const { decision } = dossier;
  const name = entryName(decision);
  if (!hasKnownCodes(body)) {
    claims.unknown(
      'decision',
      `${name} was decided by version ${body.denial_code_version} of the codes, not known here.`,
    );
    return;
  }
  const { account, at } = decision.entry;
  const verdict = attempt(() => decideAgain(body, { account, atMs: Date.parse(at), terms }));
  if (verdict === undefined) {
    claims.failed('decision', `${name} holds facts on which nothing can be decided.`);
    return;
  }
  const difference = verdictDifference(body, verdict);
  claims.either(
    'decision',
    difference === null ? null : `Decided again from its facts, ${name} comes out otherwise: ${difference}.`,
    `Decided again from the recorded facts it is ${verdictText(body)}, as ${name} says.`,
  );
}

function verdictText({ decision, code }: RecordedDecision): string {
  return decision === 'deny' ? `deny with ${code ?? 'no code'}` : decision;
}

/** An amount of the decision's currency as people read it. */
export function moneyText(minor: unknown, currency: unknown): string {
  const known = typeof minor === 'number' && Number.isSafeInteger(minor) && minor >= 0;
  if (!known) return 'an amount that is none';
  return typeof currency === 'string' && isCurrency(currency)
    ? `${formatMinor(minor, currency)} ${currency}`
    : `${minor}`;
}

/** What `run` gives, or undefined where what was recorded cannot be worked with. */
export function attempt<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Whether two JSON values are the same, whatever the order of their members. */
export function isSame(one: PlainObject | null, other: PlainObject | null): boolean {
  return canonicalize(one as JsonValue) === canonicalize(other as JsonValue);
}
