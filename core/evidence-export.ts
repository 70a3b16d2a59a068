import { hash } from 'node:crypto';
import { z } from 'zod';
import { bodyValue, wholeNumber } from './body-value.ts';
import { canonicalize } from './jcs.ts';
import { isJsonObject, type JsonObject, parseStrictJson } from './json.ts';
import { CONSISTENCY_PROOF_MAX, TIMESTAMP_TOKEN_MAX_BYTES } from './limits.ts';
import { isTypeId } from './type-id.ts';

/*
 * A file of evidence: a header, the entries, a trailer, one a line. Every entry's line is the very text that was
 * hashed, so that its hash is SHA-256(0x00 || line), and nobody needs to write JSON the same way again to check it.
 * As NDJSON the three are lines of their own; as JSON they are one object, laid out in the same lines.
 */

/** The type of the header of an export's receipt. */
export const EXPORT_RECEIPT_TYPE = 'evidence-export+jwt';

export const EXPORT_FORMATS = ['json', 'ndjson'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

const FILE_FORMAT = 'mandate-evidence-export';
const FILE_VERSION = 1;

/** What stands before the entries; `toSeq` is the last of them. Hashes are hex. */
export interface ExportHeader {
  readonly account: string;
  readonly issuer: string;
  readonly fromSeq: number;
  readonly toSeq: number;
  /** The hash of the entry before the first one; 64 zeros before entry 0. */
  readonly prev: string;
  /** The right edge of the tree of the entries before the first one: with it the file alone gives the root. */
  readonly edge: readonly string[];
}

/** What stands after the entries: their tree (of everything up to the last of them), and what was signed. */
export interface ExportTrailer {
  readonly size: number;
  readonly root: string;
  readonly receipt: string;
  /** An RFC 3161 token over the root: base64 of its DER. */
  readonly timestamp: string | null;
}

/** What an export's receipt states: all that is needed to check a file alone. `at` is the database's time. */
export interface ExportClaims extends Omit<ExportHeader, 'edge'> {
  /** The export's own entry in the evidence. */
  readonly exportId: string;
  readonly at: string;
  readonly size: number;
  readonly root: string;
  /** The hash of the last entry. */
  readonly last: string;
  /** How many entries the account had when it was exported, the export's own included. */
  readonly logSize: number;
  /** SHA-256 (hex) of the timestamp's DER, or null. */
  readonly timestampSha256: string | null;
  /** Why there is no timestamp where one was asked for, or null. */
  readonly timestampProblem: string | null;
}

/** SHA-256 (hex) of a timestamp in base64: how the receipt names it. */
export function timestampDigest(base64: string): string {
  return hash('sha256', Buffer.from(base64, 'base64'), 'hex');
}

/** The JSON text of a receipt's claims; `iat` is the NumericDate of `at` (RFC 7519 §2). */
export function exportClaims(claims: ExportClaims): string {
  return JSON.stringify({
    iss: claims.issuer,
    sub: claims.account,
    jti: claims.exportId,
    iat: Math.floor(Date.parse(claims.at) / 1000),
    at: claims.at,
    from_seq: claims.fromSeq,
    to_seq: claims.toSeq,
    prev: claims.prev,
    last: claims.last,
    size: claims.size,
    root: claims.root,
    log_size: claims.logSize,
    timestamp_sha256: claims.timestampSha256,
    timestamp_problem: claims.timestampProblem,
  });
}

const sha256Hex = z.string().regex(/^[0-9a-f]{64}$/);
const account = z.string().refine((text) => isTypeId(text, 'acc'));
const issuer = z.url({ protocol: /^https?$/ });
const time = z.string().refine((text) => Number.isFinite(Date.parse(text)) && new Date(text).toISOString() === text);

const claimsSchema = z.strictObject({
  iss: issuer,
  sub: account,
  jti: z.string().refine((text) => isTypeId(text, 'evt')),
  iat: wholeNumber,
  at: time,
  from_seq: wholeNumber,
  to_seq: wholeNumber,
  prev: sha256Hex,
  last: sha256Hex,
  size: wholeNumber,
  root: sha256Hex,
  log_size: wholeNumber,
  timestamp_sha256: sha256Hex.nullable(),
  timestamp_problem: z.string().nullable(),
});

/** The claims in a payload that `checkJws` accepted as EXPORT_RECEIPT_TYPE, or null where they are of no export. */
export function readExportClaims(payload: JsonObject): ExportClaims | null {
  const parsed = claimsSchema.safeParse(bodyValue(payload));
  if (!parsed.success) return null;
  const { iss, sub, jti, iat, at, from_seq, to_seq, prev, last, size, root, log_size } = parsed.data;
  const whole = from_seq <= to_seq && size === to_seq + 1 && size <= log_size;
  if (!whole || Math.floor(Date.parse(at) / 1000) !== iat) return null;
  return {
    ...{ issuer: iss, account: sub, exportId: jti, at, fromSeq: from_seq, toSeq: to_seq, prev, last, size, root },
    ...{ logSize: log_size, timestampSha256: parsed.data.timestamp_sha256 },
    timestampProblem: parsed.data.timestamp_problem,
  };
}

/** The first line of a file, without its line feed. */
export function headerLine(header: ExportHeader, format: ExportFormat): string {
  const { account: of, issuer: iss, fromSeq, toSeq, prev, edge } = header;
  const text = canonicalize({
    ...{ format: FILE_FORMAT, version: FILE_VERSION, account: of, issuer: iss, from_seq: fromSeq, to_seq: toSeq },
    ...{ count: toSeq - fromSeq + 1, prev, edge: [...edge] },
  });
  return format === 'ndjson' ? text : `${text.slice(0, -1)}${JSON_ENTRIES}`;
}

/** The last line of a file, without its line feed. */
export function trailerLine(trailer: ExportTrailer, format: ExportFormat): string {
  const { size, root, receipt, timestamp } = trailer;
  const text = canonicalize({ size, root, receipt, ...(timestamp === null ? {} : { timestamp }) });
  return format === 'ndjson' ? text : `]${JSON_MORE}${text.slice(1)}`;
}

/** What begins the list of entries behind the header's members, and what ends it before the trailer's. */
const JSON_ENTRIES = ',"entries":[';
const JSON_MORE = ',';

const headerSchema = z.strictObject({
  format: z.literal(FILE_FORMAT),
  version: wholeNumber.refine((version) => version === FILE_VERSION),
  account,
  issuer,
  from_seq: wholeNumber,
  to_seq: wholeNumber,
  count: wholeNumber,
  prev: sha256Hex,
  edge: z.array(sha256Hex).max(CONSISTENCY_PROOF_MAX),
});

/** The header in a file's first line and the format of the file, or null where it is not of the form to the byte. */
export function readHeader(line: Buffer): { readonly header: ExportHeader; readonly format: ExportFormat } | null {
  const text = line.toString('utf8');
  const format: ExportFormat = text.endsWith(JSON_ENTRIES) ? 'json' : 'ndjson';
  const parsed = headerSchema.safeParse(objectOf(format === 'json' ? `${text.slice(0, -JSON_ENTRIES.length)}}` : text));
  if (!parsed.success) return null;
  const { account: of, issuer: iss, from_seq: fromSeq, to_seq: toSeq, prev, edge } = parsed.data;
  const header = { account: of, issuer: iss, fromSeq, toSeq, prev, edge };
  // What is written in another way than it is written here was changed by somebody, however little.
  return fromSeq <= toSeq && headerLine(header, format) === text ? { header, format } : null;
}

const trailerSchema = z.strictObject({
  size: wholeNumber,
  root: sha256Hex,
  receipt: z.string(),
  timestamp: z
    .base64()
    .min(1)
    .max(Math.ceil(TIMESTAMP_TOKEN_MAX_BYTES / 3) * 4)
    .refine((text) => Buffer.from(text, 'base64').toString('base64') === text)
    .optional(),
});

/** The trailer in a file's last line, or null where it is not of the form to the byte. */
export function readTrailer(line: Buffer, format: ExportFormat): ExportTrailer | null {
  const text = line.toString('utf8');
  if (format === 'json' && !text.startsWith(`]${JSON_MORE}`)) return null;
  const parsed = trailerSchema.safeParse(objectOf(format === 'json' ? `{${text.slice(2)}` : text));
  if (!parsed.success) return null;
  const { size, root, receipt, timestamp = null } = parsed.data;
  const trailer: ExportTrailer = { size, root, receipt, timestamp };
  return trailerLine(trailer, format) === text ? trailer : null;
}

function objectOf(text: string): unknown {
  try {
    const node = parseStrictJson(Buffer.from(text));
    return isJsonObject(node) ? bodyValue(node) : null;
  } catch {
    return null;
  }
}
