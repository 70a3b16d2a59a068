import { LRUCache } from 'lru-cache';
import { MAPPED_INSTANCES_MAX, MAPPINGS_PER_INSTANCE_MAX } from '../../core/limits.ts';
import { type CompiledMapping, compileMapping } from '../../core/tool-mapping.ts';
import { candidateKeys, parseToolPattern } from '../../core/tool-name.ts';
import type { ToolUpdate } from '../../core/wire.ts';

/** A mapping that the proxy read a request by; the control plane decides only on values read by the current one. */
export interface HeldMapping {
  readonly id: string;
  readonly version: number;
  readonly compiled: CompiledMapping;
}

interface Instance {
  shapes: readonly string[];
  readonly mappings: LRUCache<string, HeldMapping>;
}

/** Mappings by gateway token: a memory of what was answered before, never the last word. */
export class Mappings {
  readonly #instances = new LRUCache<string, Instance>({ max: MAPPED_INSTANCES_MAX });

  /** The mapping that a tool's name was read by last, the most specific first. */
  find(tokenHash: string, name: string): HeldMapping | null {
    const instance = this.#instances.get(tokenHash);
    if (instance === undefined) return null;
    if (instance.shapes.length === 0) return instance.mappings.get(name) ?? null;
    for (const key of candidateKeys(name, instance.shapes)) {
      const held = instance.mappings.get(key);
      if (held !== undefined) return held;
    }
    return null;
  }

  /** Keeps what the control plane answered; throws RangeError on a mapping that cannot be compiled. */
  learn(tokenHash: string, tool: ToolUpdate): HeldMapping {
    const reading = parseToolPattern(tool.pattern);
    if (!reading.ok) throw new RangeError(`the control plane sent a pattern that cannot be read: ${reading.message}`);
    let instance = this.#instances.get(tokenHash);
    if (instance === undefined) {
      instance = { shapes: [], mappings: new LRUCache({ max: MAPPINGS_PER_INSTANCE_MAX }) };
      this.#instances.set(tokenHash, instance);
    }
    const compiled = compileMapping(tool.mapping, reading.pattern);
    const held = { id: tool.id, version: tool.version, compiled };
    instance.shapes = tool.shapes;
    instance.mappings.set(tool.key, held);
    return held;
  }
}
