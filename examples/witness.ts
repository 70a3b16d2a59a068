import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { once } from 'node:events';
import { open, readFile, rename } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';

// A small witness (C2SP tlog-witness): it cosigns the checkpoints of logs that only ever grow, and so makes it visible
// when somebody rewrites one. It knows nothing of mandates, and trusts nothing but the keys of the logs it is told.
//
//   POST /add-checkpoint   old size, consistency proof and checkpoint → 200 the cosignature
//                          409 with the size it knows, 422 where the proof does not hold, 403 and 404 for strangers
//
// Run it: WITNESS_LOGS='mandate.example/*=<base64 of the log's Ed25519 key>' WITNESS_STATE=witness.json
//   node examples/witness.ts
// WITNESS_LOGS takes several, comma-separated; `*` at the end of an origin stands for the account. What was cosigned,
// and the witness's own key, are kept in the state file: who loses it must not go on under the same name.

export interface WitnessOptions {
  readonly port: number;
  /** The name of its key: a URL without the scheme. */
  readonly name: string;
  /** Origins (or their beginning and `*`) with the 32 bytes of the key that signs their checkpoints. */
  readonly logs: ReadonlyMap<string, Uint8Array>;
  readonly stateFile: string;
}

export interface RunningWitness {
  readonly url: string;
  /** `name+id+base64`, as MANDATE_WITNESS_KEYS takes it. */
  readonly verifierKey: string;
  close(): Promise<void>;
}

interface Head {
  readonly size: number;
  /** In base64, as the checkpoint has it. */
  readonly root: string;
}

interface State {
  /** The private key, PKCS #8 in PEM. */
  readonly key: string;
  /** By origin. */
  readonly heads: Record<string, Head>;
}

interface Checkpoint extends Head {
  readonly origin: string;
  /** What is signed. */
  readonly text: string;
  readonly signatures: readonly { readonly name: string; readonly bytes: Buffer }[];
}

interface Submission {
  readonly oldSize: number;
  readonly proof: readonly Buffer[];
  readonly checkpoint: Checkpoint;
}

type Answer = { readonly status: number; readonly type: string; readonly text: string };

const BODY_MAX_BYTES = 64 * 1024;
const PROOF_MAX = 63;
/** More logs than this are somebody who makes up accounts. */
const LOGS_MAX = 100_000;
const LOG_SIGNATURE = 0x01;
const COSIGNATURE = 0x04;
const KEY_ID_BYTES = 4;
/** What precedes the 32 bytes of an Ed25519 key in an SPKI (RFC 8410). */
const SPKI_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

const refusal = (status: number, text: string): Answer => ({ status, type: 'text/plain', text: `${text}\n` });

function sha256(...parts: readonly (string | Uint8Array)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

function keyId(name: string, type: number, key: Uint8Array): Buffer {
  return sha256(`${name}\n`, Uint8Array.of(type), key).subarray(0, KEY_ID_BYTES);
}

class WitnessServer {
  readonly #options: WitnessOptions;
  readonly #key: KeyObject;
  readonly #publicKey: Buffer;
  #state: State;
  /** One request is judged and kept before the next is judged: else two could be judged by the same state. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: WitnessOptions, state: State) {
    this.#options = options;
    this.#state = state;
    this.#key = createPrivateKey(state.key);
    this.#publicKey = createPublicKey(this.#key).export({ format: 'der', type: 'spki' }).subarray(SPKI_HEAD.length);
  }

  get verifierKey(): string {
    const { name } = this.#options;
    const material = Buffer.concat([Uint8Array.of(COSIGNATURE), this.#publicKey]).toString('base64');
    return `${name}+${keyId(name, COSIGNATURE, this.#publicKey).toString('hex')}+${material}`;
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await read(request);
    const { status, type, text } = await this.#route(request, body);
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) }).end(text);
  }

  async #route({ method, url }: IncomingMessage, body: string | null): Promise<Answer> {
    if (url !== '/add-checkpoint') return refusal(404, 'nothing is here');
    if (method !== 'POST') return refusal(405, 'only POST');
    if (body === null) return refusal(413, `a body has at most ${BODY_MAX_BYTES} bytes`);
    const submission = readSubmission(body);
    if (submission === null) return refusal(400, 'this is no old size, proof and checkpoint');
    const mine = this.#turn.then(() => this.#judge(submission));
    this.#turn = mine.catch(() => {});
    return mine;
  }

  async #judge({ oldSize, proof, checkpoint }: Submission): Promise<Answer> {
    const { origin, size, root } = checkpoint;
    const logKey = this.#logKey(origin);
    if (logKey === undefined) return refusal(404, 'this log is not known here');
    if (!isSignedBy(checkpoint, logKey)) return refusal(403, 'no signature of the key of this log');
    if (oldSize > size) return refusal(400, 'the old size is larger than the new one');
    const known = Object.hasOwn(this.#state.heads, origin) ? this.#state.heads[origin] : undefined;
    const conflict = { status: 409, type: 'text/x.tlog.size', text: `${known?.size ?? 0}\n` };
    if (oldSize !== (known?.size ?? 0)) return conflict;
    if (known !== undefined && oldSize === size && known.root !== root) return conflict;
    if (!continues(known, checkpoint, proof)) return refusal(422, 'the proof does not hold');
    if (known === undefined && Object.keys(this.#state.heads).length >= LOGS_MAX) return refusal(503, 'too many logs');
    await this.#keep(origin, { size, root });
    return { status: 200, type: 'text/plain; charset=utf-8', text: this.#cosign(checkpoint) };
  }

  #logKey(origin: string): Uint8Array | undefined {
    const slash = origin.lastIndexOf('/');
    return this.#options.logs.get(origin) ?? this.#options.logs.get(`${origin.slice(0, slash + 1)}*`);
  }

  /** On the disk before it is answered: a witness that forgets may contradict itself. */
  async #keep(origin: string, head: Head): Promise<void> {
    const state = { ...this.#state, heads: { ...this.#state.heads, [origin]: head } };
    await writeState(this.#options.stateFile, state);
    this.#state = state;
  }

  #cosign({ text }: Checkpoint): string {
    const { name } = this.#options;
    const time = Math.floor(Date.now() / 1000);
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(BigInt(time));
    const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${time}\n${text}`), this.#key);
    const line = Buffer.concat([keyId(name, COSIGNATURE, this.#publicKey), bytes, signature]).toString('base64');
    return `\u2014 ${name} ${line}\n`;
  }
}

async function read(request: IncomingMessage): Promise<string | null> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes <= BODY_MAX_BYTES) parts.push(part);
  }
  return bytes > BODY_MAX_BYTES ? null : Buffer.concat(parts).toString('utf8');
}

function wholeNumber(text: string): number | null {
  const number = /^(?:0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : null;
}

/** The bytes of a base64 text, or null where it is not their only spelling or of another length. */
function base64(text: string, length?: number): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text && (length === undefined || bytes.length === length) ? bytes : null;
}

function readSubmission(body: string): Submission | null {
  const end = body.indexOf('\n\n');
  const [first = '', ...lines] = body.slice(0, Math.max(end, 0)).split('\n');
  const oldSize = first.startsWith('old ') ? wholeNumber(first.slice(4)) : null;
  const proof = lines.map((line) => base64(line, 32)).filter((hash) => hash !== null);
  const checkpoint = readCheckpoint(body.slice(end + 2));
  if (end < 0 || oldSize === null || proof.length !== lines.length || proof.length > PROOF_MAX) return null;
  return checkpoint === null ? null : { oldSize, proof, checkpoint };
}

function readCheckpoint(note: string): Checkpoint | null {
  const end = note.indexOf('\n\n');
  if (end < 0 || !note.endsWith('\n')) return null;
  const text = note.slice(0, end + 1);
  const [origin = '', size = '', root = ''] = text.split('\n');
  const count = wholeNumber(size);
  const signatures = note
    .slice(end + 2, -1)
    .split('\n')
    .map((line) => /^\u2014 (\S+) (\S+)$/u.exec(line))
    .map((found) => ({ name: found?.[1] ?? '', bytes: base64(found?.[2] ?? '') }));
  const whole = signatures.flatMap(({ name, bytes }) => (bytes === null || name === '' ? [] : [{ name, bytes }]));
  if (origin === '' || count === null || base64(root, 32) === null || whole.length !== signatures.length) return null;
  return { origin, size: count, root, text, signatures: whole };
}

function isSignedBy({ origin, text, signatures }: Checkpoint, key: Uint8Array): boolean {
  const id = keyId(origin, LOG_SIGNATURE, key);
  const publicKey = createPublicKey({ key: Buffer.concat([SPKI_HEAD, key]), format: 'der', type: 'spki' });
  return signatures.some(({ name, bytes }) => {
    const own = name === origin && bytes.subarray(0, KEY_ID_BYTES).equals(id);
    return own && verify(null, Buffer.from(text), publicKey, bytes.subarray(KEY_ID_BYTES));
  });
}

const node = (left: Uint8Array, right: Uint8Array): Buffer => sha256(Uint8Array.of(1), left, right);

/** Whether the new tree begins with the whole of the old one (RFC 9162 §2.1.4.2). */
function continues(old: Head | undefined, { size, root }: Head, proof: readonly Buffer[]): boolean {
  if (old === undefined || old.size === 0) return proof.length === 0;
  const [oldRoot, newRoot] = [Buffer.from(old.root, 'base64'), Buffer.from(root, 'base64')];
  if (old.size === size) return proof.length === 0 && oldRoot.equals(newRoot);
  // A complete tree is not repeated in the proof.
  const complete = Number.isInteger(Math.log2(old.size));
  const [first, ...rest] = complete ? [oldRoot, ...proof] : proof;
  if (first === undefined) return false;
  let [at, last] = [old.size - 1, size - 1];
  while (at % 2 === 1) [at, last] = [half(at), half(last)];
  let [oldHash, newHash] = [first, first];
  for (const hash of rest) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      oldHash = node(hash, oldHash);
      newHash = node(hash, newHash);
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      newHash = node(newHash, hash);
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && oldHash.equals(oldRoot) && newHash.equals(newRoot);
}

function half(number: number): number {
  return Math.floor(number / 2);
}

/** Another file takes the place of the old one at once, so that a crash leaves the one or the other. */
async function writeState(path: string, state: State): Promise<void> {
  const file = await open(`${path}.new`, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify(state));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  const directory = await open(dirname(path), 'r');
  await directory.sync().finally(() => directory.close());
}

/** The state of before; a new key where there never was one. A file that cannot be read is no reason to begin anew. */
async function readState(path: string): Promise<State> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as State;
  } catch (error) {
    if ((error as { code?: string }).code !== 'ENOENT') throw error;
  }
  const { privateKey } = generateKeyPairSync('ed25519');
  const state = { key: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(), heads: {} };
  await writeState(path, state);
  return state;
}

/** Starts the witness on a loopback port (0: any free one). */
export async function startWitness(options: WitnessOptions): Promise<RunningWitness> {
  const witness = new WitnessServer(options, await readState(options.stateFile));
  const server = createServer((request, response) => {
    witness.answer(request, response).catch(() => response.destroy());
  });
  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { url: `http://127.0.0.1:${port}`, verifierKey: witness.verifierKey, close };
}

function configuredLogs(text: string): Map<string, Uint8Array> {
  const entries = text.split(',').map((entry) => {
    const at = entry.indexOf('=');
    const key = base64(entry.slice(at + 1).trim(), 32);
    if (at < 1 || key === null) throw new Error('WITNESS_LOGS is a list of origin=<base64 of 32 bytes>');
    return [entry.slice(0, at).trim(), key] as const;
  });
  return new Map(entries);
}

if (import.meta.main) {
  const { url, verifierKey } = await startWitness({
    port: Number(process.env['WITNESS_PORT'] ?? '9191'),
    name: process.env['WITNESS_NAME'] ?? 'witness.example',
    logs: configuredLogs(process.env['WITNESS_LOGS'] ?? ''),
    stateFile: process.env['WITNESS_STATE'] ?? 'witness.json',
  });
  process.stdout.write(`Witness on ${url}\nMANDATE_WITNESS_URLS=${url}\nMANDATE_WITNESS_KEYS=${verifierKey}\n`);
}
