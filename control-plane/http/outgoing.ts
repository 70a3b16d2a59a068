import type { Agent, Dispatcher } from 'undici';

export interface OutgoingPost {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  readonly signal: AbortSignal;
}

/**
 * Connections to others for one purpose, opened with the first request: the client holds seven megabytes, which most
 * control planes never need. Redirections are not followed.
 */
export class Outgoing {
  readonly #options: Agent.Options;
  #agent: Promise<Agent> | null = null;
  #closed = false;

  constructor(options: Agent.Options) {
    this.#options = options;
  }

  /** Sends one request; the caller reads the answer's body to its end. @throws what the client throws */
  async post({ url, headers, body, signal }: OutgoingPost): Promise<Dispatcher.ResponseData> {
    if (this.#closed) throw new Error('these connections are closed');
    this.#agent ??= import('undici').then((undici) => new undici.Agent(this.#options));
    const { origin, pathname, search } = new URL(url);
    const agent = await this.#agent;
    return agent.request({ origin, path: pathname + search, method: 'POST', headers, body, signal });
  }

  /** Ends all connections; what is under way fails. */
  async close(): Promise<void> {
    this.#closed = true;
    await (await this.#agent)?.destroy();
  }
}
