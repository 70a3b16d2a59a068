import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ToolMapping } from '../../../core/tool-mapping.ts';
import {
  type BatchAnswer,
  type BatchRequest,
  batchRequest,
  type ChargeAnswer,
  type EscalationWaitAnswer,
  escalationBody,
  escalationWait,
  type GatewayAnswer,
  type GatewayAsk,
  type GatewayOutcome,
  INTERNAL_BATCH_PATH,
  INTERNAL_BODY_PATH,
  INTERNAL_SECRET_HEADER,
  INTERNAL_WAIT_PATH,
  type RateCharge,
  type RateState,
  type TargetConfig,
  type ToolUpdate,
} from '../../../core/wire.ts';

export const INTERNAL_SECRET = 'an internal secret for tests, thirty-two characters and more';
export const ACCOUNT_ID = 'acc_test';
export const RATE: RateState = [500, 499, 1];

/** The mapping of POST /payments unless a test says otherwise: the defaults of contract §7. */
export const PAYMENTS: ToolMapping = {
  action_type: 'payments.create',
  amount: '/amount',
  currency: '/currency',
  counterparty: '/counterparty',
  amount_unit: 'major',
  currency_notation: 'iso',
  counterparty_optional: true,
  body_limit_bytes: 1024 * 1024,
};

/** Nothing is read from the request. */
export const FREE: ToolMapping = { ...PAYMENTS, amount: 'none', currency: 'none', counterparty: 'none' };

export function tool(pattern: string, mapping: ToolMapping = PAYMENTS, version = 1): ToolUpdate {
  const shape = /\{/.test(pattern)
    ? pattern.slice(pattern.indexOf('/') + 1).replace(/[^/]+\/?/g, (part) => (part.startsWith('{') ? 'p' : 'l'))
    : null;
  const key = pattern.replaceAll(/\{[a-z_]+\}/g, '{}');
  return { id: `tol_${key}`, version, key, pattern, mapping, shapes: shape === null ? [] : [shape] };
}

/** What a test may say in place of one answer to a whole message. */
export type RawReply = { readonly status: number; readonly text: string } | 'hang' | 'reset' | 'half';

export type Decide = (ask: GatewayAsk) => GatewayAnswer | Promise<GatewayAnswer>;

/**
 * A control plane that follows a script and remembers all it was told; it speaks core/wire.ts on a unix socket.
 *
 * Unscripted it holds the tools of `tools` by name, and allows whatever was read by the current version.
 */
export class FakeControlPlane {
  readonly asks: GatewayAsk[] = [];
  readonly outcomes: GatewayOutcome[] = [];
  readonly charges: RateCharge[] = [];
  readonly batches: BatchRequest[] = [];
  readonly bodies: { readonly escalation_id: string; readonly body: string }[] = [];
  readonly waits: { readonly escalation_id: string; readonly timeout_ms: number; aborted: boolean }[] = [];
  readonly events = new EventEmitter();
  readonly tools = new Map<string, ToolUpdate>([['http.post:/payments', tool('http.post:/payments')]]);
  target: TargetConfig;
  decide: Decide = (ask) => this.allow(ask);
  writeOutcome: (outcome: GatewayOutcome) => boolean | Promise<boolean> = () => true;
  chargeAnswer: ChargeAnswer = { rate: RATE, retry_after_s: null };
  waitAnswer: () => Promise<EscalationWaitAnswer> = () => new Promise(() => {});
  onBatch: (batch: BatchRequest) => RawReply | null = () => null;
  readonly #socket: string;
  readonly #directory: string;
  #server: Server | null = null;
  #receipts = 0;

  constructor(targetUrl: string) {
    this.target = { version: 1, url: targetUrl, credential: null };
    this.#directory = mkdtempSync(join(tmpdir(), 'mandate-fake-'));
    this.#socket = join(this.#directory, 's');
  }

  get address(): string {
    return `unix:${this.#socket}`;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#handle(request, response));
    this.#server = server;
    server.listen(this.#socket);
    await once(server, 'listening');
  }

  /** Goes away at once, as a killed process does. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  newReceipt(): string {
    this.#receipts += 1;
    return `rcp_${this.#receipts}`;
  }

  /** The mapping answer where the ask was not read by the tool that its name has; null when it was. */
  mappingFor(ask: GatewayAsk): GatewayAnswer | null {
    for (const known of this.tools.values()) {
      if (!new RegExp(`^${known.key.replaceAll('{}', '[^/]+')}$`).test(ask.name)) continue;
      const read = ask.tool?.id === known.id && ask.tool.version === known.version && ask.reading !== null;
      return read ? null : { answer: 'mapping', tool: known };
    }
    return null;
  }

  allow(ask: GatewayAsk): GatewayAnswer {
    const mapping = this.mappingFor(ask);
    if (mapping !== null) return mapping;
    if (ask.tool === null || ask.reading?.ok !== true) return this.deny('MD-502', 'amount cannot be read');
    return this.allowed(ask);
  }

  allowed(ask: GatewayAsk): GatewayAnswer {
    const known = ask.config_version === this.target.version;
    return {
      answer: 'allow',
      receipt_id: this.newReceipt(),
      account_id: ACCOUNT_ID,
      instance_id: 'gwi_test',
      target: known ? null : this.target,
      rate: RATE,
    };
  }

  deny(code: 'MD-302' | 'MD-401' | 'MD-501' | 'MD-502', reason: string): GatewayAnswer {
    return { answer: 'deny', receipt_id: this.newReceipt(), code, reason_text: reason, rate: RATE };
  }

  escalate(created: boolean): GatewayAnswer {
    return {
      answer: 'escalate',
      receipt_id: this.newReceipt(),
      account_id: ACCOUNT_ID,
      escalation_id: 'esc_1',
      expires_at: '2030-01-01T00:10:00.000Z',
      created,
      rate: RATE,
    };
  }

  /** Resolves with the first `count` outcomes, once they were told. */
  async outcomesTold(count: number): Promise<readonly GatewayOutcome[]> {
    while (this.outcomes.length < count) await once(this.events, 'outcome');
    return this.outcomes;
  }

  async asked(count: number): Promise<readonly GatewayAsk[]> {
    while (this.asks.length < count) await once(this.events, 'ask');
    return this.asks;
  }

  async waited(count: number): Promise<void> {
    while (this.waits.length < count) await once(this.events, 'wait');
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.headers[INTERNAL_SECRET_HEADER] !== INTERNAL_SECRET) return answer(response, 401, '{}');
    if (request.method === 'GET') return answer(response, 200, '{"status":"ok"}');
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const message: unknown = JSON.parse(Buffer.concat(chunks).toString());
    if (request.url === INTERNAL_BATCH_PATH) return await this.#batch(batchRequest.parse(message), response);
    if (request.url === INTERNAL_BODY_PATH) {
      this.bodies.push(escalationBody.parse(message));
      return answer(response, 200, '{}');
    }
    if (request.url !== INTERNAL_WAIT_PATH) return answer(response, 404, '{}');
    const wait = { ...escalationWait.parse(message), aborted: false };
    response.once('close', () => {
      wait.aborted = !response.writableEnded;
      this.events.emit('wait-closed');
    });
    this.waits.push(wait);
    this.events.emit('wait');
    answer(response, 200, JSON.stringify(await this.waitAnswer()));
  }

  async #batch(batch: BatchRequest, response: ServerResponse): Promise<void> {
    this.batches.push(batch);
    const gatewayAsks = batch.asks.filter((ask) => ask.path === 'gateway');
    this.asks.push(...gatewayAsks);
    this.charges.push(...batch.charges);
    if (batch.asks.length > 0) this.events.emit('ask');
    const raw = this.onBatch(batch);
    if (raw === 'hang') return;
    if (raw === 'reset') return void response.socket?.destroy();
    if (raw === 'half') {
      response.writeHead(200, { 'content-length': 1000 });
      response.write('{"asks":[', () => response.socket?.destroy());
      return;
    }
    if (raw !== null) return answer(response, raw.status, raw.text);
    const outcomes = await Promise.all(batch.outcomes.map((outcome) => this.writeOutcome(outcome)));
    this.outcomes.push(...batch.outcomes.filter((_, i) => outcomes[i]));
    if (batch.outcomes.length > 0) this.events.emit('outcome');
    const asks = await Promise.all(gatewayAsks.map((ask) => this.decide(ask)));
    const reply: BatchAnswer = { asks, outcomes, charges: batch.charges.map(() => this.chargeAnswer) };
    answer(response, 200, JSON.stringify(reply));
  }
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(text);
}
