import { LRUCache } from 'lru-cache';
import { type DidKey, didOfVerificationMethod, parseDidKey } from './did-key.ts';
import { type NativePublicKey, readPublicKey } from './ed25519.ts';
import { AGENT_KEYS_MAX } from './limits.ts';

/**
 * The validated keys of `did:key`s, remembered for the AGENT_KEYS_MAX last used.
 *
 * What a `did:key` stands for can never change, so nothing here can be out of date; that a key is acceptable says
 * nothing about whose it is or what it may do.
 */
export class AgentKeys {
  // LRUCache has no null values, and what is refused costs as much to find out as what is accepted.
  readonly #known = new LRUCache<string, { readonly key: NativePublicKey | null }>({ max: AGENT_KEYS_MAX });

  readonly #signers = new LRUCache<string, DidKey>({ max: AGENT_KEYS_MAX });

  /** As `didOfVerificationMethod`. */
  signerOf(method: string): DidKey | null {
    const known = this.#signers.get(method);
    if (known !== undefined) return known;
    const did = didOfVerificationMethod(method);
    // What is refused is not remembered: it may be any text, of any length.
    if (did !== null) this.#signers.set(method, did);
    return did;
  }

  /** Whether a text was looked at before, so that {@link get} costs nothing. */
  knows(did: string): boolean {
    return this.#known.has(did);
  }

  /** The key, or null where the text is not an Ed25519 `did:key` or its key breaks the strict rule of contract §3. */
  get(did: string): NativePublicKey | null {
    const known = this.#known.get(did);
    if (known !== undefined) return known.key;
    const bytes = parseDidKey(did);
    // Only texts of one length are remembered: the others are refused for nothing.
    if (bytes === null) return null;
    const key = readPublicKey(bytes);
    this.#known.set(did, { key });
    return key;
  }
}
