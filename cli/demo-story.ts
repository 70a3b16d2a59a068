import type { AdminClient } from './admin-client.ts';
import { CliError } from './cli-error.ts';
import { verifyChain } from './commands/evidence.ts';
import { bodyText, JsonText } from './json-text.ts';
import { printable } from './output.ts';

/** What the story plays with: the admin API, the proxy, and the payments API that stands behind it. */
export interface Stage {
  readonly admin: AdminClient;
  readonly proxyUrl: string;
  readonly targetUrl: string;
  readonly write: (text: string) => void;
  readonly bold: (text: string) => string;
}

/** One request of the agent and what came of it. */
export interface Scene {
  readonly step: string;
  readonly status: number;
  readonly decision: string;
  readonly code: string | null;
  readonly receipt: string | null;
  readonly ledger: number;
}

interface Expected {
  readonly status: number;
  readonly decision: 'allow' | 'deny' | 'escalate';
  readonly code?: string;
  readonly ledger: number;
}

interface Attempt {
  readonly sentence: string;
  readonly amount: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly expected: Expected;
}

const AGENT_TIMEOUT_MS = 30_000;
const RULE_WIDTH = 96;

/**
 * Plays the agent against the running system, from the first refusal to the kill switch, and checks each outcome.
 *
 * @throws CliError at the first outcome that is not the expected one
 */
export class Story {
  readonly #stage: Stage;
  readonly scenes: Scene[] = [];
  #steps = 0;
  #gatewayToken = '';
  #instance = '';
  #mandate = '';

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** Runs everything; returns the number of evidence entries that were verified and the chain's last hash. */
  async run(): Promise<{ entries: number; hash: string }> {
    await this.#setUp();
    await this.#firstRequests();
    await this.#limits();
    await this.#escalation();
    await this.#killSwitch();
    return await this.#evidence();
  }

  async #setUp(): Promise<void> {
    this.#title('You set the limits');
    this.#say('Your agent pays bills through a payments API. You allow it 100 EUR a payment and 120 EUR a month,');
    this.#say('and want to be asked above 50 EUR. The gateway stands between the agent and the API.');
    const mandate = await this.#stage.admin.send(
      'POST',
      '/admin/mandates',
      bodyText({
        name: 'Bills',
        scope: ['payments.*'],
        amount_limit_per_action: new JsonText('100'),
        amount_limit_per_month: new JsonText('120'),
        escalation_threshold: new JsonText('50'),
        currency: 'EUR',
        activate: true,
      }),
    );
    this.#mandate = String(mandate.value['mandate_id']);
    this.#command(
      "mandate mandates create --scope 'payments.*' --per-action 100 --per-month 120 --threshold 50 --activate",
      this.#mandate,
    );
    const body = bodyText({ mandate_id: this.#mandate, target_url: this.#stage.targetUrl, name: 'Payments API' });
    const gateway = (await this.#stage.admin.send('POST', '/admin/gateways', body)).value;
    this.#instance = String(gateway['instance_id']);
    this.#gatewayToken = String(gateway['token']);
    this.#command(
      `mandate gateways create --mandate ${short(this.#mandate)} --target ${this.#stage.targetUrl}`,
      `${this.#instance}, and the agent's token (shown once)`,
    );
  }

  async #firstRequests(): Promise<void> {
    this.#title('Unknown is denied');
    await this.#attempt({
      sentence: 'The agent calls a path that nobody has said anything about yet. The gateway notes it and denies.',
      amount: '45.00',
      expected: { status: 403, decision: 'deny', code: 'MD-501', ledger: 0 },
    });
    this.#title('You say what the path means');
    this.#say('POST /payments is the action payments.create; amount, currency and counterparty are in its body.');
    const mapping = { name: 'http.post:/payments', mapping: { action_type: 'payments.create' } };
    await this.#stage.admin.send('PUT', `/admin/gateways/${this.#instance}/tools`, JSON.stringify(mapping));
    this.#command(
      `mandate tools map ${short(this.#instance)} http.post:/payments --action-type payments.create`,
      'mapped',
    );
    this.#title('Within the limits: allowed');
    await this.#attempt({
      sentence: 'The same request again. It is reserved against the month, recorded, and only then forwarded.',
      amount: '45.00',
      expected: { status: 201, decision: 'allow', ledger: 1 },
    });
  }

  async #limits(): Promise<void> {
    this.#title('Above the limit of one action');
    await this.#attempt({
      sentence: 'A payment of 150 EUR is more than one action may cost. The payments API never hears of it.',
      amount: '150.00',
      expected: { status: 403, decision: 'deny', code: 'MD-302', ledger: 1 },
    });
    this.#title('Above the limit of the month');
    await this.#attempt({
      sentence: '90 EUR would be fine by itself, but 45 are spent already: 135 is above the 120 of this month.',
      amount: '90.00',
      expected: { status: 403, decision: 'deny', code: 'MD-303', ledger: 1 },
    });
  }

  async #escalation(): Promise<void> {
    this.#title('Above the threshold: a human is asked');
    const answer = await this.#attempt({
      sentence: '60 EUR is within both limits, but above 50 you wanted to be asked. Nothing is forwarded yet.',
      amount: '60.00',
      expected: { status: 403, decision: 'escalate', ledger: 1 },
    });
    const escalation = String((answer['escalation'] as { id?: unknown } | undefined)?.id);
    this.#title('You approve exactly this request');
    const approved = await this.#stage.admin.send('POST', `/admin/escalations/${escalation}/approve`);
    this.#command(`mandate escalations approve ${short(escalation)}`, 'approved; a token that is good for one use');
    await this.#attempt({
      sentence: 'The agent repeats the identical request with the token. All checks run again; it is allowed, once.',
      amount: '60.00',
      headers: { 'x-service-escalation-token': String(approved.value['escalation_token']) },
      expected: { status: 201, decision: 'allow', ledger: 2 },
    });
  }

  async #killSwitch(): Promise<void> {
    this.#title('The kill switch');
    const body = bodyText({ reason: 'demo' });
    await this.#stage.admin.send('POST', `/admin/mandates/${this.#mandate}/suspend`, body);
    this.#command(`mandate mandates suspend ${short(this.#mandate)}`, 'suspended');
    await this.#attempt({
      sentence: 'From the moment the command returned, nothing passes: even 5 EUR is denied.',
      amount: '5.00',
      expected: { status: 403, decision: 'deny', code: 'MD-203', ledger: 2 },
    });
  }

  async #evidence(): Promise<{ entries: number; hash: string }> {
    this.#title('Evidence');
    this.#say(
      'Every step above is in an append-only chain of hashes, written before its effect. Checked here, entry by',
    );
    this.#say('entry, without trusting the server:');
    const result = await verifyChain(this.#stage.admin);
    const { broken, entries, hash } = result;
    if (broken !== null) throw new CliError(`The chain is broken at entry ${broken.seq}: ${broken.problem}.`);
    this.#command('mandate evidence verify', `${entries} entries, chain intact`);
    return { entries, hash };
  }

  async #attempt(attempt: Attempt): Promise<Record<string, unknown>> {
    this.#say(attempt.sentence);
    const body = `{"amount":${attempt.amount},"currency":"EUR","counterparty":"acme-energy"}`;
    const extra = Object.keys(attempt.headers ?? {}).map((name) => ` -H '${name}: etk_…'`);
    this.#stage.write(`  $ curl ${this.#stage.proxyUrl}/api/gateway/http/payments${extra.join('')} -d '${body}'\n`);
    const response = await fetch(`${this.#stage.proxyUrl}/api/gateway/http/payments`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.#gatewayToken}`,
        'content-type': 'application/json',
        ...attempt.headers,
      },
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(AGENT_TIMEOUT_MS),
    });
    const answer = (await response.json()) as Record<string, unknown>;
    const scene = this.#scene(response, answer, await this.#ledger());
    this.#show(scene, answer);
    this.scenes.push(scene);
    assertScene(scene, attempt.expected);
    return answer;
  }

  #scene(response: Response, answer: Record<string, unknown>, ledger: readonly unknown[]): Scene {
    const reasons = Array.isArray(answer['reasons']) ? (answer['reasons'] as unknown[]) : [];
    const decision = response.headers.get('x-service-decision') ?? String(answer['error'] ?? 'none');
    return {
      step: `${this.#steps}`,
      status: response.status,
      decision: decision.replace(/^service_/, ''),
      code: reasons.length > 0 ? String(reasons[0]) : null,
      receipt:
        response.headers.get('x-service-receipt') ?? (answer['receipt_id'] ? String(answer['receipt_id']) : null),
      ledger: ledger.length,
    };
  }

  #show(scene: Scene, answer: Record<string, unknown>): void {
    const mark = { allow: '✓', deny: '✗', escalate: '?' }[scene.decision] ?? '!';
    const code = scene.code === null ? '' : ` ${scene.code}`;
    const reason = answer['reason_text'] ? `: ${printable(String(answer['reason_text']))}` : '';
    const paid =
      scene.decision === 'allow' ? `: the API answered ${scene.status} ${printable(String(answer['id']))}` : '';
    const held = scene.decision === 'escalate' ? `: waits for your answer for 10 minutes` : '';
    this.#stage.write(`  ${this.#stage.bold(`${mark} ${scene.decision}${code}`)}${reason}${paid}${held}\n`);
    const payments = scene.ledger === 1 ? '1 payment' : `${scene.ledger} payments`;
    this.#stage.write(`    receipt ${scene.receipt ?? 'none'}   the API's own ledger: ${payments}\n`);
  }

  async #ledger(): Promise<readonly unknown[]> {
    const response = await fetch(`${this.#stage.targetUrl}/payments`, {
      signal: AbortSignal.timeout(AGENT_TIMEOUT_MS),
    });
    const { payments } = (await response.json()) as { payments: readonly unknown[] };
    return payments;
  }

  #title(text: string): void {
    this.#steps += 1;
    const heading = `── ${this.#steps}. ${text} `;
    this.#stage.write(`\n${this.#stage.bold(heading.padEnd(RULE_WIDTH, '─'))}\n`);
  }

  #say(text: string): void {
    this.#stage.write(`  ${text}\n`);
  }

  #command(command: string, result: string): void {
    this.#stage.write(`  $ ${command}\n  → ${printable(result)}\n`);
  }
}

function assertScene(scene: Scene, expected: Expected): void {
  const got = [scene.status, scene.decision, scene.code, scene.ledger].join(' ');
  const wanted = [expected.status, expected.decision, expected.code ?? null, expected.ledger].join(' ');
  if (got === wanted && scene.receipt?.startsWith('rcp_')) return;
  throw new CliError(`Step ${scene.step} went otherwise: expected "${wanted}" and a receipt, got "${got}".`, {
    next: 'Please report this with the output above.',
  });
}

function short(id: string): string {
  return `${id.slice(0, 4)}…${id.slice(-4)}`;
}
