import t from 'tap';
import { ExportCheck } from '../../../core/export-check.ts';
import { busyAccount, HOSTILE } from './busy-console.ts';
import { type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';

type Busy = Awaited<ReturnType<typeof busyAccount>>;
interface Prepared {
  readonly fixture: ConsoleFixture;
  readonly person: ConsolePerson;
  readonly busy: Busy;
  page(path: string): Promise<string>;
}

async function prepared(t: Parameters<typeof consoleFixture>[0]): Promise<Prepared> {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const busy = await busyAccount(fixture, person);
  const page = async (path: string) => {
    const answer = await person.browser.get(path);
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return answer.text;
  };
  return { fixture, person, busy, page };
}

/** The receipts that a page leads to, in its order. */
const receiptsOf = (text: string): string[] =>
  Array.from(text.matchAll(/href="\/console\/evidence\/(rcp_[0-9a-z]{26})"/g), ([, id]) => id ?? '');

t.test('what is looked for is found, and nothing else', async (t) => {
  const { busy, page } = await prepared(t);
  const all = receiptsOf(await page('/console/evidence'));
  t.equal(all.length, 7);
  t.same(receiptsOf(await page(`/console/evidence?receipt=${busy.deniedReceipt}`)), [busy.deniedReceipt]);
  t.same(receiptsOf(await page('/console/evidence?decision=escalate')), [busy.escalatedReceipt]);
  const { account } = busy;
  const found = async (query: string) => receiptsOf(await page(`/console/evidence?${query}`)).length;
  t.equal(await found('code=MD-302'), 1);
  t.equal(await found('decision=deny'), 4);
  t.equal(await found(`mandate=${account.mandateId}`), 7);
  t.equal(await found(`subject=${account.instanceId}`), 7);
  t.equal(await found('subject=key_01h455vb4pex5vsknk084sn02q'), 0);
  t.equal(await found('min_amount=12,50&max_amount=60.00&currency=eur'), 2, 'both are included');
  t.equal(await found('from=2020-01-01&to='), 7);
  t.equal(await found('to=2020-01-01T10:30'), 0);
  t.equal(await found('agent=did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'), 0);
});

t.test('a search goes on below the page before, and keeps its conditions', async (t) => {
  const { busy, page } = await prepared(t);
  for (let at = 0; at < 40; at++) await busy.ask({ amount: 20_000 + at });
  const first = await page('/console/evidence?decision=deny&code=MD-302');
  const next = /href="(\/console\/evidence\?[^"]*before=[^"]*)"/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? '';
  t.match(next, /decision=deny&code=MD-302&before=\d+/);
  const second = await page(next);
  const found = [...receiptsOf(first), ...receiptsOf(second)];
  t.same([receiptsOf(first).length, found.length, new Set(found).size], [30, 41, 41]);
  t.notMatch(second, /href="[^"]*before=/, 'there is no page after it');
  t.match(second, /href="\/console\/evidence\?decision=deny&amp;code=MD-302"/, 'and back to the newest');
});

t.test('a search that was through with a part before it found a page full says how far it came', async (t) => {
  const { fixture, busy, page, person } = await prepared(t);
  await fixture.sql`update gateway_instances set rate_per_second = 1000000, rate_burst = 1000000`;
  // More than one look takes from the end of the chain, which nobody has indexed yet.
  for (let round = 0; round < 9; round++) {
    await Promise.all(Array.from({ length: 250 }, () => busy.ask({ amount: 20_000 })));
  }
  const first = await page('/console/evidence?decision=escalate');
  t.match(first, /No match so far[\s\S]*Searched back to[\s\S]*<time /);
  const on = /href="([^"]*before=\d+)" data-search-on=""/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? '';
  t.same(receiptsOf(await page(on)), [busy.escalatedReceipt]);
  await person.browser.post('/console/preferences', { language: 'de' });
  t.match(await page('/console/evidence?decision=escalate'), /Bisher passt keine[\s\S]*Gesucht wurde zurück bis/);
});

t.test('what cannot be read is named beside its field, and nothing is searched', async (t) => {
  const { person } = await prepared(t);
  for (const [query, field] of [
    ['receipt=rcp_x', 'receipt'],
    ['mandate=1', 'mandate'],
    ['subject=acc_1', 'subject'],
    ['agent=did:web:x', 'agent'],
    ['code=MD-999', 'code'],
    ['decision=maybe', 'decision'],
    ['from=yesterday', 'from'],
    ['to=2030-02-31T00:00:00', 'to'],
    ['min_amount=5', 'currency'],
    ['min_amount=5.001&currency=EUR', 'min_amount'],
    ['max_amount=1.000,00&currency=EUR', 'max_amount'],
    ['currency=XXQ', 'currency'],
  ] as const) {
    const answer = await person.browser.get(`/console/evidence?${query}`);
    t.equal(answer.status, 422, query);
    t.match(answer.text, new RegExp(`id="f-${field.replace('_', '-')}-error"`), query);
    t.same(receiptsOf(answer.text), [], query);
  }
  for (const query of ['before=x', 'before=-1', 'from=1&from=2', 'nothing=1', `q=${encodeURIComponent(HOSTILE)}`]) {
    const answer = await person.browser.get(`/console/evidence?${query}`);
    t.equal(answer.status, 422, query);
    t.notMatch(answer.text, /<img|<script>alert/, query);
  }
  for (const query of ['kind=nothing', 'kind=constructor', 'before=1e3', 'kind=key&kind=key', 'x=1']) {
    t.equal((await person.browser.get(`/console/evidence/entries?${query}`)).status, 422, query);
  }
});

t.test('text from agents and people stays text on every page', async (t) => {
  const { busy, page, person } = await prepared(t);
  const paths = [
    ...['/console', '/console/evidence', '/console/evidence/entries', '/console/evidence?decision=deny'],
    ...[busy.allowedReceipt, busy.deniedReceipt, busy.escalatedReceipt].map((id) => `/console/evidence/${id}`),
    `/console/evidence/${busy.allowedReceipt}/print`,
  ];
  const receipts = receiptsOf(await page('/console/evidence'));
  for (const path of [...paths, ...receipts.map((id) => `/console/evidence/${id}`)]) {
    const text = await page(path);
    t.notMatch(text, /<img|<script>|onerror="/, path);
  }
  t.match(await page('/console/evidence'), /&lt;img src=x/, 'and it is there');
  const search = await person.browser.get(`/console/evidence?receipt=${encodeURIComponent(HOSTILE)}`);
  t.equal(search.status, 422);
  t.notMatch(search.text, /<img/);
});

t.test('a decision says what was asked, why it was decided so, and what became of it', async (t) => {
  const { fixture, busy, page } = await prepared(t);
  const yes = await page(`/console/evidence/${busy.allowedReceipt}`);
  for (const said of ['payments.create', '12.50\u00a0EUR', 'POST /payments', 'acme', 'The target answered']) {
    t.ok(yes.includes(said), said);
  }
  t.match(yes, /One action may cost at most 100\.00 EUR/, 'the mandate as it stood');
  t.match(yes, /<pre tabindex="0">\{\n {2}&quot;account&quot;/, 'and the entry itself');
  const list = await page('/console/evidence?code=MD-302');
  const [large = ''] = receiptsOf(list);
  const no = await page(`/console/evidence/${large}`);
  t.match(no, /The amount is above the limit per action\./);
  t.match(no, /MD-302/);
  const url = `/admin/escalations/${busy.escalationId}/reject`;
  const waits = await page(`/console/evidence/${busy.escalatedReceipt}`);
  t.match(waits, /Nobody has answered yet/);
  t.equal((await fixture.send('POST', url, busy.token, { reason: `no ${HOSTILE}` })).status, 200);
  const answered = await page(`/console/evidence/${busy.escalatedReceipt}`);
  t.match(answered, /A request was rejected/);
  t.match(answered, /<q>no &lt;img/);
});

t.test('the dossier of a decision is a file, and a page that may load nothing', async (t) => {
  const { busy, person } = await prepared(t);
  const base = `/console/evidence/${busy.allowedReceipt}`;
  const file = await person.browser.get(`${base}/dossier`);
  t.equal(file.headers['content-disposition'], `attachment; filename="dossier-${busy.allowedReceipt}.json"`);
  t.match(JSON.parse(file.text), { receipt: { receipt_id: busy.allowedReceipt, decision: 'allow' }, seal: String });
  const print = await person.browser.get(`${base}/print`);
  t.match(String(print.headers['content-security-policy']), /default-src 'none'; style-src 'sha256-/);
  t.match(print.text, /Dossier of rcp_/);
});

t.test('changes are listed in words, by kind, page by page, and each has its own page', async (t) => {
  const { busy, page, fixture } = await prepared(t);
  const all = await page('/console/evidence/entries');
  for (const said of ['A mandate was written', 'A gateway was made', 'A tool was mapped', 'The account was made']) {
    t.ok(all.includes(said), said);
  }
  t.notMatch(all, /A request was decided/);
  const tools = await page('/console/evidence/entries?kind=tool');
  t.match(tools, /A tool was mapped/);
  t.notMatch(tools, /A mandate was written/);
  for (let at = 0; at < 35; at++) {
    await fixture.send('POST', '/admin/keys', busy.token, { name: `key ${at}`, scopes: ['verify'] });
  }
  const first = await page('/console/evidence/entries?kind=key');
  const next =
    /href="(\/console\/evidence\/entries\?[^"]*before=\d+)"/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? '';
  const second = await page(next);
  const ids = (text: string) => Array.from(text.matchAll(/entries\/(evt_[0-9a-z]{26})"/g), ([, id]) => id);
  t.same([ids(first).length, ids(second).length], [30, 5]);
  t.equal(new Set([...ids(first), ...ids(second)]).size, 35);
  const one = await page(`/console/evidence/entries/${ids(first)[0]}`);
  t.match(one, /An API key was made/);
  t.match(one, /&quot;token_sha256&quot;/);
});

t.test('an export is the file of the API, recorded as made by the account', async (t) => {
  const { person, fixture } = await prepared(t);
  const { browser, accountId } = person;
  await browser.get('/console/evidence/export');
  const whole = await browser.post('/console/evidence/export', { from_seq: '0', to_seq: '', format: 'json' });
  t.equal(whole.status, 200);
  t.match(String(whole.headers['content-disposition']), new RegExp(`^attachment; filename="evidence-${accountId}-0-`));
  const check = new ExportCheck(null);
  check.push(Buffer.from(whole.text));
  t.equal(check.problem, null);
  const lines = await browser.post('/console/evidence/export', { from_seq: '2', to_seq: '4', format: 'ndjson' });
  t.equal(lines.headers['x-export-entries'], '3');
  t.equal(lines.text.trim().split('\n').length, 5);
  const rows = await fixture.sql<{ by: string }[]>`
    select body::json ->> 'exported_by' as by from evidence where kind = 'evidence.exported'`;
  t.same(
    rows.map(({ by }) => by),
    [accountId, accountId],
  );
});

t.test('an export of what there is not is refused beside its field, and is not recorded', async (t) => {
  const { person, fixture } = await prepared(t);
  const { browser } = person;
  await browser.get('/console/evidence/export');
  for (const [given, field] of [
    [{ from_seq: '-1', to_seq: '' }, 'from-seq'],
    [{ from_seq: '1.5', to_seq: '' }, 'from-seq'],
    [{ from_seq: '0', to_seq: '999999' }, 'to-seq'],
    [{ from_seq: '9', to_seq: '3' }, 'from-seq'],
    [{ from_seq: '0', to_seq: 'x' }, 'to-seq'],
  ] as const) {
    const answer = await browser.post('/console/evidence/export', { ...given, format: 'json' });
    t.equal(answer.status, 422, JSON.stringify(given));
    t.match(answer.text, new RegExp(`id="f-${field}-error"`), JSON.stringify(given));
  }
  const wrong = await browser.post('/console/evidence/export', { from_seq: '0', to_seq: '', format: 'xml' });
  t.equal(wrong.status, 422);
  t.same(await fixture.sql`select from evidence where kind = 'evidence.exported'`, []);
});

t.test('the log says whether it continues what was signed, and hands out its checkpoint', async (t) => {
  const { person, page } = await prepared(t);
  const good = await page('/console/evidence/log');
  t.match(good, /The log continues what was signed before/);
  const checkpoint = await person.browser.get('/console/evidence/log/checkpoint');
  t.match(checkpoint.text, new RegExp(`^mandate\\.example/${person.accountId}\n\\d+\n`));
  t.match(String(checkpoint.headers['content-disposition']), /^attachment; filename="checkpoint-acc_/);
});

t.test('a log that contradicts what was signed says so, and signs nothing', async (t) => {
  const { fixture, person, page } = await prepared(t);
  await page('/console/evidence/log');
  const { sql } = fixture;
  for (const table of ['tree_heads', 'evidence']) await sql.unsafe(`alter table ${table} disable trigger user`);
  await sql`update tree_heads set root = ${Buffer.alloc(32, 1)} where account_id = ${person.accountId}`;
  await sql`update tree_heads set size = size - 1, at = '2020-01-01T00:00:00.000Z'
    where account_id = ${person.accountId}`;
  t.match(await page('/console/evidence/log'), /The log contradicts what was signed before/);
  t.equal((await sql`select from tree_heads where account_id = ${person.accountId}`).length, 1);
});

t.test('the pages speak German, down to the reasons', async (t) => {
  const { busy, person } = await prepared(t);
  const headers = { 'accept-language': 'de' };
  const list = await person.browser.get('/console/evidence?code=MD-302', headers);
  t.match(list.text, /Der Betrag liegt über der Grenze je Handlung\./);
  const one = await person.browser.get(`/console/evidence/${busy.allowedReceipt}`, headers);
  t.match(one.text, /Eine Handlung darf höchstens 100,00 EUR kosten/);
  t.match((await person.browser.get('/console', headers)).text, /Ablehnungen nach Grund/);
});
