import { setTimeout as delay } from 'node:timers/promises';
import { CliError } from './cli-error.ts';
import { printable } from './output.ts';

/** A JSON object of an answer. */
export type JsonRecord = Readonly<Record<string, unknown>>;

/** An answer: its text as the server wrote it (amounts keep their digits), and the same parsed. */
export interface Answer {
  readonly text: string;
  readonly value: JsonRecord;
}

const ANSWER_TIMEOUT_MS = 30_000;
const RATE_LIMIT_ATTEMPTS = 20;
const RATE_LIMIT_WAIT_MAX_S = 30;

/** Which of the two APIs is called: its name, the variable with its address, and where its credential comes from. */
export interface Api {
  readonly name: string;
  readonly setting: string;
  readonly credential: string;
}

const ADMIN_API: Api = {
  name: 'control plane',
  setting: 'MANDATE_CONTROL_URL',
  credential: 'Sign in with `mandate login --email <address>`, or set MANDATE_TOKEN to a valid session token.',
};

/** What agents and relying parties call, with an API key. */
export const SERVICE_API: Api = {
  name: 'service',
  setting: 'MANDATE_URL',
  credential: 'Set MANDATE_API_KEY to a key that has not been revoked.',
};

/** Speaks JSON with an API; its token is sent to this address only, redirects are not followed. */
export class AdminClient {
  readonly url: string;
  readonly #token: string | null;
  readonly #api: Api;

  constructor(url: string, token: string | null, api = ADMIN_API) {
    this.url = url;
    this.#token = token;
    this.#api = api;
  }

  /** @throws CliError with the server's reason and what to do next */
  get(path: string): Promise<Answer> {
    return this.#request('GET', path, undefined, {});
  }

  /**
   * Reads a list page by page to its end, as one answer: each page names in `next` what to go on after.
   *
   * @throws CliError with the server's reason and what to do next
   */
  async list(path: string, name: string): Promise<Answer> {
    const first = await this.get(path);
    const all = Array.isArray(first.value[name]) ? [...(first.value[name] as unknown[])] : [];
    let { next } = first.value;
    // The text of a whole list stays as the server wrote it.
    if (!isCursor(next)) return first;
    while (isCursor(next)) {
      const { value } = await this.get(`${path}?after=${encodeURIComponent(next)}`);
      const more = value[name];
      if (!Array.isArray(more) || more.length === 0) break;
      all.push(...(more as unknown[]));
      ({ next } = value);
    }
    const value = { ...first.value, [name]: all, next: null };
    // Numbers of lists were written by the same rules that write them here.
    return { text: JSON.stringify(value), value };
  }

  /**
   * Sends JSON text (not a value: amounts are written with the digits they were given in).
   *
   * @throws CliError with the server's reason and what to do next
   */
  send(
    method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body = '{}',
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    return this.#request(method, path, body, headers);
  }

  /**
   * Sends JSON text and gives the answer's bytes as they come, however long that takes.
   *
   * @throws CliError as {@link send}, also where the connection ends before the answer does
   */
  async *stream(path: string, body: string): AsyncGenerator<Uint8Array> {
    const gone = new AbortController();
    const response = await this.#fetch('POST', path, body, {}, gone.signal);
    try {
      if (!response.ok) throw this.#refusal(response.status, await response.text());
      if (response.body !== null) yield* response.body;
    } catch (error) {
      throw error instanceof CliError ? error : this.#unreachable(error);
    } finally {
      gone.abort();
    }
  }

  async #request(
    method: string,
    path: string,
    body: string | undefined,
    more: Readonly<Record<string, string>>,
  ): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      const response = await this.#fetch(method, path, body, more);
      const text = await response.text().catch((error: unknown) => {
        throw this.#unreachable(error);
      });
      if (response.ok) return this.#answer(text);
      const wait = Number(response.headers.get('retry-after') ?? '1');
      const again = method === 'GET' && response.status === 429 && attempt < RATE_LIMIT_ATTEMPTS;
      if (!again || !(wait <= RATE_LIMIT_WAIT_MAX_S)) throw this.#refusal(response.status, text);
      await delay(Math.max(wait, 1) * 1000);
    }
  }

  async #fetch(
    method: string,
    path: string,
    body: string | undefined,
    more: Readonly<Record<string, string>>,
    signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  ): Promise<Response> {
    const headers: Record<string, string> = { accept: 'application/json', ...more };
    if (this.#token !== null) headers['authorization'] = `Bearer ${this.#token}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    try {
      return await fetch(`${this.url}${path}`, {
        method,
        headers,
        redirect: 'manual',
        signal,
        ...(body === undefined ? {} : { body }),
      });
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  #answer(text: string): Answer {
    if (text === '') return { text: '{}', value: {} };
    const value = parseObject(text);
    if (value !== null) return { text: text.trim(), value };
    throw new CliError(`${this.url} answered with something that is not JSON.`, { next: this.#otherAddress() });
  }

  #unreachable(error: unknown): CliError {
    const { name, setting } = this.#api;
    return new CliError(`The ${name} at ${this.url} cannot be reached (${failure(error)}).`, {
      code: `${name.replace(' ', '_')}_unreachable`,
      next: `Start it with \`mandate up\`, or set ${setting} to where it runs.`,
      cause: error,
    });
  }

  /** Turns an answer that is not 2xx into an error; the problem document is kept as it is for `--json`. */
  #refusal(status: number, text: string): CliError {
    const problem = parseObject(text);
    if (problem === null || typeof problem['error'] !== 'string') {
      const message = `${this.url} answered with status ${status} and no reason.`;
      return new CliError(message, { next: this.#otherAddress() });
    }
    const listed = Array.isArray(problem['fields']) ? (problem['fields'] as unknown[]).map(fieldLine) : [];
    const said = printable(String(problem['detail'] ?? problem['title'] ?? problem['error']));
    // A detail that only strings the fields together would say everything twice.
    const repeats = listed.length > 0 && said === listed.map((line) => line.trim()).join('; ');
    const detail = repeats ? printable(String(problem['title'] ?? problem['error'])) : said;
    const next = nextStep(problem['error'], this.#api);
    return new CliError([detail, ...listed].join('\n'), { json: text.trim(), ...(next === undefined ? {} : { next }) });
  }

  #otherAddress(): string {
    return `Set ${this.#api.setting} to the address of a ${this.#api.name}.`;
  }
}

function isCursor(next: unknown): next is string | number {
  return typeof next === 'string' || typeof next === 'number';
}

function failure(error: unknown): string {
  if (!(error instanceof Error)) return 'no connection';
  if (error.name === 'TimeoutError') return `no answer within ${ANSWER_TIMEOUT_MS / 1000} s`;
  const cause = error.cause;
  if (typeof cause === 'object' && cause !== null && 'code' in cause) return String(cause.code);
  return error.message;
}

function fieldLine(value: unknown): string {
  const { field, message } = value as { field?: unknown; message?: unknown };
  return `  ${printable(String(field))}: ${printable(String(message))}`;
}

function nextStep(code: string, api: Api): string | undefined {
  switch (code) {
    case 'unauthenticated':
      return api.credential;
    case 'factor_required':
      return 'Give --totp <code>: the code that your authenticator shows now.';
    case 'rate_limited':
    case 'locked_out':
      return 'Wait a moment, then try again.';
    case 'not_found':
      return 'List what there is with the `list` command of the same noun.';
    case 'not_decidable':
    case 'overloaded':
      return 'See what is wrong with `mandate doctor`.';
    default:
      return undefined;
  }
}

function parseObject(text: string): JsonRecord | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonRecord) : null;
  } catch {
    return null;
  }
}
