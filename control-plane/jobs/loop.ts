import { setTimeout as delay } from 'node:timers/promises';
import type { HeadPublisher } from '../publishing/head-publisher.ts';
import { expireEscalations } from './expire-escalations.ts';
import { expireMandates } from './expire-mandates.ts';
import { indexDecisions } from './index-decisions.ts';
import type { Job, JobsCore } from './job.ts';
import { lapseAuthorisations, sweepNonces } from './lapse-authorisations.ts';
import { sweepAnswers, sweepSessions } from './sweep-expired.ts';
import { sweepReservations, sweepSettled } from './sweep-reservations.ts';
import { sweepSandbox } from './sweep-sandbox.ts';

const ESCALATIONS_INTERVAL_MS = 1_000;
/** Who has just sent the first request looks for its tool at once. */
const SIGHTINGS_INTERVAL_MS = 1_000;
const NOTED_INTERVAL_MS = 5_000;
const SEARCH_INTERVAL_MS = 5_000;
const INTERVAL_MS = 10_000;

const writeSightings: Job = async ({ sightings, sql }) => (await sightings?.flush(sql)) ?? false;

/** A job with the pause between its rounds, in milliseconds. */
interface TimedJob {
  readonly name: string;
  readonly intervalMs: number;
  readonly run: Job;
}

const JOBS: readonly TimedJob[] = [
  { name: 'expire escalations', intervalMs: ESCALATIONS_INTERVAL_MS, run: expireEscalations },
  { name: 'expire mandates', intervalMs: INTERVAL_MS, run: expireMandates },
  { name: 'sweep reservations', intervalMs: INTERVAL_MS, run: sweepReservations },
  { name: 'sweep settled outcomes', intervalMs: INTERVAL_MS, run: sweepSettled },
  { name: 'lapse authorisations', intervalMs: INTERVAL_MS, run: lapseAuthorisations },
  { name: 'sweep nonces', intervalMs: INTERVAL_MS, run: sweepNonces },
  { name: 'sweep stored answers', intervalMs: INTERVAL_MS, run: sweepAnswers },
  { name: 'sweep sessions', intervalMs: INTERVAL_MS, run: sweepSessions },
  { name: 'sweep the sandbox', intervalMs: INTERVAL_MS, run: sweepSandbox },
  { name: 'write key uses', intervalMs: NOTED_INTERVAL_MS, run: ({ keyUses, sql }) => keyUses.flush(sql) },
  { name: 'write tool sightings', intervalMs: SIGHTINGS_INTERVAL_MS, run: writeSightings },
  { name: 'index decisions', intervalMs: SEARCH_INTERVAL_MS, run: indexDecisions },
];

/** The rounds of those who show tree heads to others (contract §10). */
export function publishingJobs(publishers: readonly HeadPublisher[]): Loop[] {
  return publishers.map((one) => ({ name: 'publish tree heads', intervalMs: INTERVAL_MS, run: () => one.round() }));
}

/**
 * Starts what runs by the clock; the returned function ends it after the rounds that are under way.
 *
 * Every replica runs every job: each finds candidates without a lock and acts under the account's lock on what still
 * is one. Nothing here decides: a decision judges times by itself, however late a job is.
 */
export function startJobs(core: JobsCore, further: readonly Loop[] = []): () => Promise<void> {
  return startLoops(core, [...JOBS.map((job) => ({ ...job, run: () => job.run(core) })), ...further]);
}

/** What loops need besides what they run. */
export type LoopCore = Pick<JobsCore, 'log'>;

/** Something that runs again and again: at once where there may be more, else after a pause in milliseconds. */
export interface Loop {
  readonly name: string;
  readonly intervalMs: number;
  readonly run: () => Promise<boolean>;
}

/** Runs loops beside each other; the returned function ends them after the rounds that are under way. */
export function startLoops(core: LoopCore, all: readonly Loop[]): () => Promise<void> {
  const stopping = new AbortController();
  const loops = all.map(async ({ name, intervalMs, run }) => {
    while (!stopping.signal.aborted) {
      let more = false;
      try {
        more = await run();
      } catch (error) {
        core.log.error({ err: error, job: name }, 'a job failed and will be tried again');
      }
      if (!more) await delay(intervalMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  });
  return async () => {
    stopping.abort();
    await Promise.all(loops);
  };
}
