import t from 'tap';
import { createLogger, withoutSecrets } from '../../../config/log.ts';

const TOKEN = `gwt_${'A'.repeat(43)}`;

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  write(createLogger({ name: 'test', level: 'info', destination: { write: (line) => lines.push(line) } }));
  return lines.join('');
}

t.test('members that hold secrets are redacted down to the third level', async (t) => {
  const line = logged((log) =>
    log.info({
      password: 'p1',
      user: { totp_secret: 'p2' },
      req: { headers: { authorization: 'p3', 'x-api-key': 'p4' } },
    }),
  );
  t.notMatch(line, /p[1-4]"/);
  t.equal(line.match(/\[redacted\]/g)?.length, 4);
});

t.test('bearer secrets and passwords in URLs are taken out of messages and errors', async (t) => {
  const error = new Error(`refused ${TOKEN}`, { cause: new Error('connect postgres://app:hunter2@db/x') });
  Object.assign(error, { parameters: ['hunter2'] });
  const line = logged((log) => log.error({ err: error }, `failed for ${TOKEN}`));
  t.notMatch(line, /hunter2/);
  t.notMatch(line, TOKEN);
  t.match(line, /refused \[redacted\]/);
  t.equal(withoutSecrets('postgres://app:pw@db'), 'postgres://app:[redacted]@db');
});

t.test('a hostile value stays within its line', async (t) => {
  const line = logged((log) => log.info({ path: '/a\r\n{"level":"fatal"}\u001b[2J' }, 'request'));
  t.equal(line.trimEnd().split('\n').length, 1);
  t.notMatch(line, /\u001b/);
  t.equal(JSON.parse(line).level, 'info');
});
