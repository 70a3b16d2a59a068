import type { SeededAccount } from '../../../bench/seed.ts';
import { registerDenialCodeRoutes } from '../../../control-plane/api/denial-codes.ts';
import { registerEscalationRoutes } from '../../../control-plane/escalations/routes.ts';
import { registerDecisionRoutes } from '../../../control-plane/evidence/decision-routes.ts';
import { registerExportRoutes } from '../../../control-plane/evidence/export-routes.ts';
import { registerLogRoutes } from '../../../control-plane/evidence/log-routes.ts';
import { registerEvidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import { registerGatewayRoutes } from '../../../control-plane/gateways/routes.ts';
import { registerToolRoutes } from '../../../control-plane/gateways/tool-routes.ts';
import { registerToolSuggestionRoutes } from '../../../control-plane/gateways/tool-suggestions.ts';
import { registerToolTrialRoute } from '../../../control-plane/gateways/tool-trial.ts';
import { registerKeyRoutes } from '../../../control-plane/keys/routes.ts';
import { registerMandateVersionRoutes } from '../../../control-plane/mandates/change.ts';
import { registerMandateRoutes } from '../../../control-plane/mandates/routes.ts';
import { registerMandateStatusRoutes } from '../../../control-plane/mandates/status-routes.ts';
import { registerStopRoutes } from '../../../control-plane/mandates/stop.ts';
import { registerNotificationRoutes } from '../../../control-plane/notifications/routes.ts';
import { registerReconciliationRoutes } from '../../../control-plane/reconciliation/routes.ts';
import type { RegisterRoutes } from '../../../control-plane/server.ts';
import type { ApiScope } from '../../../core/api-scopes.ts';
import { entryHash, type StoredEntry } from '../../../core/evidence.ts';
import { secretHash } from '../../../core/secret-token.ts';
import {
  type AdminAnswer,
  type AdminFixture,
  type AdminFixtureOptions,
  adminFixture,
  type SignedUp,
  textAt,
} from './admin-fixture.ts';

/** The routes of every noun, as `control-plane/main.ts` registers them. */
export const NOUN_ROUTES: readonly RegisterRoutes[] = [
  registerMandateRoutes,
  registerMandateVersionRoutes,
  registerStopRoutes,
  registerGatewayRoutes,
  registerToolRoutes,
  registerToolSuggestionRoutes,
  registerToolTrialRoute,
  registerEscalationRoutes,
  registerNotificationRoutes,
  registerEvidenceRoutes,
  registerLogRoutes,
  registerDecisionRoutes,
  registerReconciliationRoutes,
  registerExportRoutes,
  registerKeyRoutes,
  registerMandateStatusRoutes,
  registerDenialCodeRoutes,
];

export const MANDATE = {
  scope: ['payments.*'],
  amount_limit_per_action: 100,
  amount_limit_per_month: 1000,
  activate: true,
} as const;

export interface ApiKey {
  readonly id: string;
  readonly secret: string;
}

/** A person who is signed in, with the admin API of every noun. */
export interface NounFixture extends AdminFixture {
  readonly person: SignedUp;
  /** Sends as that person. */
  as(method: Parameters<AdminFixture['send']>[0], url: string, body?: unknown): Promise<AdminAnswer>;
  /** Makes a mandate; returns its identifier. */
  mandate(changes?: Readonly<Record<string, unknown>>): Promise<string>;
  /** Makes a mandate with a gateway in front of nothing: what an agent of it would be. */
  agent(changes?: Readonly<Record<string, unknown>>): Promise<SeededAccount>;
  /** Makes an API key of that person's account. */
  apiKey(scopes: readonly ApiScope[], changes?: Readonly<Record<string, unknown>>): Promise<ApiKey>;
  /** The person's chain, every hash checked. */
  chain(): Promise<{ readonly kind: string; readonly body: Record<string, unknown> }[]>;
}

export async function nounFixture(
  t: Parameters<typeof adminFixture>[0],
  options: AdminFixtureOptions = {},
): Promise<NounFixture> {
  const fixture = await adminFixture(t, { register: NOUN_ROUTES, ...options });
  const person = await fixture.signUp();
  const as: NounFixture['as'] = (method, url, body) => fixture.send(method, url, person.token, body);
  const mandate: NounFixture['mandate'] = async (changes = {}) => {
    return textAt(await as('POST', '/admin/mandates', { ...MANDATE, ...changes }), 'mandate_id');
  };
  const agent: NounFixture['agent'] = async (changes = {}) => {
    const mandateId = await mandate(changes);
    const made = await as('POST', '/admin/gateways', { mandate_id: mandateId, target_url: 'http://127.0.0.1:9' });
    const token = textAt(made, 'token');
    const instanceId = textAt(made, 'instance_id');
    return { accountId: person.accountId, mandateId, instanceId, toolId: '', token, tokenHash: secretHash(token) };
  };
  const apiKey: NounFixture['apiKey'] = async (scopes, changes = {}) => {
    const made = await as('POST', '/admin/keys', { scopes, ...changes });
    return { id: textAt(made, 'key_id'), secret: textAt(made, 'api_key') };
  };
  const chain: NounFixture['chain'] = async () => {
    const rows = await fixture.sql<StoredEntry[]>`
      select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, encode(hash, 'hex') as hash, body
      from evidence where account_id = ${person.accountId} order by seq`;
    for (const row of rows) if (entryHash(row) !== row.hash) throw new Error(`entry ${row.seq} has another hash`);
    return rows.map(({ kind, body }) => ({ kind, body: JSON.parse(body) as Record<string, unknown> }));
  };
  return { ...fixture, person, as, mandate, agent, apiKey, chain };
}

/** Status and stable code of a problem. */
export function problemOf(answer: AdminAnswer): [number, unknown] {
  return [answer.status, (answer.body as { readonly error?: unknown }).error];
}

/** The fields that a 422 names. */
export function fieldsOf(answer: AdminAnswer): string[] {
  const { fields = [] } = answer.body as { readonly fields?: readonly { readonly field: string }[] };
  return fields.map(({ field }) => field);
}
