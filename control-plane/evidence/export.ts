import { invalidFields } from '../../core/body-value.ts';
import type { ProblemError } from '../../core/errors.ts';
import { CHAIN_START } from '../../core/evidence.ts';
import {
  EXPORT_RECEIPT_TYPE,
  type ExportClaims,
  type ExportFormat,
  type ExportHeader,
  exportClaims,
  headerLine,
  timestampDigest,
  trailerLine,
} from '../../core/evidence-export.ts';
import { ExportCheck } from '../../core/export-check.ts';
import { EXPORT_PAGE_ENTRIES, EXPORT_PAGE_TARGET_BYTES } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { EvidenceContradiction, edgeHashesOf, rootOf } from './tree.ts';
import { signedTreeHead } from './tree-heads.ts';

/** What is exported, and for whom; `toSeq` is the last entry, null: the export's own. */
export interface ExportAsked {
  readonly accountId: string;
  readonly fromSeq: number;
  readonly toSeq: number | null;
  readonly format: ExportFormat;
  readonly timestamp: boolean;
  /** The API key or the account that asked. */
  readonly exportedBy: string;
}

/** An export that was recorded: nothing of its range changes any more. */
export interface RecordedExport extends ExportAsked {
  readonly toSeq: number;
  readonly exportId: string;
  readonly at: string;
  readonly logSize: number;
}

export type ExportMeans = Pick<RouteDependencies, 'sql' | 'commands' | 'signing' | 'issuer' | 'timestamps'>;

/**
 * Records that somebody exports a range, before anything of it is read. Without an end the range ends with this very
 * entry, so that a file up to the end holds its own record.
 *
 * @throws ProblemError 422 where the range ends behind the chain or before it begins; then nothing is recorded
 */
export async function recordExport({ commands }: ExportMeans, asked: ExportAsked): Promise<RecordedExport> {
  const { accountId, fromSeq, format, timestamp, exportedBy } = asked;
  return commands.command(accountId, async (context: CommandContext) => {
    const [head] = await context.sql<{ size: number }[]>`
      select size from account_heads where account_id = ${accountId}`;
    const own = head?.size ?? 0;
    const toSeq = asked.toSeq ?? own;
    if (toSeq > own) throw outside('to_seq', own);
    if (fromSeq > toSeq) throw outside('from_seq', toSeq);
    const range = { from_seq: fromSeq, to_seq: toSeq };
    const body = { ...range, format, timestamp, exported_by: exportedBy };
    const { id, seq, at } = context.append('evidence.exported', body);
    if (seq !== own) throw new Error('an export was recorded at another place than it was to be');
    return { ...asked, toSeq, exportId: id, at, logSize: own + 1 };
  });
}

function outside(field: string, last: number): ProblemError {
  return invalidFields([{ field, message: `must be a whole number from 0 to ${last}, the last entry there is` }]);
}

/** An export that can be streamed: all that was still to be found out is known. */
export interface PreparedExport {
  readonly header: ExportHeader;
  readonly claims: Omit<ExportClaims, 'last'>;
  readonly timestamp: string | null;
  readonly format: ExportFormat;
}

/**
 * Finds the root, the edge and the timestamp of a recorded export.
 *
 * @throws EvidenceContradiction where the entries are not those of the tree head that was signed last; ProblemError 503
 * where a timestamp is required and cannot be had
 */
export async function prepareExport(means: ExportMeans, recorded: RecordedExport): Promise<PreparedExport> {
  const { sql, issuer } = means;
  const { accountId, fromSeq, toSeq, exportId, at, logSize, format } = recorded;
  // Nothing is signed about a log that contradicts what was signed before.
  await signedTreeHead(means, accountId, logSize);
  const tree = { accountId, size: toSeq + 1 };
  const [root, edge] = [await rootOf(sql, tree), await edgeHashesOf(sql, { accountId, size: fromSeq })];
  const prev = fromSeq === 0 ? CHAIN_START : await hashAt(sql, accountId, fromSeq - 1);
  const stamped = recorded.timestamp ? await timestampOf(means, { ...tree, root }) : { token: null, why: null };
  const timestampSha256 = stamped.token === null ? null : timestampDigest(stamped.token);
  return {
    header: { account: accountId, issuer, fromSeq, toSeq, prev, edge },
    claims: {
      ...{ account: accountId, issuer, exportId, at, fromSeq, toSeq, prev, size: tree.size, root, logSize },
      ...{ timestampSha256, timestampProblem: stamped.why },
    },
    timestamp: stamped.token,
    format,
  };
}

async function hashAt(sql: Sql, accountId: string, seq: number): Promise<string> {
  const [row] = await sql<{ hash: string }[]>`
    select encode(hash, 'hex') as hash from evidence where account_id = ${accountId} and seq = ${seq}`;
  if (row === undefined) throw new EvidenceContradiction(`entry ${seq} of ${accountId} is missing`);
  return row.hash;
}

async function timestampOf(
  { timestamps }: ExportMeans,
  head: { readonly accountId: string; readonly size: number; readonly root: string },
): Promise<{ readonly token: string | null; readonly why: string | null }> {
  if (timestamps === undefined) return { token: null, why: 'No timestamping authority is configured here.' };
  const { timestamp, why } = await timestamps.timestampNow(head);
  return { token: timestamp?.token.toString('base64') ?? null, why };
}

/**
 * The file of an export in pieces, each read when the one before was taken; the next page is read meanwhile.
 *
 * What goes out is checked on its way as whoever receives it would, and the receipt is signed last: over entries that
 * do not give the stored root there is none, and the file ends without its last line. `done` hears of each piece.
 *
 * @throws EvidenceContradiction where the entries are not what they were when they were recorded
 */
export async function* exportFile(
  { sql, signing }: Pick<ExportMeans, 'sql' | 'signing'>,
  { header, claims, timestamp, format }: PreparedExport,
): AsyncGenerator<Buffer> {
  // Their hashes say that bodies are what was written; reading each again would cost as much as all the rest.
  const check = new ExportCheck(null, undefined, { readsBodies: false });
  const checked = (piece: Buffer): Buffer => {
    check.push(piece);
    if (check.problem !== null) throw contradiction(header.account, check.problem.seq, check.problem.problem);
    return piece;
  };
  yield checked(Buffer.from(`${headerLine(header, format)}\n`));
  const { account, fromSeq, toSeq } = header;
  const read = (from: number, entries: number) => readPage(sql, { account, from, entries, toSeq, format });
  let next: Promise<Page> | null = read(fromSeq, EXPORT_FIRST_PAGE_ENTRIES);
  for (let page = await next; next !== null; ) {
    next = page.toSeq < toSeq ? read(page.toSeq + 1, page.nextEntries) : null;
    // Nobody may be there any more to hear of it.
    next?.catch(() => {});
    yield checked(page.lines);
    if (next !== null) page = await next;
  }
  const { lastHash: last } = check;
  if (last === null || check.root !== claims.root) throw contradiction(account, null, 'their root is another one');
  const receipt = await signing.signLater(EXPORT_RECEIPT_TYPE, exportClaims({ ...claims, last }));
  const { size, root } = claims;
  yield checked(Buffer.from(`${trailerLine({ size, root, receipt, timestamp }, format)}\n`));
}

function contradiction(account: string, seq: number | null, problem: string): EvidenceContradiction {
  const what = seq === null ? 'the entries' : `entry ${seq}`;
  return new EvidenceContradiction(`an export of ${account} was broken off: ${what} of it: ${problem}`);
}

/** Nothing is known of how large they are. */
const EXPORT_FIRST_PAGE_ENTRIES = 32;

/** Entries as they go out, each with its line feed, the last of them, and how many the next page should have. */
interface Page {
  readonly lines: Buffer;
  readonly toSeq: number;
  readonly nextEntries: number;
}

interface PageAsked {
  readonly account: string;
  readonly from: number;
  readonly entries: number;
  readonly toSeq: number;
  readonly format: ExportFormat;
}

/** The database puts the lines together: far cheaper than a row of columns for each. */
async function readPage(sql: Sql, { account, from, entries: most, toSeq, format }: PageAsked): Promise<Page> {
  const separator = format === 'json' ? ',\n' : '\n';
  const last = Math.min(from + most - 1, toSeq);
  const end = last < toSeq ? separator : '\n';
  // Raw: the text goes out as the bytes that came, never through a string.
  const [page] = await sql`
    select count(*) as entries, string_agg(
      '{"account":"' || account_id || '","at":"' || at || '","body":' || body || ',"id":"' || id || '","kind":"' || kind
      || '","prev":"' || encode(prev, 'hex') || '","seq":' || seq::text || '}', ${separator}::text order by seq
    ) || ${end}::text as lines
    from evidence where account_id = ${account} and seq >= ${from} and seq <= ${last}`.raw();
  const [entries, lines] = (page ?? []) as readonly (Buffer | null)[];
  if (Number(entries?.toString('latin1')) !== last - from + 1 || !lines) {
    throw contradiction(account, null, `some from ${from} to ${last} are missing`);
  }
  const fitting = Math.floor((EXPORT_PAGE_TARGET_BYTES * (last - from + 1)) / lines.length);
  return { lines, toSeq: last, nextEntries: Math.min(EXPORT_PAGE_ENTRIES, Math.max(1, fitting)) };
}
