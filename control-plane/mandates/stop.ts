import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { ProblemError } from '../../core/errors.ts';
import { factorFields, requireFactor } from '../admin/factor.ts';
import { accountOf } from '../admin/session.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { reasonText } from './input.ts';

const stopBody = z.strictObject({ reason: reasonText.optional(), ...factorFields });

/** Mandates of each kind that are told by name. */
const NAMED_MAX = 30;

const STOP = {
  kind: 'mandate.suspended',
  status: 'suspended',
  nothing: 'No mandate of the account is active: there is nothing to stop.',
} as const;
const RESUME = {
  kind: 'mandate.resumed',
  status: 'active',
  nothing: 'No mandate is suspended by a stop of the account: there is nothing to resume.',
} as const;

interface Moved {
  readonly mandate_id: string;
  readonly name: string;
  readonly version: number;
  readonly digest: string;
}

/** The account's stop: one command suspends every active mandate, another resumes those that it suspended. */
export function registerStopRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  for (const [path, run] of [
    ['/admin/account/stop', stopAccount],
    ['/admin/account/resume', resumeAccount],
  ] as const) {
    app.post(path, async (request) => {
      const { reason = null, totp_code } = readBody(request, stopBody);
      // Whoever wants to stop must not look for a code first.
      if (run === resumeAccount) await requireFactor(deps, request, totp_code);
      const moved = await deps.commands.command(accountOf(request), (context) => run(context, reason));
      return { mandates: moved.map(({ mandate_id, name }) => ({ mandate_id, name })) };
    });
  }
}

/** Suspends every active mandate of the account; @throws ProblemError 409 where there is none. */
export async function stopAccount(context: CommandContext, reason: string | null): Promise<readonly Moved[]> {
  const { sql, accountId, now } = context;
  const moved = await sql<Moved[]>`
    update mandates set status = 'suspended', stopped = true, changed_at = ${now}
    where account_id = ${accountId} and status = 'active' and (valid_until is null or valid_until > ${now})
    returning mandate_id, name, version, digest`;
  return recorded(context, STOP, moved, reason);
}

/** Resumes the mandates that a stop suspended; @throws ProblemError 409 where there is none. */
export async function resumeAccount(context: CommandContext, reason: string | null): Promise<readonly Moved[]> {
  const { sql, accountId, now } = context;
  const moved = await sql<Moved[]>`
    update mandates set status = 'active', stopped = false, changed_at = ${now}
    where account_id = ${accountId} and status = 'suspended' and stopped
      and (valid_until is null or valid_until > ${now})
    returning mandate_id, name, version, digest`;
  return recorded(context, RESUME, moved, reason);
}

/** Mandates by their number, and the names of the first of them. */
export interface CountedMandates {
  readonly count: number;
  readonly names: readonly string[];
}

/** What a stop of the account would suspend, and what one did. */
export interface StopView {
  readonly active: CountedMandates;
  readonly stopped: CountedMandates;
}

/** Whether the account is stopped, and whom a stop would hit. */
export async function readStop(sql: Sql, accountId: string): Promise<StopView> {
  const rows = await sql<{ stopped: boolean; count: number; names: string[] }[]>`
    select stopped, count(*) as count, (array_agg(name order by name))[1:${NAMED_MAX}::integer] as names
    from mandates
    where account_id = ${accountId} and status in ('draft', 'active', 'suspended')
      and (status = 'active' or (status = 'suspended' and stopped))
      and (valid_until is null or valid_until > db_clock())
    group by stopped`;
  const of = (stopped: boolean): CountedMandates => {
    const found = rows.find((row) => row.stopped === stopped);
    return { count: Number(found?.count ?? 0), names: found?.names ?? [] };
  };
  return { active: of(false), stopped: of(true) };
}

/** An entry each, as if every mandate had been moved by itself; `all` says that it was not. */
function recorded(
  context: CommandContext,
  { kind, status, nothing }: typeof STOP | typeof RESUME,
  moved: readonly Moved[],
  reason: string | null,
): readonly Moved[] {
  if (moved.length === 0) throw new ProblemError('conflict', nothing);
  const sorted = [...moved].sort((a, b) => (a.mandate_id < b.mandate_id ? -1 : 1));
  for (const { mandate_id, version, digest } of sorted) {
    context.append(kind, { mandate_id, version, digest, reason, status, all: true });
  }
  return sorted;
}
