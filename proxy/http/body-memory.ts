import { ProblemError } from '../../core/errors.ts';
import {
  BUFFERED_BODIES_MAX_BYTES,
  BUFFERED_BODIES_PER_TOKEN_MAX_BYTES,
  BUFFERED_SMALL_BODIES_MAX_BYTES,
  SMALL_BODY_MAX_BYTES,
} from '../../core/limits.ts';

/** A body that is held in memory; `fail` lets go of it while it is still being read. */
export interface HeldBody {
  /** The hash of the token or key that it came with, valid or not. */
  readonly owner: string;
  /** Bytes that are held of it. */
  readonly size: number;
  fail(error: ProblemError): void;
}

interface Owner {
  bytes: number;
  /** Bodies that are not here whole: those that may still be refused. */
  readonly reading: Set<HeldBody>;
}

/**
 * Memory for the bodies of one process. When it is full the owner who holds the most loses the largest body that it is
 * still sending, so that nobody takes it from others by sending slowly, or much.
 */
class BodyPool {
  readonly #owners = new Map<string, Owner>();
  readonly #maxBytes: number;
  readonly #perOwnerMaxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number, perOwnerMaxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#perOwnerMaxBytes = perOwnerMaxBytes;
  }

  /** Counts bytes that came for a body; it, or another one, may fail within. */
  grow(body: HeldBody, bytes: number): void {
    const owner = this.#owners.get(body.owner) ?? { bytes: 0, reading: new Set() };
    this.#owners.set(body.owner, owner);
    owner.bytes += bytes;
    owner.reading.add(body);
    this.#bytes += bytes;
    if (owner.bytes > this.#perOwnerMaxBytes) body.fail(full('This token'));
    while (this.#bytes > this.#maxBytes) {
      const heaviest = this.#heaviest();
      if (heaviest === null) return;
      heaviest.fail(full('This proxy'));
    }
  }

  /** A body is here whole: it stays until it is let go of. */
  whole(body: HeldBody): void {
    this.#owners.get(body.owner)?.reading.delete(body);
  }

  shrink(body: HeldBody, bytes: number): void {
    const owner = this.#owners.get(body.owner);
    if (owner === undefined) return;
    this.#bytes -= bytes;
    owner.bytes -= bytes;
    owner.reading.delete(body);
    if (owner.bytes === 0 && owner.reading.size === 0) this.#owners.delete(body.owner);
  }

  #heaviest(): HeldBody | null {
    let most: Owner | null = null;
    for (const owner of this.#owners.values()) {
      if (owner.reading.size > 0 && (most === null || owner.bytes > most.bytes)) most = owner;
    }
    let largest: HeldBody | null = null;
    for (const body of most?.reading ?? []) if (largest === null || body.size > largest.size) largest = body;
    return largest;
  }
}

function full(who: string): ProblemError {
  return new ProblemError('overloaded', `${who} holds too many request bodies at present.`, { retryAfterSeconds: 1 });
}

const SMALL = new BodyPool(BUFFERED_SMALL_BODIES_MAX_BYTES, BUFFERED_SMALL_BODIES_MAX_BYTES);
const LARGE = new BodyPool(BUFFERED_BODIES_MAX_BYTES, BUFFERED_BODIES_PER_TOKEN_MAX_BYTES);

/** What one body holds: of the memory for small ones until it is larger, so that large ones take nothing from those. */
export class BodyMemory {
  readonly #body: HeldBody;
  #pool = SMALL;
  #bytes = 0;

  constructor(body: HeldBody) {
    this.#body = body;
  }

  /** Counts bytes that came; the body is failed within where they are too many. */
  grow(bytes: number): void {
    const before = this.#bytes;
    this.#bytes += bytes;
    if (this.#pool === SMALL && this.#bytes > SMALL_BODY_MAX_BYTES) {
      SMALL.shrink(this.#body, before);
      this.#pool = LARGE;
      LARGE.grow(this.#body, this.#bytes);
    } else {
      this.#pool.grow(this.#body, bytes);
    }
  }

  whole(): void {
    this.#pool.whole(this.#body);
  }

  release(): void {
    this.#pool.shrink(this.#body, this.#bytes);
    this.#bytes = 0;
  }
}
