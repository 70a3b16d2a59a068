import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from '../control-plane/db/client.ts';
import { startEmbedded } from '../control-plane/db/embedded.ts';
import { migrate } from '../control-plane/db/migrate.ts';
import { mandateDigest } from '../core/mandate.ts';
import { newSecretToken, secretHash } from '../core/secret-token.ts';
import { newTypeId } from '../core/type-id.ts';

/** The middle of the sorted values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export interface BenchDatabase {
  readonly ownerUrl: string;
  /** The application's role, over the unix socket where there is one. */
  readonly appUrl: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * Starts a migrated embedded PostgreSQL (fsync and synchronous_commit on), in `kept` where that names a directory, else
 * in one that `stop` removes.
 */
export async function benchDatabase(kept?: string): Promise<BenchDatabase> {
  const dataDir = kept ?? (await mkdtemp(join(tmpdir(), 'mandate-bench-')));
  const server = await startEmbedded({ dataDir });
  await migrate(server.ownerUrl, { app: server.app });
  return {
    ownerUrl: server.ownerUrl,
    appUrl: server.appUrl,
    pid: server.pid,
    stop: async () => {
      await server.stop();
      if (kept === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** An account with an active mandate, a gateway instance and the mapped tool `http.post:/payments`. */
export interface SeededAccount {
  readonly accountId: string;
  readonly mandateId: string;
  readonly instanceId: string;
  readonly toolId: string;
  readonly token: string;
  readonly tokenHash: string;
}

const MAPPING = {
  action_type: 'payments.create',
  amount: '/amount',
  currency: '/currency',
  counterparty: '/counterparty',
  amount_unit: 'major',
  currency_notation: 'iso',
  counterparty_optional: true,
  body_limit_bytes: 1_048_576,
};

const LIMIT = 1_000_000_000_000_000;

/** What a seeded mandate allows (minor units of EUR); nearly everything where nothing is said. */
export interface SeededLimits {
  readonly per_action?: number;
  readonly per_month?: number;
  readonly escalation_threshold?: number | null;
  readonly counterparties?: readonly string[];
  readonly max_uses?: number | null;
  readonly time_zone?: string;
  readonly agent_did?: string;
}

/** Writes accounts as the admin API would, but without the people; the rate limit is raised as far as it goes. */
export async function seedAccounts(
  sql: Sql,
  count: number,
  targetUrl: string,
  limits: SeededLimits = {},
): Promise<SeededAccount[]> {
  const accounts: SeededAccount[] = [];
  for (let i = 0; i < count; i++) accounts.push(await seedAccount(sql, i, targetUrl, limits));
  return accounts;
}

async function seedAccount(sql: Sql, number: number, targetUrl: string, limits: SeededLimits): Promise<SeededAccount> {
  const now = Date.now();
  const [accountId, mandateId] = [newTypeId('acc', now), newTypeId('mdt', now)];
  const [instanceId, toolId, token] = [newTypeId('gwi', now), newTypeId('tol', now), newSecretToken('gwt')];
  const tokenHash = secretHash(token);
  const terms = {
    mandate_id: mandateId,
    version: 1,
    scope: ['payments.*'],
    currency: 'EUR',
    per_action: limits.per_action ?? LIMIT,
    per_month: limits.per_month ?? LIMIT,
    escalation_threshold: limits.escalation_threshold ?? null,
    counterparties: [...(limits.counterparties ?? [])],
    agent_did: limits.agent_did ?? '',
    time_zone: limits.time_zone ?? 'UTC',
    valid_until: null,
    max_uses: limits.max_uses ?? null,
  };
  await sql.begin(async (tx) => {
    await tx`insert into accounts (account_id, email, password_hash, totp_sealed, created_at)
      values (${accountId}, ${`bench-${number}-${now}@example.test`}, 'none', ${Buffer.alloc(1)}, db_clock())`;
    await tx`insert into account_heads (account_id, at) values (${accountId}, db_clock())`;
    await tx`insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month,
        escalation_threshold, counterparties, agent_did, time_zone, max_uses, digest, created_at, changed_at)
      values (${accountId}, ${mandateId}, 'bench', 'active', ${terms.scope}, 'EUR', ${terms.per_action},
        ${terms.per_month}, ${terms.escalation_threshold}, ${terms.counterparties}, ${terms.agent_did},
        ${terms.time_zone}, ${terms.max_uses}, ${mandateDigest(terms)}, db_clock(), db_clock())`;
    await tx`insert into gateway_instances (account_id, instance_id, mandate_id, name, status, target_url, token_hash,
        rate_per_second, rate_burst, created_at, changed_at)
      values (${accountId}, ${instanceId}, ${mandateId}, 'bench', 'active', ${targetUrl},
        decode(${tokenHash}, 'hex'), 1000000, 1000000, db_clock(), db_clock())`;
    await tx`insert into token_routes (token_hash, kind, account_id, subject_id)
      values (decode(${tokenHash}, 'hex'), 'gateway', ${accountId}, ${instanceId})`;
    await tx`insert into tools (account_id, instance_id, key, tool_id, pattern, state, mapping, created_at, changed_at)
      values (${accountId}, ${instanceId}, 'http.post:/payments', ${toolId}, 'http.post:/payments', 'mapped',
        ${JSON.stringify(MAPPING)}::text::jsonb, db_clock(), db_clock())`;
  });
  return { accountId, mandateId, instanceId, toolId, token, tokenHash };
}

/** Adds gateway instances under the same mandate, each with a token of its own and the same mapped tool. */
export async function seedInstances(sql: Sql, account: SeededAccount, count: number): Promise<SeededAccount[]> {
  const instances: SeededAccount[] = [];
  for (let i = 0; i < count; i++) {
    const now = Date.now();
    const [instanceId, toolId, token] = [newTypeId('gwi', now), newTypeId('tol', now), newSecretToken('gwt')];
    const tokenHash = secretHash(token);
    await sql.begin(async (tx) => {
      await tx`insert into gateway_instances (account_id, instance_id, mandate_id, name, status, target_url, token_hash,
          config_version, rate_per_second, rate_burst, created_at, changed_at)
        select account_id, ${instanceId}, mandate_id, name, status, target_url, decode(${tokenHash}, 'hex'),
          config_version, rate_per_second, rate_burst, created_at, changed_at
        from gateway_instances where instance_id = ${account.instanceId}`;
      await tx`insert into token_routes (token_hash, kind, account_id, subject_id)
        values (decode(${tokenHash}, 'hex'), 'gateway', ${account.accountId}, ${instanceId})`;
      await tx`insert into tools (account_id, instance_id, key, tool_id, pattern, state, mapping, created_at,
          changed_at)
        select account_id, ${instanceId}, key, ${toolId}, pattern, state, mapping, created_at, changed_at
        from tools where instance_id = ${account.instanceId}`;
    });
    instances.push({ ...account, instanceId, toolId, token, tokenHash });
  }
  return instances;
}

/** An API key of a seeded account. */
export interface SeededKey {
  readonly accountId: string;
  readonly keyId: string;
  readonly apiKey: string;
  readonly tokenHash: string;
}

/** Adds an API key with these scopes; its rates are raised as far as they go. */
export async function seedKey(
  sql: Sql,
  { accountId }: Pick<SeededAccount, 'accountId'>,
  scopes: readonly string[] = ['verify'],
): Promise<SeededKey> {
  const [keyId, apiKey] = [newTypeId('key', Date.now()), newSecretToken('mak')];
  const tokenHash = secretHash(apiKey);
  await sql.begin(async (tx) => {
    await tx`insert into api_keys (account_id, key_id, name, token_hash, scopes, status, verify_per_second,
        verify_burst, management_per_second, management_burst, created_at)
      values (${accountId}, ${keyId}, 'bench', decode(${tokenHash}, 'hex'), ${[...scopes]}, 'active', 1000000, 1000000,
        1000000, 1000000, db_clock())`;
    await tx`insert into token_routes (token_hash, kind, account_id, subject_id)
      values (decode(${tokenHash}, 'hex'), 'api_key', ${accountId}, ${keyId})`;
  });
  return { accountId, keyId, apiKey, tokenHash };
}
