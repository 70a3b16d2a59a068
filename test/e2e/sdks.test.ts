import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import Stripe from 'stripe';
import t from 'tap';
import { type GatewayFixture, gatewayFixture } from '../integration/gateway/gateway-fixture.ts';

/** The status with which an SDK call failed. */
async function refusal(call: Promise<unknown>): Promise<number | undefined> {
  const error = await call.then(
    () => null,
    (reason: unknown) => reason,
  );
  return error instanceof Stripe.errors.StripeError ? error.statusCode : undefined;
}

type TestContext = Parameters<typeof gatewayFixture>[0];

/** Points the fixture's instance at a stand-in of an API, and maps one tool. */
async function standIn(
  t: TestContext,
  fixture: GatewayFixture,
  name: string,
  mapping: Record<string, unknown>,
  answer: (request: IncomingMessage, body: string, response: ServerResponse) => void,
): Promise<string[]> {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      bodies.push(body);
      answer(request, body, response);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { sql } = fixture;
  await sql`update gateway_instances set target_url = ${url}, config_version = config_version + 1`;
  await sql`update tools set key = ${name}, pattern = ${name}, version = 2,
    mapping = mapping || ${JSON.stringify(mapping)}::text::jsonb`;
  return bodies;
}

t.test('the official stripe SDK works through the gateway with another host and key only', async (t) => {
  const fixture = await gatewayFixture(t, { limits: { per_action: 5_000, per_month: 8_000 } });
  const mapping = {
    amount: '/amount',
    currency: '/currency',
    amount_unit: 'minor',
    currency_notation: 'iso_lower',
    counterparty: 'none',
  };
  const bodies = await standIn(t, fixture, 'http.post:/v1/payment_intents', mapping, (request, body, response) => {
    const amount = Number(new URLSearchParams(body).get('amount'));
    response.writeHead(200, { 'content-type': 'application/json', 'request-id': 'req_stand_in' });
    response.end(JSON.stringify({ id: 'pi_1', object: 'payment_intent', amount, path: request.url }));
  });
  const stripe = new Stripe(fixture.account.token, {
    host: '127.0.0.1',
    port: fixture.proxyPort,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  });
  const intent = await stripe.paymentIntents.create({
    amount: 4_250,
    currency: 'eur',
    expand: ['customer', 'latest_charge'],
    metadata: { order: 'ü 1' },
  });
  t.match(intent, { id: 'pi_1', amount: 4_250 });
  t.match(bodies[0], /amount=4250&currency=eur/);
  t.equal(await refusal(stripe.paymentIntents.create({ amount: 5_001, currency: 'eur' })), 403);
  t.equal(await refusal(stripe.paymentIntents.create({ amount: 4_000, currency: 'eur' })), 403);
  t.equal(await refusal(stripe.refunds.create({ payment_intent: 'pi_1' })), 403);
  t.equal(bodies.length, 1, 'what was denied never reached the API');
});

t.test('the openai SDK streams through the gateway piece by piece', async (t) => {
  const fixture = await gatewayFixture(t);
  const mapping = { amount: 'none', currency: 'none', counterparty: 'none' };
  let more: (() => void) | undefined;
  const chunk = (content: string): string =>
    `data: ${JSON.stringify({ id: 'c1', choices: [{ index: 0, delta: { content } }] })}\n\n`;
  const bodies = await standIn(t, fixture, 'http.post:/v1/chat/completions', mapping, (_request, _body, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk('Hel'));
    more = () => {
      response.write(chunk('lo'));
      response.end('data: [DONE]\n\n');
    };
  });
  const openai = new OpenAI({
    apiKey: fixture.account.token,
    baseURL: `http://127.0.0.1:${fixture.proxyPort}/api/gateway/http/v1`,
    maxRetries: 0,
  });
  const stream = await openai.chat.completions.create({
    model: 'gpt-4o',
    temperature: 0.7,
    messages: [{ role: 'user', content: 'Say hello' }],
    stream: true,
  });
  const pieces: string[] = [];
  for await (const piece of stream) {
    pieces.push(piece.choices[0]?.delta.content ?? '');
    // The second piece is only sent once the first has arrived.
    if (pieces.length === 1) more?.();
  }
  t.same(pieces, ['Hel', 'lo']);
  t.match(JSON.parse(bodies[0] ?? '{}'), { model: 'gpt-4o', stream: true });
});
