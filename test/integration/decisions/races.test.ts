import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import type { SeededLimits } from '../../../bench/seed.ts';
import { bookConsumption } from '../../../control-plane/consumptions/book.ts';
import { book } from '../../../control-plane/decisions/booking.ts';
import type { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { DecimalText } from '../../../core/body-value.ts';
import { newSecretToken, secretHash } from '../../../core/secret-token.ts';
import { chainOf, monthOf } from './lane-client.ts';
import { type VerifyFixture, verified, verifyAsk, verifyFixture } from './verify-client.ts';

const CLIENTS = 64;
type Test = Parameters<typeof verifyFixture>[0] & { same(found: unknown, wanted: unknown, name: string): unknown };

/** Each race is run so often; MANDATE_TEST_ROUNDS says otherwise. */
const ROUNDS = Number(process.env['MANDATE_TEST_ROUNDS'] ?? 200);

interface Race extends VerifyFixture {
  /** Runs `one` for every client at once, half of them at each control plane. */
  all<T>(one: (lanes: Lanes, client: number) => Promise<T>): Promise<T[]>;
  /** Runs the rounds; each returns what it saw, which must be `expected`. */
  rounds(expected: unknown, round: (number: number) => Promise<unknown>): Promise<void>;
}

async function raceOf(t: Test, limits: SeededLimits = {}): Promise<Race> {
  const fixture = await verifyFixture(t, limits);
  const planes = [fixture.lanes, fixture.moreLanes()];
  const all: Race['all'] = (one) =>
    Promise.all(Array.from({ length: CLIENTS }, (_, client) => one(planes[client % 2] ?? fixture.lanes, client)));
  const rounds: Race['rounds'] = async (expected, round) => {
    for (let number = 0; number < ROUNDS; number++) {
      const seen = await round(number);
      if (!isDeepStrictEqual(seen, expected)) t.same(seen, expected, `round ${number}`);
    }
    t.same(fixture.errors, [], `nothing failed in ${ROUNDS} rounds`);
  };
  return { ...fixture, all, rounds };
}

/** How often each answer was given: `allow`, or the code of the deny. */
function tally(answers: readonly { readonly json: { decision: string; reasons?: readonly string[] } }[]) {
  const counts: Record<string, number> = {};
  for (const { json } of answers) {
    const name = json.reasons?.[0] ?? json.decision;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** The token of an approval for 1.00 EUR to acme. */
async function approved(fixture: VerifyFixture): Promise<string> {
  const { json } = await verified(fixture);
  const token = newSecretToken('etk');
  await fixture.sql`update escalations set status = 'approved', token_hash = decode(${secretHash(token)}, 'hex')
    where escalation_id = ${json.escalation?.id ?? ''}`;
  return token;
}

t.test(`one presentation allows once, whichever of ${CLIENTS} clients at two control planes is first`, async (t) => {
  const fixture = await raceOf(t);
  await fixture.rounds({ allow: 1, 'MD-105': CLIENTS - 1 }, async () => {
    const ask = verifyAsk(fixture);
    return tally(await fixture.all((lanes) => verified(fixture, ask, lanes)));
  });
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: ROUNDS * 100, booked: 0 });
  t.equal((await chainOf(fixture.sql, fixture.account)).length, ROUNDS * CLIENTS, 'every answer is in the evidence');
});

t.test(`one idempotency key decides once: ${CLIENTS} clients at two control planes read one answer`, async (t) => {
  const fixture = await raceOf(t);
  await fixture.rounds({ first: 1, bodies: 1 }, async (number) => {
    const ask = verifyAsk(fixture, { idempotencyKey: `round-${number}` });
    const answers = await fixture.all((lanes) => verified(fixture, ask, lanes));
    const first = answers.filter(({ replayed }) => !replayed).length;
    return { first, bodies: new Set(answers.map(({ body }) => body)).size };
  });
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: ROUNDS * 100, booked: 0 });
  t.equal((await chainOf(fixture.sql, fixture.account)).length, ROUNDS, 'decided once a key');
});

t.test(`one escalation token allows once, with ${CLIENTS} presentations at two control planes`, async (t) => {
  const fixture = await raceOf(t, { escalation_threshold: 50 });
  await fixture.rounds({ allow: 1, 'MD-402': CLIENTS - 1 }, async () => {
    const escalationToken = await approved(fixture);
    return tally(await fixture.all((lanes) => verified(fixture, { escalationToken }, lanes)));
  });
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: ROUNDS * 100, booked: 0 });
  const [row] = await fixture.sql`select count(*)::int as used from escalations where status = 'used'`;
  t.equal(row?.['used'], ROUNDS);
});

t.test(`one consumption token books once, whatever ${CLIENTS} clients at two control planes say`, async (t) => {
  const fixture = await raceOf(t);
  const { accountId } = fixture.account;
  let booked = 0;
  // Those who said what the winner said have its answer, all others a conflict.
  const same = CLIENTS / 8;
  await fixture.rounds({ first: 1, texts: 1, same, conflict: CLIENTS - same }, async () => {
    const { json } = await verified(fixture, { amount: 1_000 });
    const where = { accountId, tokenHash: secretHash(json.consumption_token ?? '') };
    const results = await fixture.all((lanes, client) => {
      const asked = { final_amount: new DecimalText(String(client % 8)) };
      const booked = book(lanes, where, (context, one) => bookConsumption(context, one, asked));
      return Promise.allSettled([booked]);
    });
    const answers = results.flatMap(([one]) => (one.status === 'fulfilled' && one.value !== null ? [one.value] : []));
    const first = answers.filter(({ replayed }) => !replayed);
    for (const { text } of first) booked += 100 * (JSON.parse(text) as Booking).booked.value;
    const texts = new Set(answers.map(({ text }) => text)).size;
    const conflict = results.filter(([one]) => one.status === 'rejected' && one.reason.code === 'conflict').length;
    return { first: first.length, texts, same: answers.length, conflict };
  });
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 0, booked });
  t.equal((await chainOf(fixture.sql, fixture.account)).length, 2 * ROUNDS, 'a decision and a booking each');
});

interface Booking {
  readonly booked: { readonly value: number };
}
