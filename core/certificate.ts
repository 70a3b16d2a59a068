import { type AsnType, fromBER, Null, ObjectIdentifier } from 'asn1js';
import {
  type AlgorithmIdentifier,
  BasicConstraints,
  Certificate,
  createCMSECDSASignature,
  createECDSASignatureFromCMS,
  type Extension,
  ExtKeyUsage,
  type PublicKeyInfo,
  RSASSAPSSParams,
} from 'pkijs';
import {
  CERTIFICATE_MAX_BYTES,
  DER_DEPTH_MAX,
  DER_NODES_MAX,
  RSA_MODULUS_MAX_BITS,
  RSA_MODULUS_MIN_BITS,
  TRUST_ANCHORS_MAX,
} from './limits.ts';

// X.509 certificates as far as the check of a timestamp needs them. Runs in a browser as well: the parser is asn1js,
// the structures are pkijs's, the mathematics is Web Crypto's. What is not known here is refused.

/** Data that cannot be accepted; the message says what is wrong, in words for people. */
export class CertificateProblem extends Error {
  override readonly name = 'CertificateProblem';
}

/** A certificate that was read: its bytes, names as DER in hex, times in Unix milliseconds, extensions by OID. */
export interface X509 {
  readonly der: Uint8Array;
  readonly parsed: Certificate;
  readonly subject: string;
  readonly issuer: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly extensions: ReadonlyMap<string, Extension>;
}

const BASIC_CONSTRAINTS = '2.5.29.19';
const KEY_USAGE = '2.5.29.15';
const EXTENDED_KEY_USAGE = '2.5.29.37';
const SUBJECT_ALTERNATIVE_NAME = '2.5.29.17';
const CERTIFICATE_POLICIES = '2.5.29.32';
const TIME_STAMPING = '1.3.6.1.5.5.7.3.8';

/** Critical extensions whose meaning is applied here, or that limit nothing that is asked here. */
const KNOWN_CRITICAL = new Set([
  BASIC_CONSTRAINTS,
  KEY_USAGE,
  EXTENDED_KEY_USAGE,
  SUBJECT_ALTERNATIVE_NAME,
  CERTIFICATE_POLICIES,
]);

/** The first byte of a key usage's bits (RFC 5280 §4.2.1.3). */
const DIGITAL_SIGNATURE = 0x80;
const NON_REPUDIATION = 0x40;
const KEY_CERT_SIGN = 0x04;

/** Parses one DER value that fills `bytes`; throws {@link CertificateProblem} for anything else. */
export function readDer(bytes: Uint8Array, what: string): AsnType {
  const options = { maxDepth: DER_DEPTH_MAX, maxNodes: DER_NODES_MAX, parseEmbedded: false };
  let read: ReturnType<typeof fromBER>;
  try {
    read = fromBER(Uint8Array.from(bytes), options);
  } catch {
    throw new CertificateProblem(`${what} is not DER`);
  }
  if (read.offset === -1 || read.result.error !== '') throw new CertificateProblem(`${what} is not DER`);
  if (read.offset !== bytes.length) throw new CertificateProblem(`${what} has bytes behind its end`);
  // The parser lets some lengths pass that do not add up.
  if (!sameBytes(new Uint8Array(read.result.toBER()), bytes)) throw new CertificateProblem(`${what} is not DER`);
  return read.result;
}

/** The very bytes of a parsed block. */
export function bytesOf(block: AsnType): Uint8Array {
  return Uint8Array.from(block.valueBeforeDecodeView);
}

/** Bytes in lower-case hex. */
export function hexOf(bytes: Uint8Array | ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Whether two byte strings are the same; not for secrets. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** Reads one certificate in DER; throws {@link CertificateProblem}. Source: RFC 5280 §4.1. */
export function readCertificate(der: Uint8Array): X509 {
  if (der.length > CERTIFICATE_MAX_BYTES) {
    throw new CertificateProblem(`a certificate is longer than ${CERTIFICATE_MAX_BYTES} bytes`);
  }
  const block = readDer(der, 'a certificate');
  let parsed: Certificate;
  try {
    parsed = new Certificate({ schema: block });
  } catch {
    throw new CertificateProblem('a certificate has not the form of one');
  }
  const extensions = new Map<string, Extension>();
  for (const extension of parsed.extensions ?? []) {
    if (extensions.has(extension.extnID)) throw new CertificateProblem('a certificate has an extension twice');
    extensions.set(extension.extnID, extension);
  }
  const [notBeforeMs, notAfterMs] = [parsed.notBefore.value.getTime(), parsed.notAfter.value.getTime()];
  if (!Number.isFinite(notBeforeMs) || !Number.isFinite(notAfterMs)) {
    throw new CertificateProblem('a certificate has no readable validity');
  }
  return {
    der,
    parsed,
    subject: hexOf(parsed.subject.valueBeforeDecode),
    issuer: hexOf(parsed.issuer.valueBeforeDecode),
    notBeforeMs,
    notAfterMs,
    extensions,
  };
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g;

/** Reads the certificates of a PEM text, at least one; throws {@link CertificateProblem}. Source: RFC 7468 §5. */
export function readTrustAnchors(pem: string): readonly X509[] {
  const anchors = Array.from(pem.matchAll(PEM_CERTIFICATE), ([, base64 = '']) => {
    try {
      return readCertificate(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)));
    } catch (error) {
      if (error instanceof CertificateProblem) throw error;
      throw new CertificateProblem('a certificate of the PEM text is not base64');
    }
  });
  const begun = pem.split('-----BEGIN ').length - 1;
  if (anchors.length === 0 || anchors.length !== begun) {
    throw new CertificateProblem('the PEM text must hold certificates, whole ones, and nothing else');
  }
  if (anchors.length > TRUST_ANCHORS_MAX) {
    throw new CertificateProblem(`the PEM text holds more than ${TRUST_ANCHORS_MAX} certificates`);
  }
  return anchors;
}

/** The subject in the usual form (`CN=…, O=…`), printable ASCII only; for people, never for comparisons. */
export function subjectText(certificate: X509): string {
  const names: Record<string, string> = { '2.5.4.3': 'CN', '2.5.4.10': 'O', '2.5.4.11': 'OU', '2.5.4.6': 'C' };
  const parts = certificate.parsed.subject.typesAndValues.map(({ type, value }) => {
    return `${names[type] ?? type}=${String(value.valueBlock.value)}`;
  });
  return printableText(parts.join(', '));
}

const TEXT_MAX_CHARACTERS = 200;

/** Foreign text made safe to show: printable ASCII without markup, bounded. */
export function printableText(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]|[<>&"']/g, '?').slice(0, TEXT_MAX_CHARACTERS);
}

/** Why this certificate may not sign what was made at `atMs`, or null; who issued it is another question. */
export function validityProblem({ notBeforeMs, notAfterMs, extensions }: X509, atMs: number): string | null {
  if (atMs < notBeforeMs) return 'was not yet valid at that time';
  if (atMs > notAfterMs) return 'had expired at that time';
  for (const [oid, extension] of extensions) {
    if (extension.critical && !KNOWN_CRITICAL.has(oid)) return `has a critical extension that is not known (${oid})`;
  }
  return null;
}

/** Why this certificate is not one for timestamps only, or null. Source: RFC 3161 §2.3. */
export function timestampingProblem({ extensions }: X509): string | null {
  const usage = extensions.get(EXTENDED_KEY_USAGE);
  if (usage === undefined) return 'is not made for timestamps (no extended key usage)';
  if (!usage.critical) return 'names its extended key usage without calling it critical';
  const purposes = usage.parsedValue instanceof ExtKeyUsage ? usage.parsedValue.keyPurposes : [];
  if (purposes.length !== 1 || purposes[0] !== TIME_STAMPING) return 'is not made for timestamps only';
  const bits = keyUsage(extensions);
  if (bits === undefined) return null;
  const allowed = DIGITAL_SIGNATURE | NON_REPUDIATION;
  return bits !== null && bits !== 0 && (bits & ~allowed) === 0 ? null : 'has a key usage beyond signatures';
}

/** Why this certificate may not have issued another with `below` CA certificates under it, or null. */
export function issuerProblem({ extensions }: X509, below: number): string | null {
  const constraints = extensions.get(BASIC_CONSTRAINTS)?.parsedValue;
  if (!(constraints instanceof BasicConstraints) || constraints.cA !== true) return 'is not a certificate authority';
  const { pathLenConstraint: length } = constraints;
  if (length !== undefined && (typeof length !== 'number' || length < below)) return 'allows no path of that length';
  const bits = keyUsage(extensions);
  if (bits === undefined) return null;
  return bits !== null && (bits & KEY_CERT_SIGN) !== 0 ? null : 'may not sign certificates';
}

/** The first byte of the key usage; undefined without the extension, null where it cannot be read. */
function keyUsage(extensions: X509['extensions']): number | null | undefined {
  const extension = extensions.get(KEY_USAGE);
  if (extension === undefined) return undefined;
  try {
    const { valueBlock } = readDer(new Uint8Array(extension.extnValue.getValue()), 'a key usage') as AsnType & {
      readonly valueBlock: { readonly valueHexView?: Uint8Array };
    };
    return valueBlock.valueHexView?.[0] ?? null;
  } catch {
    return null;
  }
}

const HASHES: Readonly<Record<string, string>> = {
  '2.16.840.1.101.3.4.2.1': 'SHA-256',
  '2.16.840.1.101.3.4.2.2': 'SHA-384',
  '2.16.840.1.101.3.4.2.3': 'SHA-512',
};

/** Web Crypto's name of a SHA-2 hash, or null for any other. */
export function hashName(oid: string): string | null {
  return Object.hasOwn(HASHES, oid) ? (HASHES[oid] ?? null) : null;
}

interface SignatureScheme {
  readonly name: 'RSASSA-PKCS1-v1_5' | 'RSA-PSS' | 'ECDSA';
  readonly hash: string;
  readonly saltLength?: number;
}

const SCHEMES: Readonly<Record<string, SignatureScheme>> = {
  '1.2.840.113549.1.1.11': { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
  '1.2.840.113549.1.1.12': { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-384' },
  '1.2.840.113549.1.1.13': { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-512' },
  '1.2.840.10045.4.3.2': { name: 'ECDSA', hash: 'SHA-256' },
  '1.2.840.10045.4.3.3': { name: 'ECDSA', hash: 'SHA-384' },
  '1.2.840.10045.4.3.4': { name: 'ECDSA', hash: 'SHA-512' },
};
const RSA_ENCRYPTION = '1.2.840.113549.1.1.1';
const RSA_PSS = '1.2.840.113549.1.1.10';
const MGF1 = '1.2.840.113549.1.1.8';
const EC_PUBLIC_KEY = '1.2.840.10045.2.1';
const CURVES: Readonly<Record<string, readonly [name: string, bytes: number]>> = {
  '1.2.840.10045.3.1.7': ['P-256', 32],
  '1.3.132.0.34': ['P-384', 48],
  '1.3.132.0.35': ['P-521', 66],
};

/** Whether an algorithm has no parameters, or the NULL that stands for none (RFC 5754 §§2 and 3). */
export function isPlain({ algorithmParams }: AlgorithmIdentifier): boolean {
  return algorithmParams === undefined || algorithmParams instanceof Null;
}

/** The scheme of a signature; `digest` is the hash where the algorithm names none (CMS has plain rsaEncryption). */
function signatureScheme(algorithm: AlgorithmIdentifier, digest: string | null): SignatureScheme | undefined {
  const { algorithmId, algorithmParams } = algorithm;
  if (algorithmId !== RSA_PSS && !isPlain(algorithm)) return undefined;
  if (algorithmId === RSA_ENCRYPTION && digest !== null) return { name: 'RSASSA-PKCS1-v1_5', hash: digest };
  if (algorithmId === RSA_PSS) {
    const { hashAlgorithm, maskGenAlgorithm, saltLength, trailerField } = new RSASSAPSSParams({
      schema: algorithmParams,
    });
    const hash = hashName(hashAlgorithm.algorithmId);
    const maskHash = maskGenAlgorithm.algorithmParams?.valueBlock?.value?.[0];
    const sameHash = maskHash instanceof ObjectIdentifier && maskHash.getValue() === hashAlgorithm.algorithmId;
    if (hash !== null && maskGenAlgorithm.algorithmId === MGF1 && sameHash && trailerField === 1) {
      return { name: 'RSA-PSS', hash, saltLength };
    }
  }
  return Object.hasOwn(SCHEMES, algorithmId) ? SCHEMES[algorithmId] : undefined;
}

/** What a signature is checked against. */
export interface SignedBytes {
  readonly data: Uint8Array;
  readonly signature: Uint8Array;
  readonly algorithm: AlgorithmIdentifier;
  /** The hash where the algorithm names none; null where it must. */
  readonly digest: string | null;
}

/**
 * Why the key did not sign the data, or null where it did: RSA (2048 to 8192 bits, PKCS #1 v1.5 or PSS) or ECDSA on a
 * NIST curve, with SHA-2.
 */
export async function signatureProblem(key: PublicKeyInfo, signed: SignedBytes): Promise<string | null> {
  try {
    const scheme = signatureScheme(signed.algorithm, signed.digest);
    if (scheme === undefined) return `uses a signature algorithm that is not known (${signed.algorithm.algorithmId})`;
    const valid = scheme.name === 'ECDSA' ? await checkEcdsa(key, signed, scheme) : await checkRsa(key, signed, scheme);
    return valid ? null : 'has a wrong signature';
  } catch (error) {
    return error instanceof CertificateProblem ? error.message : 'has a wrong signature';
  }
}

interface RsaKey {
  readonly modulusLength: number;
  readonly publicExponent: Uint8Array;
}

async function checkRsa(key: PublicKeyInfo, signed: SignedBytes, scheme: SignatureScheme): Promise<boolean> {
  if (key.algorithm.algorithmId !== RSA_ENCRYPTION) return false;
  const { name, hash, saltLength } = scheme;
  const imported = await crypto.subtle.importKey('spki', spkiOf(key), { name, hash }, false, ['verify']);
  const { modulusLength, publicExponent } = imported.algorithm as unknown as RsaKey;
  const wide = modulusLength < RSA_MODULUS_MIN_BITS || modulusLength > RSA_MODULUS_MAX_BITS;
  if (wide || publicExponent.length > 4) {
    throw new CertificateProblem(`is signed with an RSA key of ${modulusLength} bits, which is not accepted`);
  }
  const algorithm = saltLength === undefined ? { name } : { name, saltLength };
  return await crypto.subtle.verify(algorithm, imported, owned(signed.signature), owned(signed.data));
}

async function checkEcdsa(key: PublicKeyInfo, signed: SignedBytes, { hash }: SignatureScheme): Promise<boolean> {
  const parameters: unknown = key.algorithm.algorithmParams;
  if (key.algorithm.algorithmId !== EC_PUBLIC_KEY || !(parameters instanceof ObjectIdentifier)) return false;
  const curve = CURVES[parameters.getValue()];
  if (curve === undefined) throw new CertificateProblem('is signed with a key on a curve that is not known');
  const [namedCurve, bytes] = curve;
  const imported = await crypto.subtle.importKey('spki', spkiOf(key), { name: 'ECDSA', namedCurve }, false, ['verify']);
  const signature = createECDSASignatureFromCMS(readDer(signed.signature, 'a signature'), bytes);
  // One signature, one encoding.
  const encoded = new Uint8Array(createCMSECDSASignature(signature));
  if (!sameBytes(encoded, signed.signature)) return false;
  return await crypto.subtle.verify({ name: 'ECDSA', hash }, imported, signature, owned(signed.data));
}

function spkiOf(key: PublicKeyInfo): ArrayBuffer {
  return key.toSchema().toBER(false);
}

/** A copy whose buffer is its own: what Web Crypto's types ask for. */
function owned(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(bytes);
}
