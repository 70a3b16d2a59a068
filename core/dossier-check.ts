import { contextText } from './action.ts';
import { type Dossier, readDossier } from './dossier.ts';
import { checkPresentation } from './dossier-agent.ts';
import { type Claim, Claims, entryName, isDecisive } from './dossier-claims.ts';
import {
  checkAction,
  checkMandate,
  checkReceipt,
  checkVerdict,
  type DecisionCase,
  moneyText,
  readDecision,
} from './dossier-decision.ts';
import { checkEntries } from './dossier-entries.ts';
import { checkConsequences, checkEscalations } from './dossier-events.ts';
import { dossierDigest, readSeal, SEAL_TYPE } from './dossier-seal.ts';
import type { Trust } from './dossier-trust.ts';
import { checkHeadWitnesses, checkTimestamps } from './dossier-witnesses.ts';
import { readPublicKeyNoble } from './ed25519-noble.ts';
import type { ReadPublicKey } from './ed25519-rule.ts';
import { canonicalize, type JsonValue } from './jcs.ts';
import type { JsonNode, JsonObject } from './json.ts';
import { readJwksMembers } from './jwk.ts';
import { checkJwsWith, JWS_PROBLEMS, type JwsType } from './jws.ts';
import { MAT_TYPE, type Mat, readMat } from './mat.ts';
import { readTreeHead, TREE_HEAD_TYPE, type TreeHead } from './tree-head.ts';
import { verifyEs256 } from './web-es256.ts';

/** What a dossier comes to: nothing failed and all that must be known is proven; something failed; neither. */
export type DossierVerdict = 'accepted' | 'rejected' | 'incomplete';

/** What a dossier says, for whoever reads the report; proven only where the verdict is `accepted`. */
export interface DossierSummary {
  readonly receipt_id: string;
  readonly account: string;
  readonly issuer: string;
  readonly decided_at: string;
  readonly decision: string;
  readonly code: string | null;
  readonly action: string;
  readonly mandate_id: string | null;
  readonly sealed_at: string | null;
  readonly tree_size: number | null;
}

/** The verdict, every claim behind it, and what the dossier is about (null: it cannot be read). */
export interface DossierReport {
  readonly verdict: DossierVerdict;
  readonly claims: readonly Claim[];
  readonly summary: DossierSummary | null;
}

/**
 * Checks a dossier with nothing but the file and what is pinned: no network, no clock; it never throws for a file.
 *
 * `readKey` is the engine of Ed25519; ES256 and timestamps use Web Crypto, which browsers and Node have.
 * Nothing in the file is trusted but what a pinned key signed; the JWKS in it is compared and never used. What this
 * proves and what not: docs/evidence.md. Source: contract §§9, 10, docs/design/0016-dossier.md.
 */
export async function checkDossier(
  bytes: Uint8Array,
  trust: Trust,
  readKey: ReadPublicKey = readPublicKeyNoble,
): Promise<DossierReport> {
  const claims = new Claims();
  const read = readDossier(bytes);
  if (!read.ok) {
    claims.failed('form', read.problem);
    return { verdict: 'rejected', claims: claims.all(), summary: null };
  }
  const { dossier, jwks } = read;
  claims.ok('form', 'The file is a dossier of version 1, with nothing in it that is not known.');
  const sealed = await checkSeal(dossier, trust, claims);
  const head = await checkHead(dossier, trust, claims);
  checkEntries(dossier, head, claims);
  const given = readDecision(dossier, claims);
  if (given !== null) await checkCase(given, { trust, readKey }, claims);
  if (head !== null) {
    await checkHeadWitnesses(dossier, head, { trust, readKey }, claims);
    await checkTimestamps(dossier, head, trust, claims);
  }
  checkPublishedKeys(jwks, trust, claims);
  const all = claims.all();
  return { verdict: verdictOf(all), claims: all, summary: summaryOf(dossier, given, { sealed, head }) };
}

function verdictOf(claims: readonly Claim[]): DossierVerdict {
  if (claims.some(({ result }) => result === 'failed')) return 'rejected';
  return claims.some(isDecisive) ? 'incomplete' : 'accepted';
}

interface Means {
  readonly trust: Trust;
  readonly readKey: ReadPublicKey;
}

async function checkCase(given: DecisionCase, { trust, readKey }: Means, claims: Claims): Promise<void> {
  checkReceipt(given, claims);
  await checkMat(given, trust, claims);
  checkVerdict(given, claims);
  checkMandate(given, claims);
  checkAction(given, claims);
  await checkPresentation(given, readKey, claims);
  checkEscalations(given, claims);
  checkConsequences(given, claims);
}

/** A token's payload as far as it can be read, and what is wrong or unknown about who signed it. */
interface TokenReading {
  readonly payload: JsonObject | null;
  readonly problem: string | null;
  readonly pinned: boolean;
}

async function readToken(token: string, typ: JwsType, { keys }: Trust): Promise<TokenReading> {
  const reading = await checkJwsWith(token, typ, async (kid, input, signature) => {
    if (keys === null) return true;
    const key = keys.get(kid);
    return key === undefined ? null : await verifyEs256(key, input, signature);
  });
  if (reading.ok) return { payload: reading.payload, problem: null, pinned: keys !== null };
  const unknown = reading.problem === 'key_unknown';
  const problem = unknown
    ? 'It is signed with a key that is not among the pinned ones.'
    : JWS_PROBLEMS[reading.problem];
  return { payload: null, problem, pinned: keys !== null };
}

const NOT_PINNED = 'not checked: no key of the service is pinned, so that anybody could have signed it.';

async function checkSeal(dossier: Dossier, trust: Trust, claims: Claims): Promise<string | null> {
  const { payload, problem, pinned } = await readToken(dossier.seal, SEAL_TYPE, trust);
  if (payload === null) {
    claims.failed('seal', `The dossier's seal is not the service's. ${problem}`);
    return null;
  }
  const seal = readSeal(payload);
  const { receipt, issuer } = dossier;
  if (seal === null || seal.receiptId !== receipt.receipt_id || seal.accountId !== receipt.account) {
    claims.failed('seal', "The dossier's seal is that of another dossier.");
    return null;
  }
  const at = new Date(seal.issuedAtS * 1000);
  if (seal.issuer !== issuer || Number.isNaN(at.getTime())) {
    claims.failed('seal', "The dossier's seal names another service than the dossier.");
  } else if (seal.digest !== dossierDigest(dossier)) {
    claims.failed('seal', 'Something was changed, left out or put in since the service sealed this dossier.');
  } else if (pinned) {
    claims.ok('seal', `The dossier is complete as the service sealed it at ${at.toISOString()}.`);
  } else {
    claims.unknown('seal', `The dossier's seal is ${NOT_PINNED}`);
  }
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

async function checkHead(dossier: Dossier, trust: Trust, claims: Claims): Promise<TreeHead | null> {
  const { payload, problem, pinned } = await readToken(dossier.tree_head.token, TREE_HEAD_TYPE, trust);
  if (payload === null) {
    claims.failed('tree_head', `The tree head is not the service's. ${problem}`);
    return null;
  }
  const head = readTreeHead(payload);
  if (head === null || head.accountId !== dossier.receipt.account || head.issuer !== dossier.issuer) {
    claims.failed('tree_head', 'The tree head is not that of this account and this service.');
    return null;
  }
  const what = `The tree head over ${head.size} entries (root ${head.root})`;
  if (pinned) claims.ok('tree_head', `${what} is signed by the service with a pinned key.`);
  else claims.unknown('tree_head', `${what} is ${NOT_PINNED}`);
  return head;
}

async function checkMat({ dossier, body, terms }: DecisionCase, trust: Trust, claims: Claims): Promise<void> {
  const expected = body.decision === 'allow' && body.path === 'verify';
  if (dossier.mat === null) {
    const problem = expected ? 'The MAT of the decision is missing.' : null;
    claims.either('mat', problem, 'A decision of this kind has no MAT; the tree head covers it all the same.');
    return;
  }
  const { payload, problem, pinned } = await readToken(dossier.mat, MAT_TYPE, trust);
  const mat = payload === null ? null : readMat(payload);
  if (mat === null) {
    claims.failed('mat', `The MAT is not one of the service's. ${problem ?? 'It states no decision.'}`);
    return;
  }
  const differs = matDifference(dossier, mat, { mandateId: terms?.mandate_id, digest: body.mandate?.digest });
  if (differs !== null) claims.failed('mat', `The MAT has another ${differs} than ${entryName(dossier.decision)}.`);
  else if (pinned)
    claims.ok('mat', `The MAT is signed by the service and says what ${entryName(dossier.decision)} says.`);
  else claims.unknown('mat', `The MAT is ${NOT_PINNED}`);
}

function matDifference(
  { decision: { entry, hash }, issuer, receipt, action }: Dossier,
  mat: Mat,
  { mandateId, digest }: { readonly mandateId: string | undefined; readonly digest: string | undefined },
): string | null {
  if (mat.issuer !== issuer) return 'issuer';
  if (mat.receiptId !== receipt.receipt_id) return 'receipt';
  if (mat.accountId !== entry.account) return 'account';
  if (mat.mandateId !== mandateId) return 'mandate';
  if (mat.mandateDigest !== digest) return 'mandate digest';
  if (mat.decision !== receipt.decision) return 'decision';
  if (mat.ctx !== receipt.ctx) return 'ctx';
  if (mat.evidence.seq !== entry.seq || mat.evidence.hash !== hash) return 'place in the evidence';
  if (action === null || contextText(mat.action) !== canonicalize(action as JsonValue)) return 'action';
  return mat.issuedAtS === Math.floor(Date.parse(entry.at) / 1000) ? null : 'time';
}

function checkPublishedKeys(jwks: JsonNode, { keys }: Trust, claims: Claims): void {
  const published = readJwksMembers(jwks);
  if (published === null) claims.failed('keys', 'The JWKS in the file is not one that the service publishes.');
  else if (keys === null) claims.skipped('keys', 'The JWKS in the file is not used: whoever made the file chose it.');
  else {
    const known = published.keys().filter((kid) => keys.has(kid));
    claims.skipped('keys', `The JWKS in the file is not used; ${known.toArray().length} of its keys are pinned.`);
  }
}

function summaryOf(
  { receipt, issuer }: Dossier,
  given: DecisionCase | null,
  { sealed, head }: { readonly sealed: string | null; readonly head: TreeHead | null },
): DossierSummary {
  const { receipt_id, account, decided_at, decision } = receipt;
  const action = given?.body.action ?? null;
  const terms = given?.terms ?? null;
  const amount = action === null ? '' : moneyText(action.amount, action.currency ?? terms?.currency);
  const to = action?.counterparty === undefined ? '' : ` to ${action.counterparty}`;
  return {
    ...{ receipt_id, account, issuer, decided_at, decision },
    code: given?.body.code ?? null,
    action: action === null ? 'none that could be read' : `${action.type}, ${amount}${to}`,
    mandate_id: given?.body.mandate?.id ?? null,
    sealed_at: sealed,
    tree_size: head?.size ?? null,
  };
}
