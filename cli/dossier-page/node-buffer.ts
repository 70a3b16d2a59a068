import { hexToBytes } from '@noble/hashes/utils.js';

/** What the checker uses of `Buffer`, in a browser; the same answers as Node's (a test holds the two together). */
export class PageBuffer extends Uint8Array {
  static override from(source: unknown, second?: unknown, third?: unknown): PageBuffer {
    if (typeof source === 'string') return bytesOfText(source, second === undefined ? 'utf8' : String(second));
    if (source instanceof ArrayBuffer) return new PageBuffer(source, Number(second ?? 0), third as number | undefined);
    return new PageBuffer(source as ArrayLike<number>);
  }

  static alloc(size: number): PageBuffer {
    return new PageBuffer(size);
  }

  static concat(parts: readonly Uint8Array[]): PageBuffer {
    const whole = new PageBuffer(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  override toString(encoding = 'utf8'): string {
    switch (encoding) {
      case 'utf8':
        return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this);
      case 'latin1':
        return latin1(this);
      case 'base64url':
        return btoa(latin1(this)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
      default:
        throw new RangeError('the page does not know this encoding');
    }
  }
}

export { PageBuffer as Buffer };

/** Whether all bytes are below 128. */
export function isAscii(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte < 0x80);
}

/** Whether the bytes are UTF-8. */
export function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function bytesOfText(text: string, encoding: string): PageBuffer {
  if (encoding === 'utf8') return new PageBuffer(new TextEncoder().encode(text));
  if (encoding === 'hex') return new PageBuffer(hexToBytes(text));
  if (encoding !== 'base64url') throw new RangeError('the page does not know this encoding');
  // Node skips what it does not know; whoever calls compares with what is written again, which empty is not.
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return new PageBuffer(0);
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return new PageBuffer(Array.from(binary, (character) => character.charCodeAt(0)));
}

/** How many bytes are made into text at once: arguments of a call. */
const CHUNK_BYTES = 8192;

function latin1(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  }
  return text;
}
