import { issuerProblem, sameBytes, signatureProblem, validityProblem, type X509 } from './certificate.ts';
import { CERTIFICATE_PATH_MAX, CERTIFICATE_SIGNATURES_MAX } from './limits.ts';

/** What a search works with: it is bounded, because certificates of a stranger may issue each other in circles. */
interface Search {
  readonly anchors: readonly X509[];
  readonly others: readonly X509[];
  readonly atMs: number;
  signatures: number;
  /** Of the branch that came to nothing first, for people. */
  problem: string | null;
}

/** The certificates that came along and lie on the path, the leaf first; `problem` where there is no path. */
export interface CertificatePath {
  readonly problem: string | null;
  readonly certificates: readonly X509[];
}

/**
 * Looks for a path from `leaf` to one of `anchors` that held at `atMs`; without anchors, for a path as far as it goes.
 *
 * `others` are certificates that came along and are trusted in nothing. An anchor may be the leaf itself. Every
 * certificate of the path is valid at that time and every issuer allowed to issue; revocation is not looked at.
 * Source: RFC 5280 §6.1 without policies and name constraints (a critical one of those is refused).
 */
export async function findPath(
  leaf: X509,
  others: readonly X509[],
  anchors: readonly X509[],
  atMs: number,
): Promise<CertificatePath> {
  const search: Search = { anchors, others, atMs, signatures: 0, problem: null };
  const path = await continued(search, [leaf]);
  if (path === null) {
    return { problem: search.problem ?? 'no path of certificates leads to a trust anchor', certificates: [] };
  }
  return { problem: null, certificates: others.filter((one) => path.includes(one)) };
}

/** The whole path that begins with this one, or null. */
async function continued(search: Search, path: readonly X509[]): Promise<readonly X509[] | null> {
  const last = path[path.length - 1]!;
  if (search.anchors.some(({ der }) => sameBytes(der, last.der))) return path;
  if (path.length < CERTIFICATE_PATH_MAX) {
    // Those that came along first: a root that came along stays in the path.
    for (const issuer of [...search.others, ...search.anchors]) {
      const selfIssued = issuer === last && search.anchors.length === 0;
      if (issuer.subject !== last.issuer || (path.includes(issuer) && !selfIssued)) continue;
      const problem = await linkProblem(search, issuer, last, path.length - 1);
      if (problem !== null) {
        search.problem ??= problem;
        continue;
      }
      if (selfIssued) return path;
      const whole = await continued(search, [...path, issuer]);
      if (whole !== null) return whole;
    }
  }
  return search.anchors.length === 0 && last.issuer !== last.subject ? path : null;
}

async function linkProblem(search: Search, issuer: X509, last: X509, below: number): Promise<string | null> {
  const unfit = validityProblem(issuer, search.atMs) ?? issuerProblem(issuer, below);
  if (unfit !== null) return `the issuer's certificate ${unfit}`;
  search.signatures += 1;
  if (search.signatures > CERTIFICATE_SIGNATURES_MAX) return 'too many certificates to find a path through';
  const { signature, signatureAlgorithm, signatureValue, tbsView } = last.parsed;
  if (!signature.isEqual(signatureAlgorithm)) return 'a certificate names two signature algorithms';
  if (signatureValue.valueBlock.unusedBits !== 0) return 'a certificate has a wrong signature';
  const wrong = await signatureProblem(issuer.parsed.subjectPublicKeyInfo, {
    data: tbsView,
    signature: signatureValue.valueBlock.valueHexView,
    algorithm: signatureAlgorithm,
    digest: null,
  });
  return wrong === null ? null : `a certificate ${wrong}`;
}
