import { verifyCheckpoint } from '../../core/checkpoint.ts';
import { readPublicKey } from '../../core/ed25519.ts';
import {
  CONSISTENCY_PROOF_MAX,
  TIMESTAMP_CLOCK_TOLERANCE_MS,
  WITNESS_ANSWER_MAX_BYTES,
  WITNESS_CONNECTIONS_MAX,
} from '../../core/limits.ts';
import { base64Text, readNote, signatureLine, type VerifierKey } from '../../core/signed-note.ts';
import { Outgoing } from '../http/outgoing.ts';
import { BodyTooLarge, readBody, UNLIMITED_BY_CLIENT } from '../publishing/answer-body.ts';

/**
 * No cosignature was had. `away`: the witness did not answer, or not as the protocol has it, so it will fail others
 * too. `refused`: it does not take this log's checkpoint. `contradicted`: what it has seen of this log does not fit
 * what it was shown, so one of the two was rewritten. `invalid`: what it answered is no cosignature of its key.
 */
export type WitnessFailureKind = 'away' | 'refused' | 'contradicted' | 'invalid';

export class WitnessFailure extends Error {
  override readonly name = 'WitnessFailure';
  readonly kind: WitnessFailureKind;

  constructor(kind: WitnessFailureKind, message: string, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
  }
}

/** What a witness is shown: the checkpoint (a signed note), and that it continues the tree of `oldSize` entries. */
export interface Submission {
  readonly oldSize: number;
  /** In hex. */
  readonly proof: readonly string[];
  readonly checkpoint: string;
  readonly log: VerifierKey;
}

/** A checked cosignature as its line in a note, or the size of the tree that the witness has seen instead. */
export type WitnessAnswer =
  | { readonly kind: 'cosigned'; readonly line: string; readonly timestampS: number }
  | { readonly kind: 'conflict'; readonly size: number };

export interface WitnessOptions {
  /** The submission prefix. */
  readonly url: string;
  readonly key: VerifierKey;
  /** For one exchange, in milliseconds. */
  readonly timeoutMs: number;
}

const SIZE_TYPE = 'text/x.tlog.size';

/** A witness over HTTP (C2SP tlog-witness); it is believed nothing that its key did not sign. */
export class Witness {
  readonly key: VerifierKey;
  readonly timeoutMs: number;
  readonly #url: string;
  readonly #outgoing: Outgoing;

  constructor({ url, key, timeoutMs }: WitnessOptions) {
    this.key = key;
    this.timeoutMs = timeoutMs;
    this.#url = `${url}/add-checkpoint`;
    this.#outgoing = new Outgoing({ ...UNLIMITED_BY_CLIENT, connections: WITNESS_CONNECTIONS_MAX, pipelining: 1 });
  }

  /**
   * Shows the witness a checkpoint.
   *
   * @throws WitnessFailure
   */
  async addCheckpoint(submission: Submission): Promise<WitnessAnswer> {
    if (submission.proof.length > CONSISTENCY_PROOF_MAX) throw new RangeError('a proof of that many hashes is none');
    const { status, type, text } = await this.#post(submissionBody(submission));
    switch (status) {
      case 200:
        return await this.#cosignature(text, submission);
      case 409:
        return { kind: 'conflict', size: this.#size(type, text) };
      case 403:
        throw new WitnessFailure('refused', `${this.#who} does not know the key of this log`);
      case 404:
        throw new WitnessFailure('refused', `${this.#who} does not know this log`);
      case 422:
        throw new WitnessFailure('contradicted', `${this.#who} has seen a tree that this one does not continue`);
      default:
        throw new WitnessFailure('away', `${this.#who} answers with status ${status}`);
    }
  }

  /** Whether somebody answers there as a witness would; throws {@link WitnessFailure} where not. */
  async reach(): Promise<void> {
    // No checkpoint at all, so that nothing is cosigned: a witness calls that a bad request.
    const { status } = await this.#post('old 0\n\n');
    if (status !== 400) throw this.#away(`answers with status ${status} where 400 was to be expected`);
  }

  /** Ends its connections. */
  close(): Promise<void> {
    return this.#outgoing.close();
  }

  get #who(): string {
    return `the witness ${this.key.name}`;
  }

  async #post(body: string): Promise<{ status: number; type: string; text: string }> {
    const signal = AbortSignal.timeout(this.timeoutMs);
    try {
      const headers = { 'content-type': 'text/plain; charset=utf-8' };
      const response = await this.#outgoing.post({ url: this.#url, headers, body, signal });
      const bytes = await readBody(response.body, WITNESS_ANSWER_MAX_BYTES);
      const type = String(response.headers['content-type'] ?? '')
        .trim()
        .toLowerCase();
      return { status: response.statusCode, type, text: bytes.toString('utf8') };
    } catch (error) {
      if (error instanceof BodyTooLarge) throw this.#away(`answers with ${error.message}`);
      throw this.#away(signal.aborted ? `did not answer within ${this.timeoutMs} ms` : 'cannot be reached', error);
    }
  }

  #away(what: string, cause?: unknown): WitnessFailure {
    return new WitnessFailure('away', `${this.#who} ${what}`, cause);
  }

  #size(type: string, text: string): number {
    const size = /^(?:0|[1-9][0-9]{0,15})\n$/.test(text) ? Number(text) : Number.NaN;
    if (type === SIZE_TYPE && Number.isSafeInteger(size)) return size;
    throw new WitnessFailure('invalid', `${this.#who} answers a conflict without the size that it knows`);
  }

  /** The line of this witness's key; those of others are nobody we trust, and are left away. */
  async #cosignature(text: string, { checkpoint, log }: Submission): Promise<WitnessAnswer> {
    const shown = checkpointOf(checkpoint);
    const note = readNote(`${shown}\n${text}`);
    const lines = note?.text === shown ? note.signatures : [];
    const own = lines.filter(({ name, keyId }) => name === this.key.name && keyId === this.key.id);
    const [first] = own;
    if (first === undefined || own.length !== 1) {
      throw new WitnessFailure('invalid', `${this.#who} answers without one cosignature of its key`);
    }
    const line = signatureLine(first);
    const read = await verifyCheckpoint(`${checkpoint}${line}`, log, [this.key], readPublicKey);
    const found = read.ok ? read.signatures.find(({ key }) => key === this.key) : undefined;
    if (found === undefined || found.timestampS === null) {
      throw new WitnessFailure('invalid', `${this.#who} answers with a cosignature that is wrong`);
    }
    if (Math.abs(found.timestampS * 1000 - Date.now()) > TIMESTAMP_CLOCK_TOLERANCE_MS) {
      throw new WitnessFailure('invalid', `${this.#who} answers with a time far from the clock here`);
    }
    return { kind: 'cosigned', line, timestampS: found.timestampS };
  }
}

/** The body of `add-checkpoint`: the old size, the proof, an empty line, the checkpoint. */
function submissionBody({ oldSize, proof, checkpoint }: Submission): string {
  const hashes = proof.map((hash) => base64Text(Buffer.from(hash, 'hex')));
  return `${[`old ${oldSize}`, ...hashes].join('\n')}\n\n${checkpoint}`;
}

/** The note text of a checkpoint that is signed. */
function checkpointOf(checkpoint: string): string {
  const note = readNote(checkpoint);
  if (note === null) throw new TypeError('a stored checkpoint is a signed note');
  return note.text;
}
