import type { Sql } from '../db/client.ts';
import type { SignedHead, TreeHeads } from '../publishing/tree-heads.ts';
import { type Witness, WitnessFailure, type WitnessFailureKind } from './witness-client.ts';

/** A stored cosignature: its line goes below the checkpoint of that size as it is. */
export interface Cosignature {
  readonly witness: string;
  readonly size: number;
  readonly line: string;
  /** RFC 3339, UTC: when the witness says that it signed. */
  readonly cosignedAt: string;
}

/** How an attempt ended; the label of the metric. */
export type CosignatureResult = 'stored' | WitnessFailureKind;

export interface CosignaturesOptions {
  readonly sql: Sql;
  readonly heads: TreeHeads;
  readonly witnesses: readonly Witness[];
  readonly counted: (result: CosignatureResult) => void;
}

/** The cosignatures of tree heads (C2SP tlog-witness and tlog-cosignature). */
export class Cosignatures {
  readonly #options: CosignaturesOptions;

  constructor(options: CosignaturesOptions) {
    this.#options = options;
  }

  get witnesses(): readonly Witness[] {
    return this.#options.witnesses;
  }

  /**
   * Has a witness cosign a head, and stores what it answered; a head that it has cosigned already is left alone.
   *
   * The witness says itself which tree it has seen last where that is not the one we know of: then it is shown how this
   * one continues that one. @throws WitnessFailure
   */
  async cosign(witness: Witness, head: SignedHead): Promise<void> {
    try {
      await this.#cosign(witness, head);
    } catch (error) {
      if (error instanceof WitnessFailure) this.#options.counted(error.kind);
      throw error;
    }
    this.#options.counted('stored');
  }

  /** All cosignatures of one head. */
  async of(accountId: string, size: number): Promise<Cosignature[]> {
    const rows = await this.#options.sql<{ witness: string; size: number; line: string; cosigned_at: number }[]>`
      select witness, size, line, cosigned_at from cosignatures
      where account_id = ${accountId} and size = ${size} order by witness`;
    return rows.map(({ cosigned_at, ...row }) => ({ ...row, cosignedAt: new Date(cosigned_at).toISOString() }));
  }

  async #cosign(witness: Witness, head: SignedHead): Promise<void> {
    const known = await this.#lastSize(witness, head.accountId);
    let answer = await this.#submit(witness, head, known > head.size ? 0 : known);
    if (answer.kind === 'conflict') {
      const { size } = answer;
      if (size > head.size) {
        const both = `a tree of ${size} entries, and there are ${head.size} here`;
        throw new WitnessFailure('contradicted', `the witness ${witness.key.name} has seen ${both}`);
      }
      // It said which tree it has seen: one more attempt, not more.
      answer = await this.#submit(witness, head, size);
    }
    if (answer.kind === 'conflict') {
      const tree = `another tree of ${answer.size} entries`;
      throw new WitnessFailure('contradicted', `the witness ${witness.key.name} has seen ${tree}`);
    }
    await this.#store(witness, head, answer);
  }

  async #submit(witness: Witness, { accountId, size, checkpoint }: SignedHead, oldSize: number) {
    const { heads } = this.#options;
    const proof = oldSize === 0 || oldSize === size ? [] : await heads.consistency(accountId, oldSize, size);
    return await witness.addCheckpoint({ oldSize, proof, checkpoint, log: heads.logKey(accountId) });
  }

  async #lastSize({ key }: Witness, accountId: string): Promise<number> {
    const [row] = await this.#options.sql<{ size: number }[]>`
      select size from publications where account_id = ${accountId} and publisher = ${publisherOf(key.name)}`;
    return row?.size ?? 0;
  }

  async #store(
    { key }: Witness,
    { accountId, size, root }: SignedHead,
    { line, timestampS }: { readonly line: string; readonly timestampS: number },
  ): Promise<void> {
    await this.#options.sql`
      insert into cosignatures (account_id, size, witness, key_id, root, line, cosigned_at, stored_at)
      values (${accountId}, ${size}, ${key.name}, decode(${key.id}, 'hex'), decode(${root}, 'hex'), ${line},
        ${timestampS * 1000}, db_clock())
      on conflict (account_id, size, witness) do nothing`;
  }
}

/** The name under which `publications` knows a witness. */
export function publisherOf(witness: string): string {
  return `witness ${witness}`;
}
