import { LRUCache } from 'lru-cache';
import { type MandateTerms, mandateDigest } from '../../core/mandate.ts';
import { type ToolMapping, toolMapping } from '../../core/tool-mapping.ts';
import type { TargetConfig } from '../../core/wire.ts';
import type { Sql } from '../db/client.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from '../mandates/terms.ts';
import type { AccountFacts, InstanceState, MandateState, ToolState } from './account-facts.ts';

/** The terms of one version of a mandate, their digest, and the did:key that its agent signs with, if it signs. */
export interface MandateVersion {
  readonly terms: MandateTerms;
  readonly digest: string;
  readonly signer: string | null;
}

/** The mapping of one version of a tool. */
export interface ToolVersion {
  readonly pattern: string;
  readonly mapping: ToolMapping;
}

/** Where one configuration version of an instance forwards to; `config` null: its credential cannot be opened. */
export interface TargetVersion {
  readonly config: TargetConfig | null;
}

/** Opens an instance's sealed credential; throws when it cannot. */
export type OpenCredential = (accountId: string, instanceId: string, sealed: Buffer) => string;

const VERSIONS_MAX = 20_000;
const TARGETS_MAX = 1_000;
/** An opened credential stays in memory this long, in milliseconds. */
const TARGET_TTL_MS = 60_000;

/**
 * What can never change, by its version: mandate terms, tool mappings, targets. Never a state.
 *
 * A batch first loads what it misses (under its own lock, so the version it read is the one it loads), then looks up.
 * Source: design §2.2.
 */
export class VersionCache {
  readonly #mandates = new LRUCache<string, MandateVersion>({ max: VERSIONS_MAX });
  readonly #tools = new LRUCache<string, ToolVersion>({ max: VERSIONS_MAX });
  readonly #targets = new LRUCache<string, TargetVersion>({
    max: TARGETS_MAX,
    ttl: TARGET_TTL_MS,
    // A batch that began with the target loaded must find it until it ends.
    allowStale: true,
    noDeleteOnStaleGet: true,
  });
  readonly #open: OpenCredential;

  constructor(open: OpenCredential) {
    this.#open = open;
  }

  /** The terms of this very version; throws unless {@link load} saw it. */
  mandate(mandate: MandateState): MandateVersion {
    return present(this.#mandates.get(mandateVersionKey(mandate)), 'mandate', mandate.mandateId);
  }

  /** The mapping of this very version; throws unless {@link load} saw it. */
  tool(tool: ToolState): ToolVersion {
    return present(this.#tools.get(toolVersionKey(tool)), 'tool', tool.toolId);
  }

  /** Where this configuration version forwards to, or null when it was not loaded. */
  target(instance: InstanceState): TargetVersion | null {
    return this.#targets.get(targetVersionKey(instance)) ?? null;
  }

  /** Whether all of an instance's versions are at hand. */
  hasInstance(instance: InstanceState): boolean {
    return this.hasMandate(instance.mandate) && this.#targets.has(targetVersionKey(instance));
  }

  /** Whether a mandate's terms are at hand. */
  hasMandate(mandate: MandateState): boolean {
    return this.#mandates.has(mandateVersionKey(mandate));
  }

  /** Whether a tool's mapping is at hand, where it has one. */
  hasTool(tool: ToolState): boolean {
    return tool.state !== 'mapped' || this.#tools.has(toolVersionKey(tool));
  }

  /** Loads what is missing of these; all queries are in flight at once. */
  async load(sql: Sql, { instances, mandates, tools }: AccountFacts): Promise<void> {
    const loads: Promise<void>[] = [];
    for (const mandate of mandates.values()) {
      if (mandate !== null && !this.hasMandate(mandate)) loads.push(this.#loadMandate(sql, mandate));
    }
    for (const instance of instances.values()) {
      if (!this.#targets.has(targetVersionKey(instance))) loads.push(this.#loadTarget(sql, instance));
    }
    for (const tool of tools.values()) {
      if (tool !== null && !this.hasTool(tool)) loads.push(this.#loadTool(sql, tool));
    }
    if (loads.length > 0) await settled(loads);
  }

  async #loadMandate(sql: Sql, mandate: MandateState): Promise<void> {
    const rows = await sql.unsafe(
      `select ${MANDATE_TERMS_COLUMNS},
         (select did from agent_keys where account_id = $1 and mandate_id = $2) as held_did
       from mandates where account_id = $1 and mandate_id = $2`,
      [mandate.accountId, mandate.mandateId],
    );
    const row = present(rows[0], 'mandate', mandate.mandateId);
    const terms = mandateTerms(row);
    if (terms.version !== mandate.version) throw new Error(`mandate ${mandate.mandateId} changed under its lock`);
    // Path 2 names its agent; on path 1 it is the key that the service holds for this mandate.
    const held = row['held_did'];
    const signer = terms.agent_did !== '' ? terms.agent_did : typeof held === 'string' ? held : null;
    this.#mandates.set(mandateVersionKey(mandate), { terms, digest: mandateDigest(terms), signer });
  }

  async #loadTarget(sql: Sql, instance: InstanceState): Promise<void> {
    const { accountId, instanceId, configVersion } = instance;
    const rows = await sql.unsafe<
      { target_url: string; credential_header: string | null; credential_sealed: Buffer | null }[]
    >(
      `select target_url, credential_header, credential_sealed from gateway_instances
       where account_id = $1 and instance_id = $2`,
      [accountId, instanceId],
    );
    const row = present(rows[0], 'gateway instance', instanceId);
    let config: TargetConfig | null = { version: configVersion, url: row.target_url, credential: null };
    if (row.credential_header !== null && row.credential_sealed !== null) {
      try {
        const value = this.#open(accountId, instanceId, row.credential_sealed);
        config = { ...config, credential: { header: row.credential_header, value } };
      } catch {
        config = null;
      }
    }
    this.#targets.set(targetVersionKey(instance), { config });
  }

  async #loadTool(sql: Sql, tool: ToolState): Promise<void> {
    const rows = await sql.unsafe<{ pattern: string; mapping: unknown; version: number }[]>(
      'select pattern, mapping, version from tools where account_id = $1 and instance_id = $2 and key = $3',
      [tool.accountId, tool.instanceId, tool.key],
    );
    const row = present(rows[0], 'tool', tool.toolId);
    if (Number(row.version) !== tool.version) throw new Error(`tool ${tool.toolId} changed under its lock`);
    this.#tools.set(toolVersionKey(tool), { pattern: row.pattern, mapping: toolMapping.parse(row.mapping) });
  }
}

async function settled(loads: Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(loads)) {
    if (result.status === 'rejected') throw result.reason;
  }
}

function present<T>(value: T | undefined, what: string, id: string): T {
  if (value === undefined) throw new Error(`${what} ${id} was not loaded`);
  return value;
}

function mandateVersionKey(mandate: MandateState): string {
  return `${mandate.mandateId} ${mandate.version}`;
}

function toolVersionKey(tool: ToolState): string {
  return `${tool.toolId} ${tool.version}`;
}

function targetVersionKey(instance: InstanceState): string {
  return `${instance.instanceId} ${instance.configVersion}`;
}
