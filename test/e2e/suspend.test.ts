import t from 'tap';
import { startCluster } from './cluster.ts';

const CLIENTS = 64;
const SWITCHES = 5;

t.test('no request that started after the suspend command returned is forwarded', async (t) => {
  const cluster = await startCluster(t);
  const [account, ...others] = await cluster.seed({}, 8);
  const tokens = [account!, ...others].map(({ token }) => token);
  const session = await cluster.signIn(account!.accountId);
  let hammering = true;
  let number = 0;
  const started = new Map<string, number>();
  const client = async (): Promise<void> => {
    while (hammering) {
      const reference = `r${number++}`;
      started.set(reference, performance.now());
      await cluster.pay(tokens[number % tokens.length]!, reference);
    }
  };
  const clients = Array.from({ length: CLIENTS }, client);
  for (let i = 0; i < SWITCHES; i++) {
    const before = cluster.ledger.size;
    while (cluster.ledger.size < before + 50) await new Promise((resolve) => setImmediate(resolve));
    t.equal(await session.post(`/admin/mandates/${account!.mandateId}/suspend`), 200);
    const returnedMs = performance.now();
    const mark = number;
    // Long enough that every client has begun several requests since.
    while (number < mark + 10 * CLIENTS) await new Promise((resolve) => setImmediate(resolve));
    const late = [...cluster.ledger.keys()].filter((reference) => started.get(reference)! > returnedMs);
    t.same(late, [], `suspension ${i + 1}: nothing that started later reached the target`);
    t.equal(await session.post(`/admin/mandates/${account!.mandateId}/resume`), 200);
  }
  hammering = false;
  await Promise.all(clients);
});
