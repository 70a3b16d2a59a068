import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { Dispatcher } from '../../../control-plane/notifications/dispatcher.ts';
import { WebhookSender } from '../../../control-plane/notifications/webhook-sender.ts';
import { runAll } from '../notifications/notify-fixture.ts';
import { startReceiver } from '../notifications/receiver.ts';
import { consoleFixture } from './console-fixture.ts';

t.test('what is told by e-mail is chosen, and what is no address is refused beside its field', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  t.match((await browser.get('/console/settings')).text, /name="mail" value="on" checked/);
  const fields = { mail: 'on', 'mail_events[limit.reached]': 'on', language: 'de' };
  const refused = await browser.post('/console/settings/mail', { ...fields, recipients: 'a@example.com\r\nx' });
  t.equal(refused.status, 422);
  t.match(refused.text, /id="f-recipients-error"/);
  t.match(refused.text, /a@example\.com\r?\nx<\/textarea>/);
  t.equal((await browser.post('/console/settings/mail', { ...fields, language: 'fr' })).status, 422);
  t.equal((await browser.post('/console/settings/mail', { ...fields, 'mail_events[all]': 'on' })).status, 422);
  const saved = await browser.post('/console/settings/mail', {
    ...fields,
    recipients: 'a@example.com\r\nB@example.com',
  });
  t.same([saved.status, saved.location], [303, '/console/settings']);
  t.match(await fixture.sql`select * from notification_settings`, [
    { mail: true, mail_events: ['limit.reached'], recipients: ['a@example.com', 'b@example.com'], language: 'de' },
  ]);
  await browser.post('/console/settings/mail', { language: 'en', recipients: '' });
  t.match(await fixture.sql`select * from notification_settings`, [{ mail: false, mail_events: [], recipients: [] }]);
});

t.test('a webhook is made, tried, replayed, given a new secret, switched and deleted', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  const receiver = await startReceiver(t);
  await browser.get('/console/settings/webhooks/new');
  const fields = { name: 'Shop <b>', url: receiver.url, 'events[escalation.created]': 'on' };
  for (const [change, wrong] of [
    [{ url: 'ftp://example.com' }, 'f-url-error'],
    [{ url: '' }, 'f-url-error'],
    [{ name: ' ' }, 'f-name-error'],
    [{ 'events[escalation.created]': 'off' }, 'f-events-error'],
  ] as const) {
    const refused = await browser.post('/console/settings/webhooks', { ...fields, ...change });
    t.equal(refused.status, 422);
    t.match(refused.text, wrong);
  }
  const made = await browser.post('/console/settings/webhooks', fields);
  const secret = /whsec_[A-Za-z0-9+/=]+/.exec(made.text)?.[0] ?? '';
  t.not(secret, '');
  const path = /\/console\/settings\/webhooks\/whk_[0-9a-z]{26}/.exec(made.text)?.[0] ?? '';
  const dispatcher = new Dispatcher({
    ...{ sql: fixture.deps.sql, commands: fixture.lanes, custody: fixture.deps.custody, mails: null, count: () => {} },
    webhooks: new WebhookSender({ allowPrivate: true }),
    baseUrl: 'https://mandate.example',
    logError: (error) => fixture.errors.push(error),
  });
  t.teardown(() => dispatcher.close(0));
  await browser.get(path);
  t.equal((await browser.post(`${path}/test`, {})).location, path);
  await runAll(dispatcher);
  const [message] = receiver.seen;
  t.ok(new Webhook(secret).verify(message?.body ?? '', message?.headers ?? {}), 'the secret shown verifies');
  const page = await browser.get(path);
  t.match(page.text, /Arrived/);
  t.notMatch(page.text, /whsec_/, 'the secret is shown once');
  const delivery = new RegExp(`${path}/deliveries/dlv_[0-9a-z]{26}`).exec(page.text)?.[0] ?? '';
  t.match((await browser.get(delivery)).text, /webhook\.test/);
  t.equal((await browser.post(`${delivery}/replay`, {})).status, 303);
  t.equal((await browser.post(`${delivery}/replay`, {})).status, 409, 'it waits already');
  await runAll(dispatcher);
  t.equal(receiver.seen.length, 2);
  t.equal((await browser.get(`${path}/rotate`)).status, 200);
  const rotated = await browser.post(`${path}/rotate`, {});
  const second = /whsec_[A-Za-z0-9+/=]+/.exec(rotated.text)?.[0] ?? '';
  t.not(second, secret);
  await browser.get(path);
  t.equal((await browser.post(`${path}/disable`, {})).status, 303);
  const off = await browser.post(`${path}/test`, {});
  t.equal(off.status, 409);
  t.match(off.text, /This was not done/);
  t.equal((await browser.post(`${path}/enable`, {})).status, 303);
  t.equal((await browser.get(`${path}/delete`)).status, 200);
  t.equal((await browser.post(`${path}/delete`, {})).location, '/console/settings');
  t.equal((await browser.get(path)).status, 404);
  t.same(fixture.errors, []);
});
