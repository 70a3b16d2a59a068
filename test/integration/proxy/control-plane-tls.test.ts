import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { send } from './agent.ts';
import { proxyFixture } from './proxy-fixture.ts';

t.test('what is passed on goes to no control plane whose certificate nobody vouches for', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'mandate-tls-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];
  const named = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  execFileSync('openssl', [...made, ...named, '-keyout', key, '-out', cert], { stdio: 'ignore' });
  let received = 0;
  const impostor = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_request, response) => {
    received += 1;
    response.end('{}');
  });
  await new Promise<void>((resolve) => impostor.listen(0, '127.0.0.1', resolve));
  t.teardown(() => impostor.close());
  t.teardown(() => impostor.closeAllConnections());
  const { port } = await proxyFixture(t, {
    controlUrl: `https://127.0.0.1:${(impostor.address() as AddressInfo).port}`,
  });
  for (const path of ['/api/v1/x', '/.well-known/jwks.json', '/console/login']) {
    const answer = await send(port, path, { method: 'GET', token: null });
    t.same([answer.status, answer.json['error']], [503, 'not_decidable'], path);
  }
  t.equal(received, 0, 'neither the secret of proxies nor what people type');
});
