/** What the load generator needs to reach a running contender, and whose cost is measured. */
export interface RunningContender {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Bearer tokens, one per account; none where the contender knows no accounts. */
  readonly tokens: readonly string[];
  /**
   * Process ids by the name their cost is reported under, as in `{ gateway: [1], postgres: [2] }`.
   * A process's direct children are counted with it: do not name them a second time.
   */
  readonly pids: Readonly<Record<string, readonly number[]>>;
  stop(): Promise<void>;
}

/** Something that forwards to the upstream and is measured beside the others. */
export interface Contender {
  readonly name: string;
  /** Starts it in processes of its own, with as many accounts as the largest level asks for. */
  start(upstreamUrl: string, options: { readonly accounts: number }): Promise<RunningContender>;
}
