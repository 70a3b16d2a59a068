import { randomBytes } from 'node:crypto';
import { type Config, loadConfig } from '../config/load.ts';
import { withoutSecrets } from '../config/log.ts';
import { checkMasterKey } from './custody/custody.ts';
import { connect, type Sql } from './db/client.ts';
import { assertMigrated } from './db/migrate.ts';
import { configuredWitnesses, openAuthority } from './publishing/start-publishing.ts';
import { RedisBuckets } from './rate-limit/redis-buckets.ts';

// The database part of `mandate doctor`: prints a JSON list of checks; it changes nothing.

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly fix?: string;
}

const VERSION_MIN = 15;
const SKEW_MAX_MS = 2_000;
const RATE_LIMITS_FIX =
  'Set MANDATE_RATE_LIMIT_URL, the same at each control plane, to a Redis or Valkey that runs with noeviction.';
const TIMESTAMPS_FIX = 'Correct MANDATE_TSA_URL and MANDATE_TSA_CA_FILE, or set MANDATE_TSA_MODE=off.';
const WITNESS_FIX = 'Correct MANDATE_WITNESS_URLS, or take the witness and its key out of the lists.';

async function checks(): Promise<Check[]> {
  const config = loadConfig('up');
  const url = config.databaseAppUrl ?? '';
  const shown = withoutSecrets(url);
  const sql = connect(url, { max: 1, applicationName: 'mandate doctor' });
  try {
    const reached = await reach(sql, shown);
    if (!reached.ok) return [reached];
    return [
      reached,
      await attempt('schema', 'Run `mandate migrate` (or `mandate up`).', () => schema(sql)),
      await attempt('master key', 'Set MANDATE_MASTER_KEY to the key that this database was first started with.', () =>
        masterKey(sql, config.masterKey),
      ),
      await attempt('durability', 'Set fsync and full_page_writes to on, and synchronous_commit not to off.', () =>
        durable(sql),
      ),
      await attempt('database role', 'Use the role mandate_app in MANDATE_DATABASE_APP_URL.', () => role(sql)),
      await attempt('rate limits', RATE_LIMITS_FIX, () => rateLimits(config)),
      ...(await publishing(config)),
      await attempt('clock', "Synchronise both clocks (NTP): decisions use the database's.", () => clock(sql)),
    ];
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function reach(sql: Sql, shown: string): Promise<Check> {
  const name = 'database';
  try {
    const [row] = await sql<{ version: string }[]>`select current_setting('server_version_num') as version`;
    const major = Math.floor(Number(row?.version) / 10_000);
    const detail = `PostgreSQL ${major} at ${shown}`;
    if (major >= VERSION_MIN) return { name, ok: true, detail };
    return { name, ok: false, detail, fix: `Upgrade it to PostgreSQL ${VERSION_MIN} or newer.` };
  } catch (error) {
    const detail = `${shown} cannot be used: ${reason(error)}`;
    return { name, ok: false, detail, fix: 'Start it, and correct MANDATE_DATABASE_APP_URL.' };
  }
}

/** Runs one check: it answers what is well, and throws what is not. */
async function attempt(name: string, fix: string, run: () => Promise<string>): Promise<Check> {
  try {
    return { name, ok: true, detail: await run() };
  } catch (error) {
    return { name, ok: false, detail: reason(error), fix };
  }
}

async function schema(sql: Sql): Promise<string> {
  await assertMigrated(sql);
  return 'migrated to the version of this program';
}

async function masterKey(sql: Sql, key: Buffer | null): Promise<string> {
  const kept = await sql`select from installation`;
  if (kept.length === 0) return 'none is in use yet; the first start of a control plane settles it';
  if (key === null) throw new Error('MANDATE_MASTER_KEY is not set, and the database holds secrets sealed under one');
  await checkMasterKey(sql, key);
  return 'the one that this database was first started with';
}

async function durable(sql: Sql): Promise<string> {
  const [row] = await sql<{ fsync: string; commit: string; pages: string }[]>`
    select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
      current_setting('full_page_writes') as pages`;
  const text = `fsync ${row?.fsync}, synchronous_commit ${row?.commit}, full_page_writes ${row?.pages}`;
  if (row?.fsync === 'on' && row.pages === 'on' && row.commit !== 'off') return text;
  throw new Error(`${text}: a crash could lose evidence of what was done`);
}

async function role(sql: Sql): Promise<string> {
  const [row] = await sql<{ name: string; super: boolean; owns: boolean }[]>`
    select current_user::text as name, r.rolsuper as super,
      exists (select from pg_tables where tablename = 'evidence' and tableowner = current_user) as owns
    from pg_roles r where r.rolname = current_user`;
  if (row !== undefined && !row.super && !row.owns) return `${row.name}, which owns nothing`;
  throw new Error(`${row?.name} is a superuser or owns the evidence, and could pass by what protects it`);
}

/** Whether rate limits are exact with the control planes that are configured here. */
async function rateLimits({ rateLimitUrl: url, controlPlanes }: Config): Promise<string> {
  if (url === null) {
    const several = `${controlPlanes.length} control planes are listed, and each counts for itself`;
    if (controlPlanes.length > 1)
      throw new Error(`${several}: what one of them counted is lost when another takes over`);
    return 'counted in the control plane: exact with one; several need MANDATE_RATE_LIMIT_URL, the same at each';
  }
  const buckets = await RedisBuckets.open({ url, onChange() {} });
  try {
    const rate = { perSecond: 1, burst: 1 };
    await buckets.perform([{ kind: 'peek', key: 'doctor', rate }]);
    const policy = await buckets.evictionPolicy();
    if (policy === null || policy === 'noeviction') return `kept at ${new URL(url).host}`;
    throw new Error(`maxmemory-policy is ${policy} there: a bucket that is evicted is full again`);
  } finally {
    buckets.close();
  }
}

/** The timestamping authority and the witnesses, where there are any: each is asked as in earnest. */
async function publishing(config: Config): Promise<Check[]> {
  const found: Check[] = [];
  if (config.tsaUrl !== null && config.tsaMode !== 'off') {
    found.push(await attempt('timestamps', TIMESTAMPS_FIX, () => timestamps(config)));
  }
  for (const witness of configuredWitnesses(config)) {
    const reached = async (): Promise<string> => {
      await witness.reach().finally(() => witness.close());
      return `${witness.key.name} answers`;
    };
    found.push(await attempt('witness', WITNESS_FIX, reached));
  }
  return found;
}

async function timestamps(config: Config): Promise<string> {
  const authority = await openAuthority(config);
  if (authority === null) throw new Error('there is no timestamping authority');
  const { tsa, checked } = await authority.stamp(randomBytes(32)).finally(() => authority.close());
  const trust = checked.includes('chain') ? 'trusted' : 'not checked: MANDATE_TSA_CA_FILE is not set';
  return `${authority.host} answers as ${tsa} (${trust})`;
}

async function clock(sql: Sql): Promise<string> {
  const before = Date.now();
  const [row] = await sql<
    { now_ms: number }[]
  >`select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms`;
  const skew = Math.round((row?.now_ms ?? 0) - (before + Date.now()) / 2);
  if (Math.abs(skew) <= SKEW_MAX_MS) return `the database's clock differs by ${Math.abs(skew)} ms`;
  throw new Error(`the database's clock differs by ${skew} ms`);
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return withoutSecrets(error.message || ('code' in error ? String(error.code) : error.name));
}

process.stdout.write(`${JSON.stringify(await checks())}\n`);
