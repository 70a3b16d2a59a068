import t from 'tap';
import { startMetricsServer } from '../../../config/metrics-server.ts';

t.test('metrics are served under /metrics to GET only', async (t) => {
  const source = { contentType: 'text/plain; version=0.0.4', metrics: async () => 'up 1\n' };
  const server = await startMetricsServer({ host: '127.0.0.1', port: 0, source });
  t.teardown(() => server.close());
  const base = `http://127.0.0.1:${server.port}`;
  const answer = await fetch(`${base}/metrics`);
  t.equal(answer.status, 200);
  t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4');
  t.equal(await answer.text(), 'up 1\n');
  t.equal((await fetch(`${base}/`)).status, 404);
  t.equal((await fetch(`${base}/metrics`, { method: 'POST' })).status, 405);
});

t.test('a source that fails is answered 500 without its reason', async (t) => {
  const source = { contentType: 'text/plain', metrics: () => Promise.reject(new Error('secret reason')) };
  const server = await startMetricsServer({ host: '127.0.0.1', port: 0, source });
  t.teardown(() => server.close());
  const answer = await fetch(`http://127.0.0.1:${server.port}/metrics`);
  t.equal(answer.status, 500);
  t.equal(await answer.text(), '');
});
