import { once } from 'node:events';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { EVENT_STREAMS_MAX, EVENT_STREAMS_PER_ACCOUNT_MAX, sendEvents } from '../../../control-plane/console/events.ts';
import { CONSOLE_ROUTES } from '../../../control-plane/console/routes.ts';
import { type ConsoleRoute, get, type SignedInVisit } from '../../../control-plane/console/visit.ts';
import { type ConsolePerson, consoleFixture } from './console-fixture.ts';

t.test('a page that was left before its events began holds nothing', async (t) => {
  let left = 0;
  let seen: SignedInVisit | null = null;
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const routes = CONSOLE_ROUTES as ConsoleRoute[];
  routes.push(
    get('/test-left', async (visit) => {
      seen = visit;
      const closed = once(visit.reply.raw, 'close');
      begun.resolve();
      await closed;
      const answer = sendEvents(visit, () => () => {
        left += 1;
      });
      over.resolve();
      return answer;
    }),
  );
  t.teardown(() => routes.pop());
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = fixture.app.server.address() as AddressInfo;
  const cookie = Array.from(browser.cookies, ([name, value]) => `${name}=${value}`).join('; ');
  const call = request({ host: '127.0.0.1', port, path: '/console/test-left', headers: { cookie }, agent: false });
  call.on('error', () => {});
  call.end();
  await begun.promise;
  call.destroy();
  await over.promise;
  t.equal((seen as SignedInVisit | null)?.deps.streams.size, 0);
  t.equal(left, 0, 'nothing was subscribed to, so nothing is left to end');
});

t.test('one account cannot take the event streams of all others', async (t) => {
  const routes = CONSOLE_ROUTES as ConsoleRoute[];
  routes.push(get('/test-many', async (visit) => sendEvents(visit, () => () => {})));
  t.teardown(() => routes.pop());
  const fixture = await consoleFixture(t);
  const [noisy, quiet] = [await fixture.person(), await fixture.person()];
  await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = fixture.app.server.address() as AddressInfo;
  const open = async ({ browser }: ConsolePerson) => {
    const cookie = Array.from(browser.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const call = request({ host: '127.0.0.1', port, path: '/console/test-many', headers: { cookie }, agent: false });
    call.end();
    const [answer] = (await once(call, 'response')) as [IncomingMessage];
    return { call, status: answer.statusCode };
  };
  const calls: Awaited<ReturnType<typeof open>>[] = [];
  for (let i = 0; i < EVENT_STREAMS_PER_ACCOUNT_MAX; i++) calls.push(await open(noisy));
  t.same([...new Set(calls.map(({ status }) => status))], [200]);
  const refused = await open(noisy);
  t.equal(refused.status, 503);
  const other = await open(quiet);
  t.equal(other.status, 200, 'somebody else is none the worse');
  for (const { call } of [...calls, refused, other]) call.destroy();
});

t.test('accounts that took all event streams together give way to one that has none', async (t) => {
  let visited: SignedInVisit | null = null;
  const routes = CONSOLE_ROUTES as ConsoleRoute[];
  routes.push(
    get('/test-full', async (visit) => {
      visited = visit;
      return { kind: 'json', status: 200, body: {} };
    }),
  );
  t.teardown(() => routes.pop());
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  await browser.get('/console/test-full');
  const visit = visited as SignedInVisit | null;
  if (visit === null) throw new Error('no visit');
  const ended: string[] = [];
  const fill = (counts: readonly number[]) => {
    visit.deps.streams.clear();
    for (const [at, count] of counts.entries()) {
      for (let n = 0; n < count; n++) {
        const stream = { end: () => ended.push(`${at} ${n}`) } as unknown as ServerResponse;
        visit.deps.streams.set(stream, `acc_${at}`);
      }
    }
  };
  // An answer that was left already subscribes to nothing: only the room for it is tried.
  const raw = { destroyed: true };
  const left = { ...visit, reply: { hijack: () => {}, raw } } as unknown as SignedInVisit;
  const open = () => sendEvents(left, () => () => {});
  fill([...Array(31).fill(31), 32, 7]);
  t.equal(visit.deps.streams.size, EVENT_STREAMS_MAX);
  open();
  t.same(ended, ['31 0'], 'the oldest of who has the most');
  fill(Array(EVENT_STREAMS_MAX).fill(1));
  t.throws(open, { code: 'overloaded' }, 'who has one keeps it');
  t.equal(ended.length, 1);
});
