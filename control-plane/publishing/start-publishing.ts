import { readFile } from 'node:fs/promises';
import { type Config, ConfigError } from '../../config/load.ts';
import type { Logger } from '../../config/log.ts';
import { SETTINGS } from '../../config/schema.ts';
import type { X509 } from '../../core/certificate.ts';
import type { Sql } from '../db/client.ts';
import { TimestampAuthority } from '../timestamps/authority.ts';
import { type TimestampResult, Timestamps } from '../timestamps/timestamps.ts';
import { type CosignatureResult, Cosignatures } from '../witnesses/cosignatures.ts';
import { Witness } from '../witnesses/witness-client.ts';
import { HeadPublisher } from './head-publisher.ts';
import { timestampPublisher, witnessPublisher } from './publishers.ts';
import type { TreeHeads } from './tree-heads.ts';

/** Everything that shows tree heads to others, as the configuration has it. */
export interface Publishing {
  readonly timestamps: Timestamps;
  readonly cosignatures: Cosignatures;
  readonly publishers: readonly HeadPublisher[];
  close(): Promise<void>;
}

export interface PublishingMeans {
  readonly config: Config;
  readonly sql: Sql;
  readonly heads: TreeHeads;
  readonly log: Logger;
  readonly metrics: {
    timestamp(result: TimestampResult): void;
    cosignature(result: CosignatureResult): void;
  };
}

/** Makes what the settings ask for; nothing is connected yet. @throws ConfigError where the trust file is unusable */
export async function openPublishing({ config, sql, heads, log, metrics }: PublishingMeans): Promise<Publishing> {
  const { tsaMode, tsaTimeoutMs: timeoutMs, publishIntervalMs: intervalMs } = config;
  const authority = await openAuthority(config);
  const witnesses = configuredWitnesses(config);
  const counted = (result: TimestampResult): void => metrics.timestamp(result);
  const timestamps = new Timestamps({ sql, authority, required: tsaMode === 'required', counted });
  const cosignatures = new Cosignatures({ sql, heads, witnesses, counted: (result) => metrics.cosignature(result) });
  const all = witnesses.map((witness) => witnessPublisher(cosignatures, witness));
  if (authority !== null) all.unshift(timestampPublisher(timestamps, timeoutMs));
  return {
    timestamps,
    cosignatures,
    publishers: all.map((publisher) => new HeadPublisher({ sql, heads, publisher, intervalMs, log })),
    close: async () => {
      await Promise.all([authority, ...witnesses].map((one) => one?.close()));
    },
  };
}

/** The timestamping authority of the configuration, or null where timestamps are off. @throws ConfigError */
export async function openAuthority(config: Config): Promise<TimestampAuthority | null> {
  const { tsaUrl: url, tsaMode, tsaCaFile, tsaTimeoutMs: timeoutMs } = config;
  if (url === null || tsaMode === 'off') return null;
  const anchors = tsaCaFile === null ? [] : await readAnchors(tsaCaFile);
  return new TimestampAuthority({ url, timeoutMs, anchors });
}

/** The witnesses of the configuration. */
export function configuredWitnesses({ witnessUrls, witnessKeys, tsaTimeoutMs: timeoutMs }: Config): Witness[] {
  const keys = witnessKeys ?? [];
  return (witnessUrls ?? []).flatMap((url, at) => {
    const key = keys[at];
    return key === undefined ? [] : [new Witness({ url, key, timeoutMs })];
  });
}

async function readAnchors(path: string): Promise<readonly X509[]> {
  const { CertificateProblem, readTrustAnchors } = await import('../../core/certificate.ts');
  try {
    return readTrustAnchors(await readFile(path, 'utf8'));
  } catch (error) {
    const why = error instanceof CertificateProblem ? error.message : 'it cannot be read';
    throw new ConfigError([`${SETTINGS.tsaCaFile.env} names a file that cannot be used: ${why}. Correct it.`]);
  }
}
