import type { DossierEntry } from './dossier.ts';
import { DOSSIER_SENTENCE_MAX_CHARACTERS } from './limits.ts';

/** What is looked at in a dossier, in the order in which it is told. */
export const CLAIM_NAMES = [
  'form',
  'seal',
  'tree_head',
  'receipt',
  'mat',
  'decision',
  'mandate',
  'action',
  'presentation',
  'agent',
  'escalation',
  'consumption',
  'execution',
  'entry',
  'chain',
  'checkpoint',
  'witness',
  'timestamp',
  'keys',
] as const;
export type ClaimName = (typeof CLAIM_NAMES)[number];

/** `not_checked`: nothing speaks against it, but what would prove it is not at hand. */
export type ClaimResult = 'ok' | 'failed' | 'not_checked';

/** One claim and what became of it, in a plain sentence; what is essential must be `ok` for acceptance. */
export interface Claim {
  readonly name: ClaimName;
  readonly result: ClaimResult;
  readonly sentence: string;
  readonly essential: boolean;
}

/** Whether a claim is a reason not to accept what it is about. */
export function isDecisive({ result, essential }: Claim): boolean {
  return result === 'failed' || (result === 'not_checked' && essential);
}

/** Collects claims; sentences are bounded, whatever they repeat of a file. */
export class Claims {
  readonly #claims: Claim[] = [];

  ok(name: ClaimName, sentence: string): void {
    this.#add(name, 'ok', sentence, true);
  }

  failed(name: ClaimName, sentence: string): void {
    this.#add(name, 'failed', sentence, true);
  }

  /** What must be known before a dossier can be accepted, and is not. */
  unknown(name: ClaimName, sentence: string): void {
    this.#add(name, 'not_checked', sentence, true);
  }

  /** What a dossier can be accepted without. */
  skipped(name: ClaimName, sentence: string): void {
    this.#add(name, 'not_checked', sentence, false);
  }

  /** `ok`, or `failed` with the first problem that there is. */
  either(name: ClaimName, problem: string | null, sentence: string): void {
    if (problem === null) this.ok(name, sentence);
    else this.failed(name, problem);
  }

  /** All claims in the order of {@link CLAIM_NAMES}, those that failed first. */
  all(): readonly Claim[] {
    const ordered = CLAIM_NAMES.flatMap((name) => this.#claims.filter((claim) => claim.name === name));
    const failed = ordered.filter(({ result }) => result === 'failed');
    return [...failed, ...ordered.filter(({ result }) => result !== 'failed')];
  }

  #add(name: ClaimName, result: ClaimResult, sentence: string, essential: boolean): void {
    const long = sentence.length > DOSSIER_SENTENCE_MAX_CHARACTERS;
    const shown = long ? `${sentence.slice(0, DOSSIER_SENTENCE_MAX_CHARACTERS)}…` : sentence;
    // A cut may part a surrogate pair.
    const begun = `${shown.charAt(0).toUpperCase()}${shown.slice(1)}`;
    this.#claims.push({ name, result, sentence: begun.toWellFormed(), essential });
  }
}

/** How a sentence names an entry; at its beginning the first letter becomes a capital. */
export function entryName({ entry: { seq, kind, id } }: DossierEntry): string {
  return `entry ${seq} (${kind} ${id})`;
}
