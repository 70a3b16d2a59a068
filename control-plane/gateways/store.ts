import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { GatewayChange, GatewayInput } from './input.ts';

/** What an instance has where nothing else is asked for (interface.md, Limits). */
export const RATE_PER_SECOND = 100;
export const RATE_BURST = 500;
/** Instances of one page of a list: what a person looks through. */
const GATEWAYS_PAGE = 50;

/** A row of `gateway_instances` as the routes work with it; the credential's value is never read here. */
export interface GatewayRecord {
  readonly instance_id: string;
  readonly mandate_id: string;
  readonly name: string;
  readonly status: 'active' | 'disabled';
  readonly target_url: string;
  readonly credential_header: string | null;
  readonly config_version: number;
  readonly rate_per_second: number;
  readonly rate_burst: number;
  readonly unmapped_tools: number;
  readonly created_at: number;
  readonly changed_at: number;
}

const COLUMNS = `instance_id, mandate_id, name, status, target_url, credential_header, config_version, rate_per_second,
  rate_burst, unmapped_tools, created_at, changed_at`;

/** Some instances of an account; `next` is the one to go on after, null where there are no more. */
export interface GatewayPage {
  readonly gateways: readonly GatewayRecord[];
  readonly next: string | null;
}

/** The instances of an account, the newest first: a page of them, from the one after `after` on. */
export async function listGateways(sql: Sql, accountId: string, after: string | null): Promise<GatewayPage> {
  const rows = await sql.unsafe<GatewayRecord[]>(
    `select ${COLUMNS} from gateway_instances where account_id = $1 and ($2::text is null or instance_id < $2)
     order by instance_id desc limit ${GATEWAYS_PAGE + 1}`,
    [accountId, after],
  );
  const gateways = rows.slice(0, GATEWAYS_PAGE);
  return { gateways, next: rows.length > GATEWAYS_PAGE ? (gateways.at(-1)?.instance_id ?? null) : null };
}

/** One instance of an account; @throws ProblemError 404 */
export async function readGateway(sql: Sql, accountId: string, id: string): Promise<GatewayRecord> {
  const rows = await sql.unsafe<GatewayRecord[]>(
    `select ${COLUMNS} from gateway_instances where account_id = $1 and instance_id = $2`,
    [accountId, id],
  );
  const row = rows[0];
  if (row === undefined) throw new ProblemError('not_found', 'There is no such gateway instance.');
  return row;
}

/**
 * Makes an instance within a command; `target_url` was checked, `token` is shown once and stored as its hash only.
 *
 * @throws ProblemError 422 naming `mandate_id` where it is none of the account's
 */
export async function createGateway(
  context: CommandContext,
  custody: Custody,
  input: GatewayInput,
  token: string,
): Promise<GatewayRecord> {
  const { sql, accountId, now } = context;
  const mandates = await sql`select from mandates where account_id = ${accountId} and mandate_id = ${input.mandate_id}`;
  if (mandates.length === 0) throw invalidFields([{ field: 'mandate_id', message: 'must be one of your mandates' }]);
  const id = newTypeId('gwi', context.nowMs);
  const sealed = input.credential && seal(custody, accountId, id, input.credential.value);
  await sql`insert into gateway_instances (account_id, instance_id, mandate_id, name, status, target_url, token_hash,
      credential_header, credential_sealed, rate_per_second, rate_burst, created_at, changed_at)
    values (${accountId}, ${id}, ${input.mandate_id}, ${input.name}, 'active', ${input.target_url},
      decode(${secretHash(token)}, 'hex'), ${input.credential?.header ?? null}, ${sealed ?? null},
      ${input.rate_per_second ?? RATE_PER_SECOND}, ${input.rate_burst ?? RATE_BURST}, ${now}, ${now})`;
  await addRoute(context, id, token);
  context.append('gateway.created', {
    instance: id,
    mandate_id: input.mandate_id,
    target_url: input.target_url,
    name: input.name,
    rate_per_second: input.rate_per_second ?? RATE_PER_SECOND,
    rate_burst: input.rate_burst ?? RATE_BURST,
    credential_header: input.credential?.header ?? null,
    token_sha256: secretHash(token),
  });
  return readGateway(sql, accountId, id);
}

/**
 * Changes an instance within a command; a `target_url` was checked.
 *
 * @throws ProblemError 404, 422 naming `credential` where it would go along to another origin
 */
export async function changeGateway(
  context: CommandContext,
  custody: Custody,
  id: string,
  change: GatewayChange,
): Promise<GatewayRecord> {
  const { sql, accountId, now } = context;
  const before = await readGateway(sql, accountId, id);
  const { credential } = change;
  if (credential === undefined && before.credential_header !== null && leavesOrigin(before, change)) {
    // Else whoever holds a session could read a credential that is never shown, by sending it to a host of their own.
    const message = 'must be given again, or null, where the target moves to another origin';
    throw invalidFields([{ field: 'credential', message }]);
  }
  const sealed = credential ? seal(custody, accountId, id, credential.value) : null;
  const reconfigured = change.target_url !== undefined || credential !== undefined;
  await sql`update gateway_instances set
      target_url = ${change.target_url ?? before.target_url},
      name = ${change.name ?? before.name},
      rate_per_second = ${change.rate_per_second ?? before.rate_per_second},
      rate_burst = ${change.rate_burst ?? before.rate_burst},
      config_version = config_version + ${reconfigured ? 1 : 0}, changed_at = ${now}
    where account_id = ${accountId} and instance_id = ${id}`;
  if (credential !== undefined) {
    await sql`update gateway_instances set credential_header = ${credential?.header ?? null},
      credential_sealed = ${sealed} where account_id = ${accountId} and instance_id = ${id}`;
    context.append('gateway.credential_changed', { instance: id, credential_header: credential?.header ?? null });
  }
  const after = await readGateway(sql, accountId, id);
  const { target_url, name, rate_per_second, rate_burst } = after;
  context.append('gateway.changed', { instance: id, target_url, name, rate_per_second, rate_burst });
  return after;
}

function leavesOrigin(before: GatewayRecord, { target_url: after }: GatewayChange): boolean {
  return after !== undefined && new URL(after).origin !== new URL(before.target_url).origin;
}

/** Gives an instance another token within a command, the one before opens nothing any more; @throws ProblemError 404 */
export async function rotateToken(context: CommandContext, id: string, token: string): Promise<GatewayRecord> {
  const { sql, accountId, now } = context;
  await readGateway(sql, accountId, id);
  await sql`delete from token_routes where kind = 'gateway' and account_id = ${accountId} and subject_id = ${id}`;
  await sql`update gateway_instances set token_hash = decode(${secretHash(token)}, 'hex'), changed_at = ${now}
    where account_id = ${accountId} and instance_id = ${id}`;
  await addRoute(context, id, token);
  context.append('gateway.token_rotated', { instance: id, token_sha256: secretHash(token) });
  return readGateway(sql, accountId, id);
}

/** Disables or enables an instance within a command; @throws ProblemError 404, 409 where it is so already */
export async function setGatewayStatus(
  context: CommandContext,
  id: string,
  status: GatewayRecord['status'],
): Promise<GatewayRecord> {
  const { sql, accountId, now } = context;
  const before = await readGateway(sql, accountId, id);
  if (before.status === status) throw new ProblemError('conflict', `The instance is ${status} already.`);
  await sql`update gateway_instances set status = ${status}, changed_at = ${now}
    where account_id = ${accountId} and instance_id = ${id}`;
  context.append(status === 'active' ? 'gateway.enabled' : 'gateway.disabled', { instance: id });
  return readGateway(sql, accountId, id);
}

async function addRoute({ sql, accountId }: CommandContext, id: string, token: string): Promise<void> {
  await sql`insert into token_routes (token_hash, kind, account_id, subject_id)
    values (decode(${secretHash(token)}, 'hex'), 'gateway', ${accountId}, ${id})`;
}

function seal(custody: Custody, accountId: string, id: string, value: string): Buffer {
  const plaintext = Buffer.from(value, 'utf8');
  try {
    return custody.seal(accountId, 'credential', id, plaintext);
  } finally {
    plaintext.fill(0);
  }
}
