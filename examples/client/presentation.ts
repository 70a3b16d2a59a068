import { createHash, createPrivateKey, createPublicKey, randomBytes, sign } from 'node:crypto';

// What an agent with its own key (path 2) needs to sign: docs/presentations.md in code, on node:crypto alone.

/** What an agent wants to do; `value` is in major units of the currency (12.5 is 12 euros and 50 cents). */
export interface Action {
  readonly type: string;
  readonly amount: { readonly value: number; readonly currency: string };
  readonly counterparty?: string;
}

/** A signed presentation. Nothing needs to be read of it: it goes to `verify` as it is. */
export interface Presentation {
  readonly mandate_id: string;
  readonly verifier: string;
  readonly ctx: string | null;
  readonly expires_at: string;
  readonly [member: string]: unknown;
}

/** An agent's key, wherever it is kept: its `did:key`, and the 64 bytes of its Ed25519 signature over `data`. */
export interface AgentSigner {
  readonly did: string;
  sign(data: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** What to sign: `verifier` is `presentation_verifier` of the mandate's status. */
export interface Intent {
  readonly mandate_id: string;
  readonly verifier: string;
  readonly action: Action;
  /** At most 300 seconds, which is the default. */
  readonly ttl_seconds?: number;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 16;
const TTL_SECONDS = 300;
/** The multicodec of an Ed25519 public key. */
const ED25519_CODEC = [0xed, 0x01];

/** Takes an Ed25519 key in PEM, as `mandate agent-key create` or `openssl genpkey -algorithm ed25519` writes it. */
export function signerOf(pem: string | Buffer): AgentSigner {
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== 'ed25519') throw new TypeError('an Ed25519 key is needed');
  const bytes = createPublicKey(key).export({ type: 'spki', format: 'der' }).subarray(-KEY_BYTES);
  return {
    did: `did:key:${multibase(Uint8Array.of(...ED25519_CODEC, ...bytes))}`,
    sign: (data) => sign(null, data, key),
  };
}

/** The digest that binds a presentation to its action: `sha-256:` and the hex SHA-256 of the action's JCS. */
export function contextDigest({ type, amount, counterparty }: Action): string {
  const { value, currency } = amount;
  const named = counterparty === undefined ? {} : { counterparty: counterparty.normalize('NFC') };
  return `sha-256:${sha256({ type, amount: { value, currency }, ...named }).toString('hex')}`;
}

/** Signs what an agent is about to do; good for one allow, until it expires. */
export async function signPresentation(intent: Intent, signer: AgentSigner): Promise<Presentation> {
  const { mandate_id, verifier, action, ttl_seconds = TTL_SECONDS } = intent;
  const now = Date.now();
  const issued_at = new Date(now).toISOString();
  const expires_at = new Date(now + ttl_seconds * 1000).toISOString();
  const nonce = randomBytes(NONCE_BYTES).toString('base64url');
  const ctx = contextDigest(action);
  const document = { type: 'MandatePresentation', mandate_id, verifier, ctx, nonce, issued_at, expires_at };
  const config = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: issued_at,
    verificationMethod: `${signer.did}#${signer.did.slice('did:key:'.length)}`,
    proofPurpose: 'authentication',
    domain: verifier,
    challenge: nonce,
  };
  const proofValue = multibase(await signer.sign(Buffer.concat([sha256(config), sha256(document)])));
  return { ...document, proof: { ...config, proofValue } };
}

type Json = string | number | { readonly [name: string]: Json };

function sha256(value: Json): Buffer {
  return createHash('sha256').update(canonicalize(value)).digest();
}

/** RFC 8785 for what is signed here: objects of strings and numbers. */
function canonicalize(value: Json): string {
  if (typeof value === 'string' && !value.isWellFormed()) throw new TypeError('a string holds half a character');
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError('a number is not finite');
  if (typeof value !== 'object') return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalize(value[name] as Json)}`).join(',')}}`;
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** `z` and base58btc: the bytes as one number, and a `1` for each zero byte before it. */
function multibase(bytes: Uint8Array): string {
  let text = '';
  for (let rest = BigInt(`0x0${Buffer.from(bytes).toString('hex')}`); rest > 0n; rest /= 58n) {
    text = ALPHABET.charAt(Number(rest % 58n)) + text;
  }
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return `z${'1'.repeat(zeros < 0 ? bytes.length : zeros)}${text}`;
}
