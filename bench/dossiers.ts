import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { bookConsumption } from '../control-plane/consumptions/book.ts';
import { Custody } from '../control-plane/custody/custody.ts';
import { connect, type Sql } from '../control-plane/db/client.ts';
import type { DecidedVerification, Problem } from '../control-plane/decisions/ask.ts';
import { book } from '../control-plane/decisions/booking.ts';
import { Lanes } from '../control-plane/decisions/lanes.ts';
import { VersionCache } from '../control-plane/decisions/versions.ts';
import { makeDossier } from '../control-plane/dossiers/make.ts';
import { mandateInput } from '../control-plane/mandates/input.ts';
import { createMandate } from '../control-plane/mandates/routes.ts';
import { TokenBuckets } from '../control-plane/rate-limit/buckets.ts';
import { SigningKeys } from '../control-plane/signing/signing-keys.ts';
import { bodyValue } from '../core/body-value.ts';
import { formatDidKey } from '../core/did-key.ts';
import { checkDossier } from '../core/dossier-check.ts';
import { readPinnedJwks } from '../core/dossier-trust.ts';
import { newSeed, SigningKey } from '../core/ed25519.ts';
import { parseStrictJson } from '../core/json.ts';
import { secretHash } from '../core/secret-token.ts';
import { VERIFICATIONS } from '../test/integration/decisions/lane-client.ts';
import { verifyAsk } from '../test/integration/decisions/verify-client.ts';
import { fillEvidence } from './fill-evidence.ts';
import { benchDatabase, median, seedAccounts, seedKey } from './seed.ts';

/**
 * Shows what a dossier costs, and whether that grows with the entries of its account.
 *
 * `node bench/dossiers.ts [--entries 10048,1000000] [--fetches 200]`: made from the database, signed, without HTTP. The
 * sizes fill their last tile of 256 alike: what is read of it depends on that and not on how much there is.
 */
const { values } = parseArgs({
  options: {
    entries: { type: 'string', default: '10048,1000000' },
    fetches: { type: 'string', default: '200' },
  },
});

const ISSUER = 'https://mandate.example';
const SILENT = {
  ...{ decision() {}, outcome() {}, batch() {}, laneDepth() {}, evidence() {}, facts() {}, rateLimited() {} },
};

/** An account with so many entries and then an allow that was booked; returns what fetches its dossier. */
async function prepared(sql: Sql, appUrl: string, entries: number) {
  const [account] = await seedAccounts(sql, 1, 'http://127.0.0.1:9');
  if (account === undefined) throw new Error('no account was seeded');
  await fillEvidence(sql, account, entries);
  const custody = new Custody(randomBytes(32));
  const logError = (error: unknown): void => console.error(error);
  const versions = new VersionCache(() => '');
  const buckets = new TokenBuckets();
  const verifications = VERIFICATIONS;
  const lanes = new Lanes({ databaseUrl: appUrl, versions, buckets, verifications, metrics: SILENT, logError });
  const signing = await SigningKeys.open(sql, custody, logError);
  const agent = new SigningKey(newSeed());
  const did = formatDidKey(agent.publicKey);
  const limits = '{"scope":["payments.*"],"amount_limit_per_action":100,"amount_limit_per_month":1000,"activate":true}';
  const input = mandateInput.parse({ ...(bodyValue(parseStrictJson(Buffer.from(limits))) as object), agent_did: did });
  const mandateId = await lanes.command(account.accountId, (context) => createMandate(context, custody, input));
  const key = await seedKey(sql, account);
  const fixture = { account: { ...account, mandateId }, agent, did, key } as Parameters<typeof verifyAsk>[0];
  const { accountId } = account;
  const decided = await new Promise<DecidedVerification | Problem>((answer) => {
    const asked = { accountId: key.accountId, keyId: key.keyId };
    const deadlineMs = performance.now() + 5_000;
    lanes.submit({ kind: 'verify', accountId, key: asked, ask: verifyAsk(fixture), deadlineMs, answer });
  });
  if (decided.answer === 'problem') throw new Error(decided.detail);
  const { receiptId } = decided;
  const tokenHash = secretHash(verifications.consumptionToken(receiptId));
  await book(lanes, { accountId, tokenHash }, (context, authorisation) => bookConsumption(context, authorisation, {}));
  const fetch = () => makeDossier({ sql, signing, issuer: ISSUER }, { accountId, receiptId, mat: null });
  const close = async (): Promise<void> => {
    signing.close();
    await lanes.close();
  };
  return { fetch, jwks: signing.jwks(), close };
}

const medians: number[] = [];
for (const entries of values.entries.split(',').map(Number)) {
  const database = await benchDatabase();
  const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 10, statementTimeoutMs: 3_600_000 });
  const { fetch, jwks, close } = await prepared(sql, database.appUrl, entries);
  for (let n = 0; n < 20; n++) await fetch();
  const times: number[] = [];
  for (let n = 0; n < Number(values.fetches); n++) {
    const started = performance.now();
    await fetch();
    times.push(performance.now() - started);
  }
  medians.push(median(times));
  const worst = times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;
  const bytes = Buffer.from(JSON.stringify(await fetch()));
  const pinned = readPinnedJwks(Buffer.from(JSON.stringify(jwks)));
  if (!pinned.ok) throw new Error(pinned.problem);
  const started = performance.now();
  const { verdict } = await checkDossier(bytes, pinned.trust);
  const checked = performance.now() - started;
  console.log(
    `${entries} entries: median ${median(times).toFixed(1)} ms, 99 % ${worst.toFixed(1)} ms, ${bytes.length} bytes; ` +
      `${verdict} after ${checked.toFixed(0)} ms`,
  );
  await close();
  await sql.end();
  await database.stop();
}
console.log(`ratio ${((medians.at(-1) ?? 0) / (medians[0] ?? 1)).toFixed(2)}`);
