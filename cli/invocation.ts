import { type Config, ConfigError, loadConfig, serviceUrl } from '../config/load.ts';
import { AdminClient, type Answer, type JsonRecord, SERVICE_API } from './admin-client.ts';
import { CliError, EXIT_USAGE } from './cli-error.ts';
import type { Io } from './io.ts';
import { bodyText } from './json-text.ts';
import { ask } from './prompt.ts';
import { readSession, sessionPath } from './session-file.ts';

/** One run of the CLI: its streams, settings, session, and the form of its answer. */
export class Invocation {
  readonly io: Io;
  readonly #wantsJson: () => boolean;
  #config: Config | undefined;

  constructor(io: Io, wantsJson: () => boolean) {
    this.io = io;
    this.#wantsJson = wantsJson;
  }

  get json(): boolean {
    return this.#wantsJson();
  }

  /** @throws CliError (usage) that names every wrong variable */
  get config(): Config {
    try {
      this.#config ??= loadConfig('cli', this.io.environment);
      return this.#config;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      throw new CliError(error.message, { code: 'configuration', exitCode: EXIT_USAGE });
    }
  }

  get sessionPath(): string {
    return sessionPath(this.config, this.io.environment);
  }

  /** The admin API without a session: for signing up and in. */
  anonymous(): AdminClient {
    return new AdminClient(this.config.controlUrl, null);
  }

  /** The admin API with MANDATE_TOKEN, else with the session that `login` kept for this control plane. */
  async client(): Promise<AdminClient> {
    const { controlUrl, token } = this.config;
    const known = token ?? (await readSession(this.sessionPath, controlUrl))?.token;
    if (known !== undefined) return new AdminClient(controlUrl, known);
    throw new CliError(`You are not signed in at ${controlUrl}.`, {
      code: 'unauthenticated',
      next: 'Run `mandate login --email <address>` (or `mandate signup`), or set MANDATE_TOKEN.',
    });
  }

  /** The service as agents call it, with MANDATE_API_KEY; null where no key is set. */
  service(): AdminClient | null {
    const { apiKey } = this.config;
    return apiKey === null ? null : new AdminClient(serviceUrl(this.config), apiKey, SERVICE_API);
  }

  /**
   * Sends what a person confirms with a second factor: `totp` where it was given; where the session's is too old by now
   * and somebody can be asked, the code is asked for.
   *
   * @throws CliError as {@link AdminClient.send}
   */
  async sendConfirmed(path: string, body: Readonly<Record<string, unknown>>, totp?: string): Promise<Answer> {
    const client = await this.client();
    const send = (code?: string) => client.send('POST', path, bodyText({ ...body, totp_code: code }));
    try {
      return await send(totp);
    } catch (error) {
      const missing = error instanceof CliError && error.json.includes('"factor_required"') && totp === undefined;
      if (!missing || this.json || this.io.stdin.isTTY !== true) throw error;
      const code = await ask(this.io, 'Code of your second factor: ', { hidden: false });
      return send(code.replaceAll(/\s/g, ''));
    }
  }

  /** Writes the answer: the server's own JSON with `--json`, else the human form. */
  show(answer: Answer, human: (value: JsonRecord) => string): void {
    this.io.stdout.write(this.json ? `${answer.text}\n` : human(answer.value));
  }

  /** Says something beside the answer, on standard error; nothing with `--json`. */
  note(text: string): void {
    if (!this.json) this.io.stderr.write(`${text}\n`);
  }
}

/** The list under `name` in an answer; anything else is an empty list. */
export function recordsOf(value: JsonRecord, name: string): readonly JsonRecord[] {
  const list = value[name];
  return Array.isArray(list) ? (list as JsonRecord[]) : [];
}

/** The object under `name` in an answer, or an empty one. */
export function recordOf(value: JsonRecord, name: string): JsonRecord {
  const found = value[name];
  return typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as JsonRecord) : {};
}
