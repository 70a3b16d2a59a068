import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { scopeCovers } from '../../core/action.ts';
import { DecimalText, invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { type MandateStatus, type MandateTerms, mandateDigest, TERMINAL_STATES } from '../../core/mandate.ts';
import { mandateChanges, type TermChange, termsView } from '../../core/mandate-changes.ts';
import { mandateWords, WORDING_LANGUAGES } from '../../core/mandate-words.ts';
import { formatMinor } from '../../core/money.ts';
import { factorFields, requireFactor } from '../admin/factor.ts';
import { accountOf } from '../admin/session.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { limitsOf, type MandateChange, mandateChange, validUntil } from './input.ts';
import { evidenceOf, unknownMandate } from './routes.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from './terms.ts';
import { mandateView, readMandate } from './view.ts';
import { shownWording } from './wording.ts';

/** Versions of one page: each may have 44 kB of counterparties, told with its terms and with what changed. */
const VERSIONS_PAGE = 20;
/** Tools that are named as no longer covered. */
const UNCOVERED_MAX = 50;

const versionsQuery = z.strictObject({ after: wholeQuery(1, 2_147_483_647).optional() });
const wordingQuery = z.strictObject({ language: z.enum(WORDING_LANGUAGES).default('en') });

interface Changed {
  readonly changes: readonly TermChange[];
  readonly uncovered: readonly string[];
}

/** The routes of a mandate's versions: new terms, the terms it had, and the terms in words. */
export function registerMandateVersionRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.post('/admin/mandates/:id/change', async (request) => {
    const [accountId, id] = [accountOf(request), idParam(request, 'mdt')];
    const { totp_code, ...input } = readBody(request, mandateChange.extend(factorFields));
    await requireFactor(deps, request, totp_code);
    const { changes, uncovered } = await deps.commands.command(accountId, (context) =>
      changeMandate(context, id, input),
    );
    const record = await readMandate(deps.sql, accountId, id);
    if (record === undefined) throw unknownMandate();
    return { ...mandateView(record), changes, uncovered_tools: uncovered };
  });
  app.get('/admin/mandates/:id/versions', async (request) => {
    const { after = null } = readQuery(request, versionsQuery);
    const { versions, next } = await readVersions(deps.sql, accountOf(request), idParam(request, 'mdt'), after);
    // A mandate has its first version for good: below that one there is nothing, and above it always something.
    if (versions.length === 0 && after === null) throw unknownMandate();
    return { versions: versions.map(versionView), next };
  });
  app.get('/admin/mandates/:id/wording', async (request) => {
    const { language } = readQuery(request, wordingQuery);
    const record = await readMandate(deps.sql, accountOf(request), idParam(request, 'mdt'));
    if (record === undefined) throw unknownMandate();
    return { language, version: record.terms.version, text: mandateWords(record.terms, language) };
  });
}

interface MandateRow extends Readonly<Record<string, unknown>> {
  readonly status: MandateStatus;
  readonly uses: number;
}

/**
 * Puts new terms into force: they hold for every decision after this command, and what was allowed before stays as it
 * is. A limit below what is used already allows nothing more.
 */
export async function changeMandate(context: CommandContext, id: string, input: MandateChange): Promise<Changed> {
  const { sql, accountId, now, nowMs } = context;
  const [row] = await sql.unsafe<MandateRow[]>(
    `select ${MANDATE_TERMS_COLUMNS}, status, uses from mandates where account_id = $1 and mandate_id = $2`,
    [accountId, id],
  );
  if (row === undefined) throw unknownMandate();
  const before = mandateTerms(row);
  assertChangeable(before, row.status, nowMs, input.version);
  const after: MandateTerms = { ...changedTerms(before, input, nowMs), version: before.version + 1 };
  if (after.max_uses !== null && after.max_uses < row.uses) {
    throw invalidFields([{ field: 'max_uses', message: `must be at least ${row.uses}: so often it was used` }]);
  }
  const changes = mandateChanges(before, after);
  if (changes.length === 0) throw invalidFields([{ field: '(body)', message: 'must change something' }]);
  const wording = shownWording(after, input.wording);
  await sql`
    update mandates set version = ${after.version}, scope = ${[...after.scope]}, per_action = ${after.per_action},
      per_month = ${after.per_month}, escalation_threshold = ${after.escalation_threshold},
      counterparties = ${[...after.counterparties]}, valid_until = ${after.valid_until}, max_uses = ${after.max_uses},
      digest = ${mandateDigest(after)}, changed_at = ${now}
    where account_id = ${accountId} and mandate_id = ${id}`;
  context.append('mandate.changed', {
    ...evidenceOf(after),
    ...wording,
    before: { version: before.version, digest: mandateDigest(before) },
    reason: input.reason ?? null,
  });
  return { changes, uncovered: await uncoveredTools(sql, accountId, after) };
}

function assertChangeable(terms: MandateTerms, status: MandateStatus, nowMs: number, version?: number): void {
  const over = terms.valid_until !== null && Date.parse(terms.valid_until) <= nowMs;
  if (TERMINAL_STATES.includes(status) || over) {
    const state = over ? 'expired' : status;
    throw new ProblemError('conflict', `The mandate is ${state}; its terms cannot change any more.`);
  }
  if (version !== undefined && version !== terms.version) {
    const detail = `The mandate has version ${terms.version} by now; look at it again before you change it.`;
    throw new ProblemError('conflict', detail);
  }
}

/** The terms that a change makes of those before; @throws ProblemError 422 naming each field that cannot be. */
export function changedTerms(before: MandateTerms, input: MandateChange, nowMs: number): MandateTerms {
  const { currency } = before;
  const kept = (minor: number) => new DecimalText(formatMinor(minor, currency));
  const { escalation_threshold: threshold, valid_until, max_uses } = input;
  const keptThreshold = before.escalation_threshold === null ? null : kept(before.escalation_threshold);
  return {
    ...before,
    scope: input.scope ?? before.scope,
    ...limitsOf({
      currency,
      amount_limit_per_action: input.amount_limit_per_action ?? kept(before.per_action),
      amount_limit_per_month: input.amount_limit_per_month ?? kept(before.per_month),
      escalation_threshold: threshold === undefined ? keptThreshold : threshold,
    }),
    counterparties: input.counterparties ?? before.counterparties,
    valid_until: valid_until === undefined ? before.valid_until : validUntil({ valid_until }, nowMs),
    max_uses: max_uses === undefined ? before.max_uses : max_uses,
  };
}

/** Tools whose requests are denied from now on, because the new scope does not cover what they are mapped to. */
export async function uncoveredTools(
  sql: Sql,
  accountId: string,
  { mandate_id, scope }: MandateTerms,
): Promise<string[]> {
  const rows = await sql<{ pattern: string; action_type: string }[]>`
    select t.pattern, t.mapping ->> 'action_type' as action_type from tools t
    join gateway_instances i on i.account_id = t.account_id and i.instance_id = t.instance_id
    where t.account_id = ${accountId} and i.mandate_id = ${mandate_id} and t.state = 'mapped' order by t.pattern`;
  const outside = rows.filter(({ action_type }) => !scopeCovers(scope, action_type));
  return outside.slice(0, UNCOVERED_MAX).map(({ pattern }) => pattern);
}

/** One version of a mandate's terms, and those before it; `effectiveAt` in Unix milliseconds. */
export interface MandateVersion {
  readonly terms: MandateTerms;
  readonly before: MandateTerms | null;
  readonly digest: string;
  readonly effectiveAt: number;
}

/** Some versions of a mandate; `next` is the one to go on after, null where there are no more. */
export interface VersionPage {
  readonly versions: readonly MandateVersion[];
  readonly next: number | null;
}

/** The versions of a mandate, the newest first: a page of them, from the one after `after` on. */
export async function readVersions(
  sql: Sql,
  accountId: string,
  id: string,
  after: number | null,
): Promise<VersionPage> {
  const rows = await sql.unsafe<(Readonly<Record<string, unknown>> & { digest: string; effective_at: number })[]>(
    `select ${MANDATE_TERMS_COLUMNS}, digest, effective_at from mandate_versions
     where account_id = $1 and mandate_id = $2 and ($3::integer is null or version < $3)
     order by version desc limit ${VERSIONS_PAGE + 1}`,
    [accountId, id, after],
  );
  const terms = rows.map(mandateTerms);
  const versions = rows.slice(0, VERSIONS_PAGE).map(({ digest, effective_at: effectiveAt }, at) => {
    return { terms: terms[at]!, before: terms[at + 1] ?? null, digest, effectiveAt };
  });
  return { versions, next: rows.length > VERSIONS_PAGE ? (versions.at(-1)?.terms.version ?? null) : null };
}

function versionView({ terms, before, digest, effectiveAt }: MandateVersion) {
  return {
    version: terms.version,
    effective_at: new Date(effectiveAt).toISOString(),
    digest,
    terms: termsView(terms),
    changes: before === null ? [] : mandateChanges(before, terms),
  };
}
