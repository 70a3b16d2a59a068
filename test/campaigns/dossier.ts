import { parseArgs } from 'node:util';
import { sampleDossier } from '../unit/core/dossier-sample.ts';
import { byteEdits, byteFlips, entryEdits, type Mutation, runCampaign, seededRandom } from './dossier-mutations.ts';

// Changes a dossier in every way there is a name for, and lets none of them through: 100,000 and more by default.
// node test/campaigns/dossier.ts [--seed N] [--count N]

const { values } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, count: { type: 'string', default: '100000' } },
});
const [seed, count] = [Number(values.seed), Number(values.count)];
const random = seededRandom(seed);
const { dossier, service } = sampleDossier();
const other = sampleDossier({ service }).dossier;
const bytes = Buffer.from(JSON.stringify(dossier));

function* all(): Generator<Mutation> {
  yield* entryEdits(dossier, other);
  yield* byteFlips(bytes, random);
  yield* byteEdits(bytes, random, Math.max(0, count - 9 * bytes.length));
}

const started = performance.now();
const result = await runCampaign({ bytes, trust: service.trust }, all(), (done) => {
  if (done % 3200 === 0) process.stderr.write(`\r${done} of about ${Math.max(count, 9 * bytes.length)}`);
});
const seconds = (performance.now() - started) / 1000;
const total = result.rejected + result.incomplete + result.meaningless.length + result.wrong.length;
process.stderr.write('\n');
console.log(JSON.stringify({ seed, total, seconds: Math.round(seconds), ...result }, null, 2));
process.exitCode = result.wrong.length === 0 && result.incomplete === 0 ? 0 : 1;
