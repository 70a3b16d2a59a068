import { exportCampaign } from '../unit/core/export-campaign.ts';

// `node test/campaigns/export-changes.ts [mutations] [seed]`: every change to an exported file is found.

const [mutations = '100000', seed = '20260515'] = process.argv.slice(2);
const started = performance.now();
const { counts, failures } = await exportCampaign(
  { seed: Number(seed), mutations: Number(mutations), everyByte: true },
  (done) => {
    if (done % 10_000 === 0) process.stderr.write(`${done} of ${mutations}\n`);
  },
);
const seconds = ((performance.now() - started) / 1000).toFixed(1);
for (const [name, count] of Object.entries(counts)) process.stdout.write(`${String(count).padStart(8)}  ${name}\n`);
for (const failure of failures.slice(0, 20)) process.stdout.write(`NOT FOUND: ${failure}\n`);
process.stdout.write(
  `${failures.length} of ${mutations} mutations were not found or misnamed (seed ${seed}, ${seconds} s)\n`,
);
process.exitCode = failures.length === 0 ? 0 : 1;
