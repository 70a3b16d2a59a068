import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { begin, send } from './agent.ts';
import { proxyFixture } from './proxy-fixture.ts';

/** More than one person opens. */
const PAGES = 150;

t.test(
  'pages that are kept up to date keep nobody else from the control plane, and end with their browser',
  async (t) => {
    const open = new Set<ServerResponse>();
    const all = Promise.withResolvers<void>();
    const none = Promise.withResolvers<void>();
    const control = createServer((request, response) => {
      if (request.url !== '/console/events') {
        response.end('{}');
        return;
      }
      open.add(response);
      response.once('close', () => {
        open.delete(response);
        if (open.size === 0) none.resolve();
      });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 3000\n\n');
      if (open.size === PAGES) all.resolve();
    });
    await new Promise<void>((resolve) => control.listen(0, '127.0.0.1', resolve));
    t.teardown(() => control.close());
    t.teardown(() => control.closeAllConnections());
    const { port } = await proxyFixture(t, {
      controlUrl: `http://127.0.0.1:${(control.address() as AddressInfo).port}`,
    });
    const pages = Array.from({ length: PAGES }, () => {
      const page = begin(port, '/console/events', { method: 'GET', token: null });
      page.on('error', () => {});
      page.on('response', (answer) => answer.on('error', () => {}).resume());
      page.end();
      return page;
    });
    await all.promise;
    const answer = await send(port, '/api/v1/x', { method: 'GET' });
    t.equal(answer.status, 200);
    for (const page of pages) page.destroy();
    await none.promise;
    t.equal(open.size, 0);
  },
);
