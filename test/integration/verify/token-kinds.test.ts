import t from 'tap';
import { signedTreeHead } from '../../../control-plane/evidence/tree-heads.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import type { Answer } from '../gateway/gateway-fixture.ts';
import { sendRaw } from '../proxy/agent.ts';
import { payment, type ServiceFixture, serviceFixture } from './service-fixture.ts';

const PAYMENT = '{"amount":10.00,"currency":"EUR","counterparty":"acme"}';

/** What is shown in the wrong places: every kind of token, all of them live, and what is none. */
type Kinds = ReadonlyMap<string, string>;

interface Fixture extends ServiceFixture {
  readonly mandateId: string;
  readonly sandboxMandateId: string;
  readonly escalationId: string;
  readonly kinds: Kinds;
  /** The token of a kind; throws where there is none. */
  live(kind: string): string;
}

/** An action that needs an approval; what is bound to it must be of it. */
const LARGE = payment(60);

function told(answer: Answer, member: string): string {
  const value = answer.json[member];
  if (typeof value === 'string') return value;
  throw new Error(`no ${member} in ${answer.status} ${answer.text}`);
}

async function fixtureOf(t: Parameters<typeof serviceFixture>[0]): Promise<Fixture> {
  const fixture = await serviceFixture(t);
  const { call, as, person, key, did, present } = fixture;
  const mandateId = await fixture.mandate({ agent_did: did, escalation_threshold: 50 });
  const { token } = await fixture.gateway(mandateId);
  const small = await call('/api/v1/verify', {
    presentation: await present(mandateId, payment(10)),
    action: payment(10),
  });
  const large = { presentation: await present(mandateId, LARGE), action: LARGE };
  const escalated = await call('/api/v1/verify', large);
  const { id: escalationId } = escalated.json['escalation'] as { id: string };
  const approved = await as('POST', `/admin/escalations/${escalationId}/approve`, {});
  const terms = { scope: ['payments.*'], amount_limit_per_action: 50, amount_limit_per_month: 100 };
  const sandbox = await call('/api/v1/sandbox/mandates', terms, { token: null });
  const kinds = new Map([
    ['presentation', JSON.stringify(large.presentation)],
    ['mat', told(small, 'mat_compact')],
    ['tree head', (await signedTreeHead(fixture.deps, person.accountId)).receipt],
    ['consumption', told(small, 'consumption_token')],
    ['escalation', textAt(approved, 'escalation_token')],
    ['gateway', token],
    ['api key', key],
    ['session', person.token],
    ['sandbox secret', told(sandbox, 'agent_secret')],
    ['garbage', 'garbage'],
    ['empty', ''],
    ['10 KB', 'x'.repeat(10_240)],
    ['control characters', 'a\u0000b\u001b[0m\u007f'],
  ]);
  const live: Fixture['live'] = (kind) => kinds.get(kind) ?? '';
  return { ...fixture, mandateId, sandboxMandateId: told(sandbox, 'mandate_id'), escalationId, kinds, live };
}

interface Place {
  readonly name: string;
  /** The kinds that belong here: not shown. */
  readonly takes: readonly string[];
  /** The status, with the code of the problem or the deny. */
  show(token: string): Promise<string>;
  /** What is answered, where it depends on the kind. */
  expected(kind: string): string;
}

function summary({ status, json }: Answer): string {
  const [reason] = (json['reasons'] ?? []) as string[];
  return `${status} ${reason ?? json['error'] ?? json['decision'] ?? ''}`.trim();
}

/** Every route that a credential opens, as the proxy passes it; `/admin` is the control plane's own. */
function credentialPlaces({ call, send, mandateId, escalationId, port }: Fixture): Place[] {
  const routes: readonly (readonly [path: string, takes: string, body?: string])[] = [
    ['/api/v1/verify', 'api key', '{}'],
    ['/api/v1/consumptions', 'api key', '{}'],
    ['/api/v1/executions', 'api key', '{}'],
    ['/api/v1/agents/present', 'api key', '{}'],
    [`/api/v1/mandates/${mandateId}/status`, 'api key'],
    [`/api/v1/escalations/${escalationId}`, 'api key'],
    ['/api/v1/evidence/checkpoint', 'api key'],
    ['/api/v1/evidence/tile/0/000.p/1', 'api key'],
    ['/api/gateway/http/payments', 'gateway', PAYMENT],
  ];
  const expected = (kind: string): string => (kind === 'control characters' ? '400' : '401 unauthenticated');
  const places: Place[] = routes.map(([path, takes, body]) => ({
    name: `Authorization of ${path}`,
    takes: [takes],
    // An agent may look at its own escalations: this one is not, but the token is valid.
    expected: (kind) => (kind === 'gateway' && path.includes('/escalations/') ? '404 not_found' : expected(kind)),
    show: async (token) => {
      if (!/\p{Cc}/u.test(token)) return summary(await call(path, body, { token: `Bearer ${token}` }));
      const [method, rest] = body === undefined ? ['GET', ''] : ['POST', body];
      const head = `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n`;
      const raw = await sendRaw(port, `${head}content-length: ${rest.length}\r\nconnection: close\r\n\r\n${rest}`);
      return raw.split(' ')[1] ?? raw;
    },
  }));
  const admin = async (token: string): Promise<string> => {
    const { status, body } = await send('GET', '/admin/mandates', token);
    return `${status} ${(body as { error?: string }).error}`;
  };
  return [
    ...places,
    { name: 'Authorization of /admin', takes: ['session'], expected: () => '401 unauthenticated', show: admin },
  ];
}

/** Every member and header that a token is put in. */
async function memberPlaces({ call, mandateId, sandboxMandateId, present, live }: Fixture): Promise<Place[]> {
  const presentation = await present(mandateId, LARGE);
  const verify = (changes: object) => call('/api/v1/verify', { presentation, action: LARGE, ...changes });
  const tooLong = (kind: string): boolean => ['empty', '10 KB', 'presentation', 'mat', 'tree head'].includes(kind);
  const always = (answer: string) => (): string => answer;
  const token = `Bearer ${live('gateway')}`;
  return [
    {
      name: 'presentation',
      takes: [],
      expected: always('422 invalid'),
      show: async (shown) => summary(await verify({ presentation: shown })),
    },
    {
      name: 'a member of the presentation',
      takes: [],
      expected: always('200 MD-101'),
      show: async (shown) => summary(await verify({ presentation: { ...presentation, nonce: shown } })),
    },
    {
      name: 'escalation_token',
      takes: ['escalation'],
      // What is longer than any token, or empty, is not one that may be unknown.
      expected: (kind) => (tooLong(kind) ? '422 invalid' : '200 MD-402'),
      show: async (shown) => summary(await verify({ escalation_token: shown })),
    },
    {
      name: 'consumption_token',
      takes: ['consumption'],
      expected: always('422 invalid'),
      show: async (shown) => summary(await call('/api/v1/consumptions', { consumption_token: shown })),
    },
    {
      name: 'reservation_token',
      takes: ['consumption'],
      expected: always('422 invalid'),
      show: async (shown) =>
        summary(await call('/api/v1/executions', { reservation_token: shown, outcome: 'succeeded' })),
    },
    {
      name: 'agent_secret',
      takes: ['sandbox secret'],
      expected: (kind) => (kind !== 'empty' && tooLong(kind) ? '422 invalid' : '404 not_found'),
      show: async (shown) => {
        const asked = { mandate_id: sandboxMandateId, agent_secret: shown };
        return summary(await call('/api/v1/sandbox/presentations', asked, { token: null }));
      },
    },
    {
      name: 'X-Service-Escalation-Token',
      takes: ['control characters'],
      expected: always('403 MD-402'),
      show: async (shown) =>
        summary(
          await call('/api/gateway/http/payments', PAYMENT, {
            token,
            headers: { 'x-service-escalation-token': shown },
          }),
        ),
    },
  ];
}

/** What must not change while tokens are shown in wrong places. */
async function books({ sql }: Fixture) {
  const [months, authorisations, escalations, nonces, mandates] = [
    await sql`select month::text, reserved, booked, allows from mandate_months order by 1`,
    await sql`select receipt_id, state, booked from authorisations order by 1`,
    await sql`select escalation_id, status from escalations order by 1`,
    await sql`select encode(nonce_hash, 'hex') as nonce from spent_nonces order by 1`,
    await sql`select mandate_id, status, uses from mandates order by 1`,
  ].map((rows) => rows.map((row) => ({ ...row })));
  return { months, authorisations, escalations, nonces, mandates };
}

t.test('no kind of token is taken in the place of another, and nothing moves but decisions', async (t) => {
  const fixture = await fixtureOf(t);
  const before = await books(fixture);
  const recorded = (await fixture.chain()).length;
  const places = [...credentialPlaces(fixture), ...(await memberPlaces(fixture))];
  const wrong: string[] = [];
  let shown = 0;
  let decided = 0;
  for (const place of places) {
    for (const [kind, token] of fixture.kinds) {
      if (place.takes.includes(kind)) continue;
      shown += 1;
      const [answer, expected] = [await place.show(token), place.expected(kind)];
      if (answer !== expected) wrong.push(`${kind} as ${place.name}: ${answer} instead of ${expected}`);
      if (expected.includes('MD-')) decided += 1;
    }
  }
  t.same(wrong, []);
  t.ok(shown > 150, `${shown} pairs`);
  t.same(await books(fixture), before);
  const added = (await fixture.chain()).slice(recorded);
  t.same([...new Set(added.map(({ kind }) => kind))], ['decision']);
  t.same([...new Set(added.map(({ body }) => body['decision']))], ['deny']);
  t.equal(added.length, decided, 'as many as were answered with a code');
  t.same(fixture.target.ledger, [], 'nothing reached the target');
  t.same(fixture.errors, []);
});

t.test('each of these tokens is live: in its own place it works, and once', async (t) => {
  const fixture = await fixtureOf(t);
  const { call, live, mandateId, sandboxMandateId, escalationId, send } = fixture;
  const presentation = JSON.parse(live('presentation')) as object;
  const asked = { presentation, action: LARGE, escalation_token: live('escalation') };
  t.equal(summary(await call('/api/v1/verify', asked)), '200 allow');
  t.equal(summary(await call('/api/v1/verify', asked)), '200 MD-105');
  t.equal((await call('/api/v1/consumptions', { consumption_token: live('consumption') })).status, 200);
  t.equal((await call('/api/gateway/http/payments', PAYMENT, { token: `Bearer ${live('gateway')}` })).status, 201);
  t.equal((await call(`/api/v1/mandates/${mandateId}/status`)).status, 200);
  t.equal((await call(`/api/v1/escalations/${escalationId}`)).status, 200);
  t.equal((await send('GET', '/admin/mandates', live('session'))).status, 200);
  const sandbox = { mandate_id: sandboxMandateId, agent_secret: live('sandbox secret') };
  t.equal((await call('/api/v1/sandbox/presentations', sandbox, { token: null })).status, 200);
});

t.test("a token of the right kind, but of another account or another action, is nobody's", async (t) => {
  const fixture = await fixtureOf(t);
  const { call, live, mandateId, present, escalationId } = fixture;
  const before = await books(fixture);
  const other = await fixture.signUp();
  const made = await fixture.send('POST', '/admin/keys', other.token, {
    scopes: ['verify', 'consumptions:write', 'executions:write', 'mandates:read', 'agents:present'],
  });
  const stranger = { token: `Bearer ${textAt(made, 'api_key')}` };
  const verify = async (body: object, options = {}) => summary(await call('/api/v1/verify', body, options));
  const large = { presentation: await present(mandateId, LARGE), action: LARGE };
  t.equal(await verify({ ...large, escalation_token: live('escalation') }, stranger), '200 MD-103');
  const small = { presentation: await present(mandateId, payment(70)), action: payment(70) };
  t.equal(await verify({ ...small, escalation_token: live('escalation') }), '200 MD-402', 'of another action');
  const consumption_token = live('consumption');
  const executed = { reservation_token: consumption_token, outcome: 'failed' };
  const gateway = { token: `Bearer ${live('gateway')}` };
  const refused = [
    ['404 not_found', await call('/api/v1/consumptions', { consumption_token }, stranger)],
    ['404 not_found', await call('/api/v1/executions', executed, stranger)],
    ['404 not_found', await call(`/api/v1/mandates/${mandateId}/status`, undefined, stranger)],
    ['404 not_found', await call('/api/v1/agents/present', { mandate_id: mandateId, action: LARGE }, stranger)],
    ['404 not_found', await call(`/api/v1/escalations/${escalationId}`, undefined, stranger)],
    ['404 not_found', await call(`/api/v1/escalations/${escalationId}`, undefined, gateway)],
    ['404 not_found', await call('/api/v1/consumptions', { consumption_token: newSecretToken('ctk') })],
  ] as const;
  for (const [expected, answer] of refused) t.equal(summary(answer), expected);
  const granted = { ...gateway, headers: { 'x-service-escalation-token': live('escalation') } };
  t.equal(summary(await call('/api/gateway/http/payments', PAYMENT, granted)), '403 MD-402', 'of the other path');
  t.same(await books(fixture), before);
  t.same(fixture.errors, []);
});
