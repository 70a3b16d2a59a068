import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { z } from 'zod';
import { EXPORT_FORMATS, type ExportFormat } from '../../core/evidence-export.ts';
import { EXPORT_STALL_MS } from '../../core/limits.ts';
import { accountOf } from '../admin/session.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody, wholeNumber } from '../http/request.ts';
import { type ExportAsked, exportFile, prepareExport, type RecordedExport, recordExport } from './export.ts';
import { type LongRead, longReads } from './long-reads.ts';

const seq = wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** The body of POST /api/v1/evidence/export (contract §10). */
export const exportBody = z.strictObject({
  from_seq: seq.default(0).meta({ description: 'The first entry; 0 where nothing is said.' }),
  to_seq: seq.optional().meta({ description: "The last entry; without it the export's own." }),
  format: z.enum(EXPORT_FORMATS).default('json'),
  timestamp: z.boolean().default(false).meta({ description: 'Whether an RFC 3161 timestamp over the root is wanted.' }),
});
type ExportInput = z.infer<typeof exportBody>;

const MEDIA_TYPES: Readonly<Record<ExportFormat, string>> = {
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
};

/** Exports of evidence as streamed files, for software with an API key and for whoever is signed in (contract §10). */
export function registerExportRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.post('/api/v1/evidence/export', { config: { scope: 'evidence:read' } }, async (request, reply) => {
    const input = readBody(request, exportBody);
    const { accountId, keyId } = apiKeyOf(request);
    return sendExport(deps, reply, askedOf(input, accountId, keyId));
  });
  app.post('/admin/evidence/export', async (request, reply) => {
    const input = readBody(request, exportBody);
    const accountId = accountOf(request);
    return sendExport(deps, reply, askedOf(input, accountId, accountId));
  });
}

function askedOf(input: ExportInput, accountId: string, exportedBy: string): ExportAsked {
  const { from_seq: fromSeq, to_seq: toSeq = null, format, timestamp } = input;
  return { accountId, fromSeq, toSeq, format, timestamp, exportedBy };
}

/**
 * Answers with the file of an export, and has the account's turn for as long as it is on its way, whoever ends that.
 *
 * @throws ProblemError 409 where the account has one under way, 422 for no such range; nothing is sent then
 */
export async function sendExport(
  deps: RouteDependencies,
  reply: FastifyReply,
  asked: ExportAsked,
  headers: (recorded: RecordedExport) => Readonly<Record<string, string>> = () => ({}),
): Promise<FastifyReply> {
  let giveUp: (() => void) | null = null;
  const read = longReads(deps).take(asked.accountId, () => giveUp?.());
  try {
    const recorded = await recordExport(deps, asked);
    const prepared = await prepareExport(deps, recorded);
    const file = Readable.from(
      patient(exportFile(deps, prepared), read, () => file.destroy()),
      { objectMode: false },
    );
    giveUp = () => void file.destroy(new Error('its reader was slow and others waited for its place'));
    file.once('close', read.end);
    file.once('error', (error) => deps.logError(error, `an export of ${asked.accountId} was broken off`));
    return reply.headers(headers(recorded)).type(MEDIA_TYPES[asked.format]).send(file);
  } catch (error) {
    read.end();
    throw error;
  }
}

/** The pieces of a file, each made in its turn, given up on where the next one is not wanted within EXPORT_STALL_MS. */
async function* patient(pieces: AsyncGenerator<Buffer>, read: LongRead, giveUp: () => void): AsyncGenerator<Buffer> {
  try {
    for (let next = await read.step(() => pieces.next()); !next.done; next = await read.step(() => pieces.next())) {
      const stalled = setTimeout(giveUp, EXPORT_STALL_MS).unref();
      try {
        yield next.value;
      } finally {
        clearTimeout(stalled);
      }
    }
  } finally {
    await pieces.return(undefined);
  }
}
