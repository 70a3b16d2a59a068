import { randomBytes, scrypt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { NAMES_AT_ONCE_MAX } from '../../../core/limits.ts';
import { publicResolver } from '../../../core/name-resolver.ts';

const [A, AAAA] = [1, 28];
const NAME_ERROR = 3;

/** What is known of a name: addresses by type; null: the server never answers; not there: the name does not exist. */
type Zone = Readonly<Record<string, Readonly<Partial<Record<number, readonly Buffer[] | null>>> | null>>;

/** A name server on loopback (RFC 1035 §4): answers one question a message, as `zone` says. */
async function nameServer(t: { teardown(fn: () => void): void }, zone: Zone) {
  const questions: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, { port, address }) => {
    const labels: string[] = [];
    let at = 12;
    for (let size = message[at] ?? 0; size > 0; size = message[at] ?? 0) {
      labels.push(message.toString('latin1', at + 1, at + 1 + size));
      at += size + 1;
    }
    const [name, type] = [labels.join('.'), message.readUInt16BE(at + 1)];
    questions.push(`${name} ${type}`);
    const known = zone[name];
    const found = known === undefined ? [] : known === null ? null : known[type] === undefined ? [] : known[type];
    if (found === null) return;
    const head = Buffer.alloc(12);
    message.copy(head, 0, 0, 2);
    head.writeUInt16BE(0x8180 | (known === undefined ? NAME_ERROR : 0), 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(found.length, 6);
    const answers = found.map((data) => {
      const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length]);
      return Buffer.concat([record, data]);
    });
    socket.send(Buffer.concat([head, message.subarray(12, at + 5), ...answers]), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.teardown(() => socket.close());
  return { server: `127.0.0.1:${(socket.address() as AddressInfo).port}`, questions };
}

const FOUR = Buffer.from([192, 0, 2, 7]);
const SIX = Buffer.from('20010db8000000000000000000000007', 'hex');

t.test('addresses come IPv4 first, with those of IPv6 where there are some', async (t) => {
  const { server } = await nameServer(t, {
    'both.example': { [A]: [FOUR], [AAAA]: [SIX] },
    'four.example': { [A]: [FOUR] },
    'six.example': { [AAAA]: [SIX] },
    'slow.example': { [A]: [FOUR], [AAAA]: null },
  });
  const resolve = publicResolver([server]);
  const found = async (name: string) => (await resolve(name)).map(({ address }) => address);
  t.same(await found('both.example'), ['192.0.2.7', '2001:db8::7']);
  t.same(await found('four.example'), ['192.0.2.7']);
  t.same(await found('six.example'), ['2001:db8::7']);
  t.same(await found('slow.example'), ['192.0.2.7'], 'a silence about IPv6 is not waited for');
  await t.rejects(resolve('none.example'), { code: 'ENOTFOUND' });
});

t.test('a local name is never asked of a server', async (t) => {
  const { server, questions } = await nameServer(t, {});
  const resolve = publicResolver([server]);
  for (const name of ['localhost', 'LOCALHOST', 'a.localhost', 'localhost.']) {
    t.same(await resolve(name), [{ address: '127.0.0.1' }, { address: '::1' }], name);
  }
  t.same(questions, []);
});

t.test('names whose server is silent hold up neither other names nor the threads of the process', async (t) => {
  const silent = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`n${i}.silent.example`, null]));
  const { server } = await nameServer(t, { ...silent, 'good.example': { [A]: [FOUR] } });
  const resolve = publicResolver([server]);
  let waiting = 100;
  const asked = Object.keys(silent).map((name) => resolve(name).catch(() => (waiting -= 1)));
  t.same(await resolve('good.example'), [{ address: '192.0.2.7' }]);
  await new Promise((resolve) => scrypt('a', randomBytes(8), 16, { N: 2 }, resolve));
  t.equal(waiting, 100, 'all of them still wait');
  await Promise.all(asked);
  t.equal(waiting, 0, 'and are given up');
});

t.test('equal names that wait are asked for once, and no more wait than there is room for', async (t) => {
  const { server, questions } = await nameServer(t, { 'silent.example': null });
  const resolve = publicResolver([server]);
  const same = Array.from({ length: 20 }, () => resolve('Silent.example').catch(() => 'given up'));
  const others = Array.from({ length: NAMES_AT_ONCE_MAX - 1 }, (_, i) => resolve(`x${i}.example`).catch(() => null));
  await t.rejects(resolve('one.too.many.example'), /too many names/);
  await Promise.all([...same, ...others]);
  // Once for each type, and once more because nobody answered.
  t.ok(questions.filter((question) => question.startsWith('silent.example')).length <= 4);
  await t.rejects(resolve('x1.example'), { code: 'ENOTFOUND' }, 'there is room again');
});
