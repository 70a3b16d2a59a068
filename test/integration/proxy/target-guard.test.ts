import type { LookupAddress } from 'node:dns';
import t from 'tap';
import { pay } from './agent.ts';
import { type ProxyFixture, proxyFixture } from './proxy-fixture.ts';

/** Points the gateway there; whether the request was refused as unreachable, and released. */
async function refusedAt({ port, control, target, pointTo }: ProxyFixture, url: string): Promise<boolean> {
  const before = control.outcomes.length;
  pointTo(url);
  const answer = await pay(port);
  const outcome = control.outcomes[before];
  return (
    answer.json['error'] === 'target_unreachable' &&
    outcome?.outcome === 'released' &&
    outcome.cause === 'target_unreachable' &&
    target.begun === 0
  );
}

t.test('private targets are refused in every notation when they are not allowed', async (t) => {
  const fixture = await proxyFixture(t, { allowPrivateTargets: false });
  const { port } = new URL(fixture.target.url);
  const hosts = [
    ...['127.0.0.1', 'localhost', '127.1', '2130706433', '0177.0.0.1', '0x7f.1', '0x7f000001', '0', '0.0.0.0'],
    ...[
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::127.0.0.1]',
      '[64:ff9b::7f00:1]',
      '[2002:7f00:1::]',
    ],
    ...['10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1', '169.254.169.254', '224.0.0.1', '255.255.255.255'],
    ...[
      '[fe80::1]',
      '[fc00::1]',
      '[fd00:ec2::254]',
      '[ff02::1]',
      '\uff11\uff12\uff17.\uff10.\uff10.\uff11',
      '127.0.0.1.',
    ],
  ];
  for (const host of hosts) t.ok(await refusedAt(fixture, `http://${host}:${port}`), host);
});

t.test('metadata addresses are refused even where private targets are allowed', async (t) => {
  const fixture = await proxyFixture(t, { targetConnectTimeoutMs: 500 });
  for (const host of [
    '169.254.169.254',
    '169.254.170.2',
    '[::ffff:169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
    '[fd00:ec2::254]',
  ]) {
    t.ok(await refusedAt(fixture, `http://${host}:80`), host);
  }
});

t.test('one bad address among those of a name is enough to refuse it', async (t) => {
  const answers: LookupAddress[] = [
    { address: '93.184.216.34', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ];
  const resolve = (): Promise<LookupAddress[]> => Promise.resolve(answers);
  const fixture = await proxyFixture(t, { allowPrivateTargets: false, resolve, targetConnectTimeoutMs: 500 });
  const { port } = new URL(fixture.target.url);
  t.ok(await refusedAt(fixture, `http://target.example:${port}`));
  answers.reverse();
  t.ok(await refusedAt(fixture, `http://other.example:${port}`));
});

t.test('a name that changes its mind is checked again for each new connection', async (t) => {
  const asked: string[] = [];
  const addresses = ['127.0.0.1', '169.254.169.254'];
  const resolve = (host: string): Promise<LookupAddress[]> => {
    asked.push(host);
    return Promise.resolve([{ address: addresses[asked.length - 1] ?? '169.254.169.254', family: 4 }]);
  };
  const { port, target, pointTo, control } = await proxyFixture(t, { resolve });
  pointTo(`http://rebinding.example:${new URL(target.url).port}`);
  target.respond = (_request, response) => {
    response.writeHead(200, { connection: 'close' }).end('first');
  };
  t.equal((await pay(port)).text, 'first');
  t.equal(target.ledger[0]?.headers.host, `rebinding.example:${new URL(target.url).port}`);
  const second = await pay(port);
  t.equal(second.json['error'], 'target_unreachable');
  t.equal(asked.length, 2);
  t.equal(target.ledger.length, 1);
  t.match(await control.outcomesTold(2), [{ outcome: 'booked' }, { outcome: 'released' }]);
});

t.test('a name with several addresses is reached at the one that answers', async (t) => {
  const resolve = (): Promise<LookupAddress[]> =>
    Promise.resolve([
      { address: '127.0.0.9', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ]);
  const { port, target, pointTo } = await proxyFixture(t, { resolve });
  pointTo(`http://two-addresses.example:${new URL(target.url).port}`);
  t.equal((await pay(port)).status, 201);
});

t.test('a name that is resolved without end is a target that cannot be reached', async (t) => {
  const resolve = (): Promise<LookupAddress[]> => new Promise(() => {});
  const { port, pointTo, control } = await proxyFixture(t, { resolve, targetConnectTimeoutMs: 200 });
  pointTo('http://never.example');
  t.equal((await pay(port)).json['error'], 'target_unreachable');
  t.match(control.outcomes, [{ outcome: 'released', cause: 'target_unreachable' }]);
});

t.test('a certificate that cannot be verified is a target that cannot be reached, before a byte is sent', async (t) => {
  const fixture = await proxyFixture(t);
  t.ok(await refusedAt(fixture, fixture.target.url.replace('http:', 'https:')), 'no TLS there at all');
});
