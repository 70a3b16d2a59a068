import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { type SendEvent, sendEvents } from '../../../control-plane/console/events.ts';
import { CONSOLE_ROUTES } from '../../../control-plane/console/routes.ts';
import { type ConsoleRoute, get } from '../../../control-plane/console/visit.ts';
import { consoleFixture } from './console-fixture.ts';

t.test('events reach a page as they happen, end with the page, and with the control plane', async (t) => {
  let send: SendEvent = () => {};
  let left = 0;
  const routes = CONSOLE_ROUTES as ConsoleRoute[];
  routes.push(
    get('/test-events', async (visit) =>
      sendEvents(visit, (given) => {
        send = given;
        return () => {
          left += 1;
        };
      }),
    ),
  );
  t.teardown(() => routes.pop());
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = fixture.app.server.address() as AddressInfo;
  const cookie = Array.from(browser.cookies, ([name, value]) => `${name}=${value}`).join('; ');
  const begin = async () => {
    const call = request({ host: '127.0.0.1', port, path: '/console/test-events', headers: { cookie }, agent: false });
    call.end();
    const [answer] = (await once(call, 'response')) as [IncomingMessage];
    return { call, answer, pieces: answer[Symbol.asyncIterator]() };
  };
  const first = await begin();
  t.match(first.answer.headers, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-security-policy': /default-src 'none'/,
  });
  t.equal(String((await first.pieces.next()).value), 'retry: 3000\n\n');
  send('changed', { text: 'a\nb' });
  t.equal(String((await first.pieces.next()).value), 'event: changed\ndata: {"text":"a\\nb"}\n\n');
  first.call.destroy();
  const second = await begin();
  await second.pieces.next();
  await fixture.app.close();
  t.equal((await second.pieces.next()).done, true, 'a control plane that stops waits for no page');
  t.equal(left, 2);
});
