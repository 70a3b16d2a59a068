import t, { type Test } from 'tap';
import { MailSender } from '../../../control-plane/notifications/mail-sender.ts';
import { fieldsOf } from '../control-plane/noun-fixture.ts';
import { type NotifyFixture, notifyFixture, runAll } from './notify-fixture.ts';
import { type SmtpServer, startSmtp, type TakenMail } from './smtp-server.ts';

const FROM = 'Mandate Gateway <mandate@example.com>';

async function mailFixture(t: Test) {
  const [fixture, smtp] = [await notifyFixture(t), await startSmtp(t)];
  return { fixture, smtp, dispatcher: fixture.dispatcher({ mails: senderTo(smtp) }) };
}

function senderTo({ port }: SmtpServer, allowPlaintext = true): MailSender {
  return new MailSender({ smtpUrl: `smtp://127.0.0.1:${port}`, from: FROM, allowPlaintext });
}

/** Head and readable text of a mail, its quoted-printable and base64 parts decoded. */
function read({ text }: TakenMail): { readonly head: string; readonly body: string } {
  const [head = '', ...rest] = text.split('\n\n');
  const unfolded = head.replaceAll(/\n[ \t]/g, ' ').replaceAll(/(\?=) (?==\?)/g, '$1');
  const body = rest
    .join('\n\n')
    .split(/\n--[^\n]+\n/)
    .map((part) => {
      const [partHead = '', ...content] = part.split('\n\n');
      if (/base64/i.test(partHead)) return Buffer.from(content.join(''), 'base64').toString('utf8');
      return /quoted-printable/i.test(partHead) ? quotedPrintable(content.join('\n\n')) : part;
    })
    .join('\n');
  return { head: unfolded.replaceAll(/=\?UTF-8\?Q\?([^?]*)\?=/gi, (_, word: string) => qWord(word)), body };
}

const qWord = (word: string): string => quotedPrintable(word.replaceAll('_', ' '));

function quotedPrintable(text: string): string {
  const bytes = text.replaceAll('=\n', '').replaceAll(/=([0-9A-F]{2})/gi, (_, hex: string) => {
    return String.fromCharCode(Number.parseInt(hex, 16));
  });
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

async function failures({ sql }: NotifyFixture) {
  return await sql<{ target: string; state: string; last_error: string | null; last_status: number | null }[]>`
    select target, state, last_error, last_status from notification_deliveries order by target`;
}

t.test('an escalation goes to the account’s address and its recipients, with a link to answer it', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  const agent = await fixture.payer({ name: 'Office supplies' });
  await fixture.as('PUT', '/admin/notifications', { recipients: ['deputy@example.com'] });
  const id = await fixture.escalate(agent);
  await runAll(dispatcher, fixture.dispatcher({ mails: senderTo(smtp) }));
  t.same(smtp.taken.map(({ to }) => to.join()).sort(), ['deputy@example.com', fixture.person.email]);
  for (const mail of smtp.taken) {
    const { head, body } = read(mail);
    t.match(head, /^Subject: Your decision is needed: mandate "Office supplies"$/m);
    t.match(head, /^From: Mandate Gateway <mandate@example\.com>$/m);
    t.match(head, /^Message-ID: <dlv_[0-9a-z]{26}@example\.com>$/m);
    t.match(body, `https://mandate.example/console/approvals/${id}`);
    t.match(body, /5\.01 EUR/);
    t.match(body, `<a href="https://mandate.example/console/approvals/${id}">`);
  }
  t.same(fixture.errors, []);
});

t.test('mails speak the account’s language', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  await fixture.as('PUT', '/admin/notifications', { language: 'de' });
  await fixture.escalate(await fixture.payer());
  await runAll(dispatcher);
  const { head, body } = read(smtp.taken[0]!);
  t.match(head, /Ihre Entscheidung ist gefragt/);
  t.match(body, /Ein Agent möchte etwas tun/);
});

t.test('what an agent or a person writes begins no header, no markup and no line of its own', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  const agent = await fixture.payer();
  const hostile = 'x\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script>\u202e';
  await fixture.sql`update mandates set name = ${hostile}`;
  await fixture.escalate(
    agent,
    '<img src=x onerror=alert(1)>\nAmount: 0.01 EUR https://evil.example/approvals www.evil.example',
  );
  await runAll(dispatcher);
  t.same(
    smtp.taken.map(({ to }) => to),
    [[fixture.person.email]],
  );
  const { head, body } = read(smtp.taken[0]!);
  t.notMatch(head, /^Bcc:/im);
  t.notMatch(body.slice(body.indexOf('<!doctype')), /<script|<img/);
  t.notMatch(body, /^Amount: 0\.01/m);
  t.match(body, /&lt;img src=x/);
  t.match(body, /https :\/\/ evil\.example/);
  t.notMatch(body, /https:\/\/evil|www\.evil/, 'the only link is ours');
});

t.test('addresses that are lists, headers or no addresses are refused', async (t) => {
  const fixture = await notifyFixture(t);
  for (const address of [
    'a@b.example,c@d.example',
    'a@b.example\r\nBcc: c@d.example',
    'a b@c.example',
    '<a@b.example>',
  ]) {
    const answer = await fixture.as('PUT', '/admin/notifications', { recipients: [address] });
    t.match(fieldsOf(answer).join(), 'recipients', address);
  }
  const six = Array.from({ length: 6 }, (_, i) => `p${i}@example.com`);
  t.match(fieldsOf(await fixture.as('PUT', '/admin/notifications', { recipients: six })).join(), 'recipients');
});

t.test('what an account does not want by mail it does not get, and the change is evidence', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  const agent = await fixture.payer();
  t.match((await fixture.as('GET', '/admin/notifications')).body, { mail: true, recipients: [], language: 'en' });
  await fixture.as('PUT', '/admin/notifications', { mail_events: ['escalation.rejected'] });
  const id = await fixture.escalate(agent);
  await runAll(dispatcher);
  await fixture.as('POST', `/admin/escalations/${id}/reject`, {});
  await runAll(dispatcher);
  t.match(
    smtp.taken.map((mail) => read(mail).head),
    [/Subject: Rejected/],
  );
  await fixture.as('PUT', '/admin/notifications', { mail: false });
  const other = await fixture.escalate(agent, 'another');
  await fixture.as('POST', `/admin/escalations/${other}/reject`, {});
  await runAll(dispatcher);
  t.equal(smtp.taken.length, 1);
  const kinds = (await fixture.chain()).map(({ kind }) => kind);
  t.equal(kinds.filter((kind) => kind === 'notifications.changed').length, 2);
});

t.test('a server that is away is tried again, and what nobody can answer any more is not sent', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  await smtp.close();
  await fixture.escalate(await fixture.payer());
  await runAll(dispatcher);
  t.match(await failures(fixture), [{ state: 'pending', last_error: 'unreachable' }]);
  await fixture.advance(601);
  const up = await startSmtp(t);
  await runAll(fixture.dispatcher({ mails: senderTo(up) }));
  t.match(await failures(fixture), [{ state: 'dead', last_error: 'too_late' }]);
  t.same(up.taken, []);
});

t.test('a recipient who is refused for good is given up, one who is put off is tried again', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  smtp.recipient = (address) => (address.startsWith('gone') ? '550 no such user' : '451 later');
  await fixture.as('PUT', '/admin/notifications', { recipients: ['gone@example.com'] });
  await fixture.escalate(await fixture.payer());
  await runAll(dispatcher);
  t.match(await failures(fixture), [
    { target: 'gone@example.com', state: 'dead', last_error: 'refused', last_status: 550 },
    { target: fixture.person.email, state: 'pending', last_error: 'refused', last_status: 451 },
  ]);
  smtp.recipient = () => '250 OK';
  await fixture.advance(7);
  await runAll(dispatcher);
  t.same(
    smtp.taken.map(({ to }) => to),
    [[fixture.person.email]],
  );
});

t.test('a server without TLS gets no mail unless that is allowed', async (t) => {
  const [fixture, smtp] = [await notifyFixture(t), await startSmtp(t)];
  await fixture.escalate(await fixture.payer());
  await runAll(fixture.dispatcher({ mails: senderTo(smtp, false) }));
  t.match(await failures(fixture), [{ state: 'pending' }]);
  t.same(smtp.taken, []);
});

t.test('an address gets a bounded number of mails in an hour, and room is left for escalations', async (t) => {
  const { fixture, smtp, dispatcher } = await mailFixture(t);
  const agent = await fixture.payer();
  await fixture.sql`
    select record_notification(${agent.accountId}, 'outcome.unknown', n::text, jsonb_build_object('mandate_id',
      ${agent.mandateId}::text, 'subject_id', ${agent.instanceId}::text, 'count', 1, 'amount', 1, 'receipts',
      '[]'::jsonb))
    from generate_series(1, 40) n`;
  await runAll(dispatcher);
  t.equal(smtp.taken.length, 30);
  t.equal(fixture.counted.filter((one) => one === 'mail suppressed').length, 10);
  await fixture.escalate(agent);
  await runAll(dispatcher);
  t.match(read(smtp.taken.at(-1)!).head, /Your decision is needed/);
});
