import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import type { EvidenceKind } from '../../core/evidence.ts';
import type { JsonValue } from '../../core/jcs.ts';
import { LIVING_MANDATES_MAX } from '../../core/limits.ts';
import { type MandateStatus, type MandateTerms, mandateDigest, nextStatus } from '../../core/mandate.ts';
import { newTypeId } from '../../core/type-id.ts';
import { factorFields, requireFactor } from '../admin/factor.ts';
import { accountOf } from '../admin/session.ts';
import { createAgentKey } from '../custody/agent-keys.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idQuery, readQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { limitsOf, type MandateInput, mandateInput, type StepInput, stepInput, validUntil } from './input.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from './terms.ts';
import { listedView, listMandates, mandateView, readMandate } from './view.ts';
import { shownWording } from './wording.ts';

const STEPS = {
  activate: 'mandate.activated',
  suspend: 'mandate.suspended',
  resume: 'mandate.resumed',
  revoke: 'mandate.revoked',
} as const satisfies Record<string, EvidenceKind>;
export type MandateStep = keyof typeof STEPS;

/** What an account with as many mandates as it may have is told. */
export const MANDATES_FULL = `The account has ${LIVING_MANDATES_MAX} mandates that are not over; revoke some first.`;

const listQuery = z.strictObject({ after: idQuery('mdt').optional() });

/** The routes of mandates: create, read, and the principal's moves between their states. */
export function registerMandateRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const one = async (accountId: string, id: string) => {
    const record = await readMandate(deps.sql, accountId, id);
    if (record === undefined) throw unknownMandate();
    return mandateView(record);
  };
  app.get('/admin/mandates', async (request) => {
    const { after = null } = readQuery(request, listQuery);
    const { mandates, next } = await listMandates(deps.sql, accountOf(request), after);
    return { mandates: mandates.map(listedView), next };
  });
  app.get('/admin/mandates/:id', async (request) => one(accountOf(request), idParam(request, 'mdt')));
  app.post('/admin/mandates', async (request, reply) => {
    const { totp_code, ...input } = readBody(request, mandateInput.extend(factorFields));
    const accountId = accountOf(request);
    await knownTimeZone(deps.sql, input.time_zone);
    if (input.activate) await requireFactor(deps, request, totp_code);
    const id = await deps.commands.command(accountId, (context) => createMandate(context, deps.custody, input));
    return reply.code(201).send(await one(accountId, id));
  });
  for (const step of Object.keys(STEPS) as MandateStep[]) {
    app.post(`/admin/mandates/:id/${step}`, async (request) => {
      const { totp_code, ...given } = readBody(request, stepInput.extend(factorFields));
      const [accountId, id] = [accountOf(request), idParam(request, 'mdt')];
      // Whoever wants to suspend must not look for a code first.
      if (step !== 'suspend') await requireFactor(deps, request, totp_code);
      await deps.commands.command(accountId, (context) => moveMandate(context, id, step, given));
      return one(accountId, id);
    });
  }
}

/**
 * Checks a zone before a command; the database reads every zone's file for it: too long for an account's lock, and it
 * never changes.
 *
 * @throws ProblemError 422 naming `time_zone`
 */
export async function knownTimeZone(sql: Sql, zone: string): Promise<void> {
  if (zone === 'UTC') return;
  const known = await sql`select from pg_timezone_names where name = ${zone}`;
  if (known.length === 0)
    throw invalidFields([{ field: 'time_zone', message: 'is not a time zone the database knows' }]);
}

/**
 * Makes a mandate of the command's account, with the key of its agent where it names none; returns its identifier.
 *
 * @throws ProblemError 409 `conflict` where the account has as many as it may
 */
export async function createMandate(context: CommandContext, custody: Custody, input: MandateInput): Promise<string> {
  const [living] = await context.sql<{ count: number }[]>`
    select count(*) as count from (
      select from mandates where account_id = ${context.accountId} and status in ('draft', 'active', 'suspended')
      limit ${LIVING_MANDATES_MAX}) l`;
  if (living === undefined || living.count >= LIVING_MANDATES_MAX) {
    throw new ProblemError('conflict', MANDATES_FULL);
  }
  return insertMandate(context, custody, input);
}

/** The same however many there are: for whoever has a bound of their own. */
export async function insertMandate(context: CommandContext, custody: Custody, input: MandateInput): Promise<string> {
  const terms: MandateTerms = {
    mandate_id: newTypeId('mdt', context.nowMs),
    version: 1,
    scope: input.scope,
    currency: input.currency,
    ...limitsOf(input),
    counterparties: input.counterparties,
    agent_did: input.agent_did,
    time_zone: input.time_zone,
    valid_until: validUntil(input, context.nowMs),
    max_uses: input.max_uses ?? null,
  };
  const wording = shownWording(terms, input.wording);
  const status: MandateStatus = input.activate ? 'active' : 'draft';
  await context.sql`
    insert into mandates (account_id, mandate_id, version, name, status, scope, currency, per_action, per_month,
      escalation_threshold, counterparties, agent_did, time_zone, valid_until, max_uses, digest, created_at, changed_at)
    values (${context.accountId}, ${terms.mandate_id}, 1, ${input.name}, ${status}, ${[...terms.scope]},
      ${terms.currency}, ${terms.per_action}, ${terms.per_month}, ${terms.escalation_threshold},
      ${[...terms.counterparties]}, ${terms.agent_did}, ${terms.time_zone}, ${terms.valid_until}, ${terms.max_uses},
      ${mandateDigest(terms)}, ${context.now}, ${context.now})`;
  if (terms.agent_did === '') await createAgentKey(context, custody, terms.mandate_id);
  context.append('mandate.created', { ...evidenceOf(terms), name: input.name, ...wording });
  if (input.activate) context.append('mandate.activated', { ...stepOf(terms, null), status, ...wording });
  return terms.mandate_id;
}

/**
 * Moves a mandate between its states.
 *
 * @throws ProblemError 404, 409 where the step does not lead on from its state or the wording is another
 */
export async function moveMandate(
  context: CommandContext,
  id: string,
  step: MandateStep,
  given: StepInput,
): Promise<void> {
  const rows = await context.sql.unsafe<({ status: MandateStatus } & Record<string, unknown>)[]>(
    `select ${MANDATE_TERMS_COLUMNS}, status from mandates where account_id = $1 and mandate_id = $2`,
    [context.accountId, id],
  );
  const row = rows[0];
  if (row === undefined) throw unknownMandate();
  const status = nextStatus(row.status, step);
  if (status === null)
    throw new ProblemError('conflict', `The mandate is ${row.status}; it cannot ${step} from there.`);
  const terms = mandateTerms(row);
  if (step !== 'revoke' && terms.valid_until !== null && Date.parse(terms.valid_until) <= context.nowMs) {
    throw new ProblemError('conflict', 'The mandate has expired.');
  }
  const wording = shownWording(terms, given.wording);
  await context.sql`update mandates set status = ${status}, stopped = false, changed_at = ${context.now}
    where account_id = ${context.accountId} and mandate_id = ${id}`;
  context.append(STEPS[step], { ...stepOf(terms, given.reason ?? null), status, ...wording });
}

/** What evidence says of a step: the mandate, and why. */
export function stepOf(terms: MandateTerms, reason: string | null): Record<string, JsonValue> {
  const { mandate_id, version } = terms;
  return { mandate_id, version, digest: mandateDigest(terms), reason };
}

/** What evidence says of terms: all of them, and their digest. */
export function evidenceOf(terms: MandateTerms): Record<string, JsonValue> {
  const complete = { ...terms, scope: [...terms.scope], counterparties: [...terms.counterparties] };
  return { terms: complete, digest: mandateDigest(terms) };
}

/** The answer where an account has no such mandate. */
export function unknownMandate(): ProblemError {
  return new ProblemError('not_found', 'There is no such mandate.');
}
