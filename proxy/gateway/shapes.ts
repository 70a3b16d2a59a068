import { LRUCache } from 'lru-cache';
import { type RequestShape, shapeOf } from '../../core/request-shape.ts';
import type { Exchange } from './exchange.ts';

/** Tools whose shape was told that a worker remembers; telling one that is forgotten again costs microseconds. */
const TOLD_MAX = 2_000;
/** A tool's shape is told again after this, in milliseconds: whoever maps it wants to see optional fields as well. */
const TOLD_AGAIN_MS = 300_000;

/**
 * Which requests tell their shape: those that nothing could be read from, and of one tool only now and then.
 *
 * A request that is read by its mapping never comes here.
 */
export class Shapes {
  readonly #told = new LRUCache<string, true>({ max: TOLD_MAX, ttl: TOLD_AGAIN_MS });

  /** The shape to send along, or null where it was told lately or the body was not read. */
  due(exchange: Exchange): RequestShape | null {
    if (exchange.bytes === null || this.#told.has(keyOf(exchange))) return null;
    exchange.shape ??= shapeOf(exchange);
    return exchange.shape;
  }

  /** The control plane denied the request as one of an unknown form, so it has kept the shape. */
  denied(exchange: Exchange): void {
    if (exchange.shape !== null) this.#told.set(keyOf(exchange), true);
  }
}

function keyOf({ tokenHash, name }: Exchange): string {
  return `${tokenHash} ${name}`;
}
