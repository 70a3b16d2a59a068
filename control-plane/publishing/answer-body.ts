/** More than the bound; the message says it, to go behind "answers with". */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

/** Times are bounded by the caller's signal, for the whole exchange, and sizes by {@link readBody}. */
export const UNLIMITED_BY_CLIENT = { headersTimeout: 0, bodyTimeout: 0 } as const;

interface Body extends AsyncIterable<Uint8Array> {
  destroy(): unknown;
}

/** The whole body of at most `maxBytes`; throws {@link BodyTooLarge} and ends the connection where there is more. */
export async function readBody(body: Body, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body) {
    bytes += part.length;
    if (bytes > maxBytes) {
      body.destroy();
      throw new BodyTooLarge(`more than ${maxBytes} bytes`);
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}
