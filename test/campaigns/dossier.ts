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

const edits = Math.max(1000, count - 8 * bytes.length);
const total = 8 * bytes.length + edits;

function* all(): Generator<Mutation> {
  yield* entryEdits(dossier, other);
  yield* byteFlips(bytes);
  yield* byteEdits(bytes, random, edits);
}

const started = performance.now();
const result = await runCampaign({ bytes, trust: service.trust }, all(), (done) => {
  if (done % 3200 === 0) process.stderr.write(`\r${done} of about ${total}`);
});
const seconds = (performance.now() - started) / 1000;
const { rejected, incomplete, meaningless, wrong } = result;
const changed = rejected + incomplete + meaningless.length + wrong.length;
process.stderr.write('\n');
console.log(
  JSON.stringify({ seed, changed, seconds: Math.round(seconds), rejected, incomplete, meaningless, wrong }, null, 2),
);
process.exitCode = wrong.length === 0 && incomplete === 0 ? 0 : 1;
