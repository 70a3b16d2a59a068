import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { EVENT_STREAMS_PER_ACCOUNT_MAX, sendEvents } from '../../../control-plane/console/events.ts';
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
