import { DOSSIER_VERSION, type Dossier, type DossierEntry, type PlainObject } from '../../core/dossier.ts';
import { SEAL_TYPE, sealClaims, type UnsealedDossier } from '../../core/dossier-seal.ts';
import { termsOf } from '../../core/dossier-terms.ts';
import type { StoredEntry } from '../../core/evidence.ts';
import type { MandateTerms } from '../../core/mandate.ts';
import { MAT_TYPE, matClaims } from '../../core/mat.ts';
import { type RecordedDecision, recordedContext, recordedDecision } from '../../core/recorded-decision.ts';
import type { TypeId } from '../../core/type-id.ts';
import { inclusionProofsOf } from '../evidence/tree.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { type DecisionPlace, decisionOf, escalationEntries, eventsOf, mandateBefore, outcomesOf } from './entries.ts';
import { witnessedHead } from './tree-head.ts';

/** What dossiers are made with. */
export type DossierMeans = Pick<RouteDependencies, 'sql' | 'signing' | 'issuer'>;

/** Which dossier: `mat` is the token that it was asked for with; null: it is made anew where the decision has one. */
export interface DossierRequest {
  readonly accountId: string;
  readonly receiptId: string;
  readonly mat: string | null;
}

/**
 * The sealed dossier of a receipt, or null where the account has no such decision.
 *
 * Entries are never changed or taken away, so that no transaction is needed: they are collected, then a tree head is
 * taken that covers them all. Source: contract §10, docs/design/0016-dossier.md.
 */
export async function makeDossier(means: DossierMeans, asked: DossierRequest): Promise<Dossier | null> {
  const { sql, signing, issuer } = means;
  const { accountId } = asked;
  const decision = await decisionOf(sql, accountId, asked.receiptId);
  if (decision === null) return null;
  const found = await collect(means, decision);
  const { body, terms, mandate, escalations, events } = found;
  const all = entriesFound(decision, found);
  const head = await witnessedHead(means, accountId, Math.max(...all.map(({ seq }) => seq)) + 1);
  const show = await proofs(means, accountId, head.size, all);
  const shown = (entry: StoredEntry | null) => (entry === null ? null : show(entry));
  const context = recordedContext(body, terms);
  const unsealed: UnsealedDossier = {
    dossier_version: DOSSIER_VERSION,
    issuer,
    receipt: {
      receipt_id: asked.receiptId as TypeId<'rcp'>,
      account: accountId as TypeId<'acc'>,
      decided_at: decision.at,
      decision: body.decision,
      ctx: body.ctx ?? null,
      evidence: { seq: decision.seq, hash: decision.hash },
    },
    action: context === null ? null : (JSON.parse(context) as PlainObject),
    presentation: body.path === 'verify' ? ((body.presentation.document ?? null) as PlainObject | null) : null,
    decision: show(decision),
    mandate: mandate === null ? null : { terms: show(mandate.terms), status: shown(mandate.status) },
    escalations: escalations.map(({ id, opened, answered }) => {
      return { escalation_id: id as TypeId<'esc'>, opened: shown(opened), answered: shown(answered) };
    }),
    consumption: events.filter(({ kind }) => !kind.startsWith('execution.')).map(show),
    execution: events.filter(({ kind }) => kind.startsWith('execution.')).map(show),
    tree_head: head.shown,
    mat: asked.mat ?? (await newMat(means, decision, found)),
    jwks: signing.jwks() as unknown as PlainObject,
  };
  const [clock] = await sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
  return { ...unsealed, seal: await signing.signLater(SEAL_TYPE, sealClaims(unsealed, clock?.now ?? 0)) };
}

interface Found {
  readonly body: RecordedDecision;
  readonly terms: MandateTerms | null;
  readonly mandate: { readonly terms: StoredEntry; readonly status: StoredEntry | null } | null;
  readonly escalations: readonly {
    readonly id: string;
    readonly opened: StoredEntry | null;
    readonly answered: StoredEntry | null;
  }[];
  readonly events: readonly StoredEntry[];
}

async function collect({ sql }: DossierMeans, decision: StoredEntry): Promise<Found> {
  const { account: accountId, id: receiptId, seq, at } = decision;
  const body = recordedDecision.parse(JSON.parse(decision.body));
  const place: DecisionPlace = { accountId, receiptId, seq, atMs: Date.parse(at) };
  const ids = [body.escalation?.id, body.grant?.escalation_id, body.standing?.escalation_id];
  const escalationIds = [...new Set(ids.filter((id) => id !== undefined))];
  const forwarded = body.path === 'gateway' && body.decision === 'allow';
  const [mandate, escalations, events, outcomes] = await Promise.all([
    body.mandate === undefined ? null : mandateBefore(sql, place, body.mandate.id),
    Promise.all(escalationIds.map((id) => escalationOf(sql, decision, id))),
    eventsOf(sql, place),
    forwarded ? outcomesOf(sql, place) : [],
  ]);
  const set = mandate?.terms ?? null;
  if (body.mandate !== undefined && set === null) throw new Error(`no entry sets the terms of ${body.mandate.id}`);
  return {
    body,
    terms: set === null ? null : termsOf(JSON.parse(set.body)),
    mandate: set === null ? null : { terms: set, status: mandate?.status ?? null },
    escalations,
    events: [...events, ...outcomes].sort((a, b) => a.seq - b.seq),
  };
}

async function escalationOf(sql: DossierMeans['sql'], decision: StoredEntry, id: string) {
  const { opened, answered } = await escalationEntries(sql, decision.account, id);
  return { id, opened: opened?.seq === decision.seq ? null : opened, answered };
}

function entriesFound(decision: StoredEntry, { mandate, escalations, events }: Found): StoredEntry[] {
  const asked = escalations.flatMap(({ opened, answered }) => [opened, answered]);
  const all = [decision, mandate?.terms, mandate?.status, ...asked, ...events];
  return all.filter((one) => one !== null && one !== undefined);
}

/** Shows entries with their proofs, which are all read at once. */
async function proofs({ sql }: DossierMeans, accountId: string, size: number, entries: readonly StoredEntry[]) {
  const indexes = [...new Set(entries.map(({ seq }) => seq))];
  const paths = await inclusionProofsOf(sql, { accountId, size }, indexes);
  const pathOf = new Map(indexes.map((index, i) => [index, paths[i] ?? []]));
  return ({ body, hash, ...entry }: StoredEntry): DossierEntry => ({
    entry: { ...entry, account: entry.account as TypeId<'acc'>, body: JSON.parse(body) as PlainObject },
    hash,
    inclusion: pathOf.get(entry.seq) ?? [],
  });
}

/** The MAT of an allow on paths 1 and 2, signed anew: it says what the first one said. */
async function newMat({ signing, issuer }: DossierMeans, decision: StoredEntry, found: Found): Promise<string | null> {
  const { body } = found;
  const { action, ctx, mandate } = body;
  if (body.path !== 'verify' || body.decision !== 'allow') return null;
  if (action === null || ctx === undefined || mandate === undefined) throw new Error('an allow names what it allows');
  const { account: accountId, id: receiptId, seq, hash, at } = decision;
  const claims = matClaims(issuer, {
    ...{ accountId, mandateId: mandate.id, mandateDigest: mandate.digest, receiptId, decidedAtMs: Date.parse(at) },
    ...{ decision: 'allow', ctx, evidence: { seq, hash } },
    action: {
      type: action.type,
      amount_minor: action.amount,
      currency: action.currency ?? null,
      counterparty: action.counterparty ?? null,
    },
  });
  return await signing.signLater(MAT_TYPE, claims);
}
