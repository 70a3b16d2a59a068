import { VERIFICATIONS_A_TURN } from '../../core/limits.ts';

/**
 * Hands out the thread for work that keeps it: so many pieces in one turn of the event loop, in their order.
 *
 * Requests that arrive together are otherwise all verified before the first is sent on, their answers come together
 * too, and so do the next requests: proxy and control plane then wait for each other in turn.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #scheduled = false;

  /** Resolves when it is this piece's turn. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    this.#scheduled = false;
    for (const resolve of this.#waiting.splice(0, VERIFICATIONS_A_TURN)) resolve();
    if (this.#waiting.length > 0) this.#schedule();
  };
}
