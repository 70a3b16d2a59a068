import { type AsnType, Constructed, Integer, Null, ObjectIdentifier, OctetString, Sequence } from 'asn1js';
import {
  AlgorithmIdentifier,
  type Attribute,
  ContentInfo,
  IssuerAndSerialNumber,
  MessageImprint,
  PKIStatusInfo,
  SignedData,
  type SignerInfo,
  TimeStampReq,
  TSTInfo,
} from 'pkijs';
import {
  bytesOf,
  CertificateProblem,
  hashName,
  hexOf,
  isPlain,
  printableText,
  readCertificate,
  readDer,
  sameBytes,
  signatureProblem,
  subjectText,
  timestampingProblem,
  validityProblem,
  type X509,
} from './certificate.ts';
import { findPath } from './certificate-path.ts';
import { TIMESTAMP_TOKEN_MAX_BYTES, TOKEN_CERTIFICATES_MAX } from './limits.ts';

// RFC 3161 timestamps over a SHA-256 digest, in RFC 5816's form. Runs in a browser as well.

/** Why a timestamp was refused; the closed list is for programs, the text beside it for people. */
export type TimestampRefusal =
  | 'too_large'
  | 'malformed'
  | 'rejected'
  | 'imprint'
  | 'nonce'
  | 'time'
  | 'certificate'
  | 'signature'
  | 'chain';

/** What a check may look at; `chain` needs trust anchors, `nonce` and `clock` what only the requester knows. */
export type TimestampCheck = 'imprint' | 'nonce' | 'signature' | 'certificate' | 'chain' | 'clock' | 'revocation';

/** A timestamp that holds as far as `checked` says; `unchecked` names everything else, with the reason. */
export interface ValidTimestamp {
  readonly valid: true;
  /** The token alone (a CMS ContentInfo in DER): what is stored and shown to others. */
  readonly token: Uint8Array;
  /** RFC 3339, UTC, with milliseconds, rounded down; the same as `genTimeMs`. */
  readonly genTime: string;
  readonly genTimeMs: number;
  /** How far from `genTime` the authority says it may be; null where it does not say. */
  readonly accuracyMs: number | null;
  /** The subject of the authority's certificate, printable ASCII. */
  readonly tsa: string;
  readonly policy: string;
  /** The token's serial number in hex. */
  readonly serial: string;
  readonly checked: readonly TimestampCheck[];
  readonly unchecked: readonly { readonly check: TimestampCheck; readonly why: string }[];
}

export interface RefusedTimestamp {
  readonly valid: false;
  readonly reason: TimestampRefusal;
  /** One sentence for people, without foreign markup. */
  readonly problem: string;
}

export type TimestampVerdict = ValidTimestamp | RefusedTimestamp;

/** What a token is held to; null where the one who checks does not know it. */
export interface TimestampExpectation {
  /** SHA-256, 32 bytes: what the token must be about. */
  readonly digest: Uint8Array;
  /** The nonce of the request; only the requester has it. */
  readonly nonce: Uint8Array | null;
  /** Certificates that are trusted to issue an authority's; none: the path is not checked. */
  readonly anchors: readonly X509[];
  /** When the answer came, in Unix milliseconds, and how far its time may be from that. */
  readonly clock: { readonly nowMs: number; readonly toleranceMs: number } | null;
}

const SHA_256 = '2.16.840.1.101.3.4.2.1';
const SIGNED_DATA = '1.2.840.113549.1.7.2';
const TST_INFO = '1.2.840.113549.1.9.16.1.4';
const CONTENT_TYPE = '1.2.840.113549.1.9.3';
const MESSAGE_DIGEST = '1.2.840.113549.1.9.4';
const SIGNING_CERTIFICATE = '1.2.840.113549.1.9.16.2.12';
const SIGNING_CERTIFICATE_V2 = '1.2.840.113549.1.9.16.2.47';
const SUBJECT_KEY_IDENTIFIER = '2.5.29.14';
/** The members of a SignerInfo that the signature covers or needs (RFC 5652 §5.3), and which of them is the hash. */
const SIGNER_PARTS = 6;
const SIGNER_HASH_PART = 2;
const TAG_SEQUENCE = 0x30;
const TAG_SET = 0x31;
const TAG_OCTET_STRING = 0x04;
const TAG_0 = 0xa0;
const VERSION_3 = Uint8Array.of(0x02, 0x01, 0x03);
const OID_SIGNED_DATA = oidBytes(SIGNED_DATA);
const OID_TST_INFO = oidBytes(TST_INFO);
const DIGEST_BYTES = 32;
const NONCE_BYTES = 16;
const GENERALIZED_TIME_TAG = 24;
const DIRECTORY_NAME = 4;

function oidBytes(value: string): Uint8Array {
  return new Uint8Array(new ObjectIdentifier({ value }).toBER());
}

class Refusal extends Error {
  readonly reason: TimestampRefusal;

  constructor(reason: TimestampRefusal, message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * The request for a timestamp over a SHA-256 digest, in DER: version 1, with nonce, certificates asked for.
 *
 * `nonce` is 16 random bytes. Throws TypeError for any other length. Source: RFC 3161 §2.4.1.
 */
export function timestampRequest(digest: Uint8Array, nonce: Uint8Array): Uint8Array {
  if (digest.length !== DIGEST_BYTES || nonce.length !== NONCE_BYTES) {
    throw new TypeError(`a digest has ${DIGEST_BYTES} bytes and a nonce ${NONCE_BYTES}`);
  }
  const request = new TimeStampReq({
    version: 1,
    messageImprint: new MessageImprint({
      hashAlgorithm: new AlgorithmIdentifier({ algorithmId: SHA_256, algorithmParams: new Null() }),
      hashedMessage: new OctetString({ valueHex: Uint8Array.from(digest).buffer }),
    }),
    nonce: Integer.fromBigInt(nonceNumber(nonce)),
    certReq: true,
  });
  return new Uint8Array(request.toSchema().toBER());
}

/** The nonce as the positive number that is sent. */
function nonceNumber(nonce: Uint8Array): bigint {
  return BigInt(`0x${hexOf(nonce)}`);
}

/** Checks the answer of a timestamping authority; never throws. Source: RFC 3161 §2.4.2, RFC 5816. */
export function checkTimestampResponse(
  response: Uint8Array,
  expected: TimestampExpectation,
): Promise<TimestampVerdict> {
  return verdict(response, async () => await checkToken(grantedToken(readDer(response, 'the answer')), expected));
}

/**
 * Checks a token that was stored or came with a file; never throws.
 *
 * It must be in the form that {@link checkTimestampResponse} returns, so that no byte of it can be another one without
 * being noticed: what the authority did not sign is left away there. Source: RFC 3161 §2.4.2, RFC 5816.
 */
export function checkTimestampToken(token: Uint8Array, expected: TimestampExpectation): Promise<TimestampVerdict> {
  return verdict(token, async () => {
    const found = await checkToken(readDer(token, 'the token'), expected);
    if (!sameBytes(found.token, token)) throw new Refusal('malformed', 'it holds more than is needed to check it');
    return found;
  });
}

async function verdict(input: Uint8Array, check: () => Promise<ValidTimestamp>): Promise<TimestampVerdict> {
  if (input.length > TIMESTAMP_TOKEN_MAX_BYTES) {
    const problem = `The timestamp is longer than ${TIMESTAMP_TOKEN_MAX_BYTES} bytes.`;
    return { valid: false, reason: 'too_large', problem };
  }
  try {
    return await check();
  } catch (error) {
    const known = error instanceof Refusal || error instanceof CertificateProblem;
    const problem = known ? error.message : 'it has not the form of a timestamp';
    const reason = error instanceof Refusal ? error.reason : 'malformed';
    return { valid: false, reason, problem: `The timestamp is refused: ${problem}.` };
  }
}

/** The token of an answer whose status is "granted". */
function grantedToken(response: AsnType): AsnType {
  const [status, token, ...more] = partsOf(response, Sequence);
  if (status === undefined) throw new Refusal('malformed', 'the answer has no status');
  const info = new PKIStatusInfo({ schema: status });
  // "Granted with modifications" is something else than what was asked for.
  if (info.status !== 0) {
    const said = (info.statusStrings ?? []).map((text) => printableText(String(text.valueBlock.value))).join(', ');
    const text = said === '' ? '' : ` (it says: ${said})`;
    throw new Refusal('rejected', `the authority answered with status ${info.status}${text}`);
  }
  if (token === undefined || more.length > 0) throw new Refusal('malformed', 'the answer holds no single token');
  return token;
}

async function checkToken(token: AsnType, expected: TimestampExpectation): Promise<ValidTimestamp> {
  const { info, infoBytes, genTimeMs, signer, signerParts, certificates } = readToken(token);
  checkImprint(info, expected);
  const leaf = await signingCertificate(signer, certificates);
  const unfit = validityProblem(leaf, genTimeMs) ?? timestampingProblem(leaf);
  if (unfit !== null) throw new Refusal('certificate', `the authority's certificate ${unfit}`);
  checkName(info, leaf);
  await checkSignature(signer, infoBytes, leaf);
  const [checked, unchecked]: [TimestampCheck[], ValidTimestamp['unchecked'][number][]] = [
    ['imprint', 'signature', 'certificate'],
    [{ check: 'revocation', why: 'whether the certificate was revoked needs the network' }],
  ];
  if (expected.nonce !== null) checked.push('nonce');
  else unchecked.push({ check: 'nonce', why: 'only the one who asked for the timestamp knows it' });
  if (expected.clock !== null) checkClock(genTimeMs, expected.clock);
  if (expected.clock !== null) checked.push('clock');
  else unchecked.push({ check: 'clock', why: 'it is compared with a clock only when it arrives' });
  const path = await findPath(leaf, certificates, expected.anchors, genTimeMs);
  if (path.problem !== null) throw new Refusal('chain', path.problem);
  if (expected.anchors.length > 0) checked.push('chain');
  else unchecked.push({ check: 'chain', why: 'no trust anchor was given, so the authority may be anybody' });
  return {
    valid: true,
    token: normalToken(infoBytes, path.certificates, signerParts),
    genTime: new Date(genTimeMs).toISOString(),
    genTimeMs,
    accuracyMs: accuracyOf(info),
    tsa: subjectText(leaf),
    policy: info.policy,
    serial: hexOf(info.serialNumber.valueBlock.valueHexView),
    checked,
    unchecked,
  };
}

interface Token {
  readonly info: TSTInfo;
  readonly infoBytes: Uint8Array;
  readonly genTimeMs: number;
  readonly signer: SignerInfo;
  /** The very bytes of the members of `signer`, unsigned attributes left away. */
  readonly signerParts: readonly Uint8Array[];
  readonly certificates: readonly X509[];
}

function readToken(token: AsnType): Token {
  const [, content] = partsOf(token, Sequence);
  const [signed] = partsOf(content, Constructed);
  // These by their own bytes, before the parser's schemas write into what they are given.
  const certificates = readCertificates(signed);
  const signerParts = readSignerParts(signed);
  const outer = new ContentInfo({ schema: token });
  if (outer.contentType !== SIGNED_DATA) throw new Refusal('malformed', 'the token is not signed data');
  const data = new SignedData({ schema: outer.content });
  const { eContentType, eContent } = data.encapContentInfo;
  if (eContentType !== TST_INFO) throw new Refusal('malformed', 'the token signs something else than a timestamp');
  if (eContent === undefined) throw new Refusal('malformed', 'the token holds no timestamp');
  const [signer, ...others] = data.signerInfos;
  if (signer === undefined || others.length > 0) throw new Refusal('malformed', 'the token has not one signer');
  const infoBytes = new Uint8Array(eContent.getValue());
  const block = readDer(infoBytes, 'the timestamp');
  const genTimeMs = generalizedTime(partsOf(block, Sequence)[4]);
  const info = new TSTInfo({ schema: block });
  if (info.version !== 1) throw new Refusal('malformed', 'the timestamp has a version that is not known');
  if (info.extensions?.some((extension) => extension.critical)) {
    throw new Refusal('malformed', 'the timestamp has a critical extension, and none is known');
  }
  return { info, infoBytes, genTimeMs, signer, signerParts, certificates };
}

/** Version, identifier, hash, signed attributes, algorithm and signature of the signer. */
function readSignerParts(signed: AsnType | undefined): Uint8Array[] {
  const set = partsOf(signed, Sequence).at(-1);
  const [signer] = partsOf(set, Constructed);
  return partsOf(signer, Sequence).slice(0, SIGNER_PARTS).map(bytesOf);
}

/** The certificates that came with the token. */
function readCertificates(signed: AsnType | undefined): X509[] {
  const set = partsOf(signed, Sequence).find(({ idBlock }) => idBlock.tagClass === 3 && idBlock.tagNumber === 0);
  if (set === undefined) throw new Refusal('certificate', 'the token brings no certificates');
  const blocks = partsOf(set, Constructed);
  if (blocks.length > TOKEN_CERTIFICATES_MAX) {
    throw new Refusal('certificate', `the token brings more than ${TOKEN_CERTIFICATES_MAX} certificates`);
  }
  return blocks.map((block) => readCertificate(bytesOf(block)));
}

function partsOf(block: AsnType | undefined, kind: typeof Sequence | typeof Constructed): readonly AsnType[] {
  if (!(block instanceof kind)) throw new Refusal('malformed', 'it has not the form of a timestamp');
  return block.valueBlock.value as AsnType[];
}

const GENERALIZED_TIME = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{0,8}[1-9]))?Z$/;

/** Unix milliseconds, rounded down, of a GeneralizedTime as RFC 3161 §2.4.2 restricts it. */
function generalizedTime(block: AsnType | undefined): number {
  const { tagClass, tagNumber } = block?.idBlock ?? {};
  if (block === undefined || tagClass !== 1 || tagNumber !== GENERALIZED_TIME_TAG) {
    throw new Refusal('malformed', 'the timestamp has no time');
  }
  const header = block.idBlock.blockLength + block.lenBlock.blockLength;
  const text = String.fromCharCode(...bytesOf(block).subarray(header));
  const [, year, month, day, hour, minute, second, fraction = ''] = GENERALIZED_TIME.exec(text) ?? [];
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.padEnd(3, '0').slice(0, 3)}Z`;
  const ms = Date.parse(iso);
  if (!Number.isFinite(ms) || new Date(ms).toISOString() !== iso) {
    throw new Refusal('malformed', 'the timestamp has no time in the form that is asked for');
  }
  return ms;
}

function checkImprint({ messageImprint, nonce }: TSTInfo, expected: TimestampExpectation): void {
  const { hashAlgorithm, hashedMessage } = messageImprint;
  const imprint = hashedMessage.valueBlock.valueHexView;
  if (hashAlgorithm.algorithmId !== SHA_256 || hexOf(imprint) !== hexOf(expected.digest)) {
    throw new Refusal('imprint', 'it is about another digest');
  }
  if (expected.nonce !== null && nonce?.toBigInt() !== nonceNumber(expected.nonce)) {
    throw new Refusal('nonce', 'it answers another request (its nonce is not the one that was sent)');
  }
}

function checkClock(genTimeMs: number, { nowMs, toleranceMs }: NonNullable<TimestampExpectation['clock']>): void {
  const away = Math.abs(genTimeMs - nowMs);
  if (away > toleranceMs) {
    throw new Refusal('time', `its time is ${Math.round(away / 1000)} seconds away from the clock here`);
  }
}

/** Where the timestamp names its authority, the certificate has to be that one's (RFC 3161 §2.4.2, `tsa`). */
function checkName({ tsa }: TSTInfo, { subject }: X509): void {
  if (tsa?.type !== DIRECTORY_NAME) return;
  if (hexOf(tsa.value.valueBeforeDecode) !== subject) {
    throw new Refusal('certificate', "the authority's certificate has another name than the timestamp");
  }
}

/** Milliseconds, rounded up. */
function accuracyOf({ accuracy }: TSTInfo): number | null {
  if (accuracy === undefined) return null;
  const { seconds = 0, millis = 0, micros = 0 } = accuracy;
  return seconds * 1000 + millis + Math.ceil(micros / 1000);
}

/** The one value of a signed attribute that must be there once. */
function attributeValue(attributes: readonly Attribute[], oid: string, name: string): AsnType {
  const found = attributes.filter(({ type }) => type === oid);
  const values = found.flatMap((attribute) => attribute.values as AsnType[]);
  const [value] = values;
  if (found.length !== 1 || values.length !== 1 || value === undefined) {
    throw new Refusal('signature', `the signed attribute ${name} is not there once`);
  }
  return value;
}

/**
 * The certificate that the signer says it signed with: found by the hash in the signed attribute, so that no other with
 * the same key can stand in for it (RFC 2634 §5.4, RFC 5816: the first entry of SigningCertificate or its version 2).
 */
async function signingCertificate(signer: SignerInfo, certificates: readonly X509[]): Promise<X509> {
  const attributes = signer.signedAttrs?.attributes ?? [];
  const named = attributes.filter(({ type }) => type === SIGNING_CERTIFICATE || type === SIGNING_CERTIFICATE_V2);
  if (named.length === 0)
    throw new Refusal('certificate', 'the signature does not name the certificate it is made with');
  let candidates = certificates;
  for (const type of new Set(named.map((one) => one.type))) {
    const [list] = partsOf(attributeValue(attributes, type, 'signing-certificate'), Sequence);
    const [first] = partsOf(list, Sequence);
    const { algorithm, digest } = namedHash(partsOf(first, Sequence), type === SIGNING_CERTIFICATE);
    const hashes = await Promise.all(candidates.map(({ der }) => digestHex(algorithm, der)));
    candidates = candidates.filter((_, at) => hashes[at] === digest);
  }
  const [found] = candidates;
  if (found === undefined) throw new Refusal('certificate', 'the certificate of the signature is not in the token');
  if (!identifies(signer, found)) throw new Refusal('certificate', 'the signature names two certificates');
  return found;
}

/** ESSCertID is a SHA-1, ESSCertIDv2 names its hash or means SHA-256. */
function namedHash(parts: readonly AsnType[], first: boolean): { algorithm: string; digest: string } {
  const [head] = parts;
  const named = !first && head instanceof Sequence;
  const oid = named ? new AlgorithmIdentifier({ schema: head }).algorithmId : SHA_256;
  const algorithm = first ? 'SHA-1' : hashName(oid);
  const value = named ? parts[1] : head;
  if (algorithm === null || !(value instanceof OctetString)) {
    throw new Refusal('certificate', 'the signature names its certificate in a way that is not known');
  }
  return { algorithm, digest: hexOf(value.getValue()) };
}

function identifies({ sid, version }: SignerInfo, { parsed, issuer, extensions }: X509): boolean {
  if (sid instanceof IssuerAndSerialNumber) {
    if (version !== 1) return false;
    const sameSerial =
      hexOf(sid.serialNumber.valueBlock.valueHexView) === hexOf(parsed.serialNumber.valueBlock.valueHexView);
    return sameSerial && hexOf(sid.issuer.valueBeforeDecode) === issuer;
  }
  const extension = extensions.get(SUBJECT_KEY_IDENTIFIER);
  const key = (sid as { valueBlock?: { valueHexView?: Uint8Array } }).valueBlock?.valueHexView;
  if (version !== 3 || extension === undefined || key === undefined) return false;
  const value = readDer(new Uint8Array(extension.extnValue.getValue()), 'a key identifier');
  return value instanceof OctetString && hexOf(value.getValue()) === hexOf(key);
}

async function checkSignature(signer: SignerInfo, infoBytes: Uint8Array, { parsed }: X509): Promise<void> {
  const { signedAttrs, digestAlgorithm, signatureAlgorithm, signature } = signer;
  if (signedAttrs === undefined) throw new Refusal('signature', 'it has no signed attributes');
  const type = attributeValue(signedAttrs.attributes, CONTENT_TYPE, 'content-type');
  if (!(type instanceof ObjectIdentifier) || type.getValue() !== TST_INFO) {
    throw new Refusal('signature', 'the signature is about another kind of content');
  }
  const digest = hashName(digestAlgorithm.algorithmId);
  if (digest === null || !isPlain(digestAlgorithm)) {
    throw new Refusal('signature', `its hash is not known (${digestAlgorithm.algorithmId})`);
  }
  const value = attributeValue(signedAttrs.attributes, MESSAGE_DIGEST, 'message-digest');
  if (!(value instanceof OctetString) || hexOf(value.getValue()) !== (await digestHex(digest, infoBytes))) {
    throw new Refusal('signature', 'the signature is about another content');
  }
  const data = new Uint8Array(signedAttrs.encodedValue);
  const signed = { data, signature: new Uint8Array(signature.getValue()), algorithm: signatureAlgorithm, digest };
  const wrong = await signatureProblem(parsed.subjectPublicKeyInfo, signed);
  if (wrong !== null) throw new Refusal('signature', `it ${wrong}`);
}

/**
 * The token in DER with what was checked and nothing else: no certificate beyond the path, no revocation lists, no
 * unsigned attributes. None of those is signed, so leaving them away breaks nothing. Source: RFC 5652 §5.1.
 */
function normalToken(info: Uint8Array, path: readonly X509[], signer: readonly Uint8Array[]): Uint8Array {
  const hash = signer[SIGNER_HASH_PART] ?? new Uint8Array();
  const content = tlv(TAG_SEQUENCE, [OID_TST_INFO, tlv(TAG_0, [tlv(TAG_OCTET_STRING, [info])])]);
  const certificates = tlv(
    TAG_0,
    path.map(({ der }) => der),
  );
  const signers = tlv(TAG_SET, [tlv(TAG_SEQUENCE, signer)]);
  const data = tlv(TAG_SEQUENCE, [VERSION_3, tlv(TAG_SET, [hash]), content, certificates, signers]);
  return tlv(TAG_SEQUENCE, [OID_SIGNED_DATA, tlv(TAG_0, [data])]);
}

/** One DER value of up to 65,535 bytes. */
function tlv(tag: number, parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  const bytes = new Uint8Array(1 + head.length + length);
  bytes.set([tag, ...head]);
  let at = 1 + head.length;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

async function digestHex(algorithm: string, bytes: Uint8Array): Promise<string> {
  return hexOf(await crypto.subtle.digest(algorithm, Uint8Array.from(bytes)));
}
