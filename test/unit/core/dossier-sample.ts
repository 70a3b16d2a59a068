import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { verificationBody } from '../../../control-plane/decisions/decision-body.ts';
import { type Action, contextDigest, contextText } from '../../../core/action.ts';
import { logKey, logOrigin, signCheckpoint } from '../../../core/checkpoint.ts';
import { type DecisionFacts, type DecisionRequest, decide, type GrantFacts } from '../../../core/decide.ts';
import { formatDidKey } from '../../../core/did-key.ts';
import { DOSSIER_VERSION, type Dossier, type DossierEntry } from '../../../core/dossier.ts';
import { SEAL_TYPE, sealClaims, type UnsealedDossier } from '../../../core/dossier-seal.ts';
import { NO_TRUST, type Trust } from '../../../core/dossier-trust.ts';
import { newSeed, SigningKey } from '../../../core/ed25519.ts';
import { CHAIN_START, type EvidenceKind, entryHash, type StoredEntry } from '../../../core/evidence.ts';
import { canonicalize, type JsonValue } from '../../../core/jcs.ts';
import { publicJwk } from '../../../core/jwk.ts';
import { signJws } from '../../../core/jws.ts';
import { type MandateTerms, mandateDigest } from '../../../core/mandate.ts';
import { MAT_TYPE, matClaims } from '../../../core/mat.ts';
import { inclusionProof, rootOfLeaves } from '../../../core/merkle.ts';
import { createPresentation, parsePresentation, presentationFacts } from '../../../core/presentation.ts';
import {
  base64Text,
  cosignature,
  cosignedMessage,
  NOTE_SIGNATURE,
  readNote,
  signatureLine,
  type VerifierKey,
  verifierKey,
} from '../../../core/signed-note.ts';
import { checkTimestampResponse, timestampRequest } from '../../../core/timestamp-token.ts';
import { TREE_HEAD_TYPE, treeHeadClaims } from '../../../core/tree-head.ts';
import { newTypeId, type TypeId } from '../../../core/type-id.ts';
import type { TestTsa } from '../../tsa.ts';

const T0 = Date.UTC(2026, 9, 1, 9, 0, 0);
export const ISSUER = 'https://mandates.example';

/** A service made up of its keys: what it signs is real. */
export class SampleService {
  readonly #es256: KeyObject;
  readonly kid: string;
  readonly jwks: { readonly keys: readonly object[] };
  readonly logSigner = new SigningKey(newSeed());
  readonly witnessSigner = new SigningKey(newSeed());
  readonly account: TypeId<'acc'> = newTypeId('acc', T0);
  readonly log: VerifierKey;
  readonly witness: VerifierKey;
  readonly trust: Trust;

  constructor() {
    this.#es256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const jwk = publicJwk(this.#es256);
    this.kid = jwk.kid;
    this.jwks = { keys: [jwk] };
    this.log = logKey(logOrigin(ISSUER, this.account), this.logSigner.publicKey);
    this.witness = verifierKey('witness.example', NOTE_SIGNATURE.cosignature, this.witnessSigner.publicKey);
    const keys = new Map([[jwk.kid, jwk]]);
    this.trust = { ...NO_TRUST, keys, logs: [this.log], witnesses: [this.witness] };
  }

  sign(typ: Parameters<typeof signJws>[0]['typ'], payload: string): string {
    return signJws({ typ, kid: this.kid }, payload, this.#es256);
  }

  /** A checkpoint of the log that the witness cosigned. */
  checkpoint(head: { readonly size: number; readonly root: string }, at = Math.floor(T0 / 1000) + 100): string {
    const note = signCheckpoint(head, this.log, (message) => this.logSigner.sign(message));
    const { text } = readNote(note)!;
    const signature = cosignature(at, this.witnessSigner.sign(cosignedMessage(text, at)));
    return note + signatureLine({ name: this.witness.name, keyId: this.witness.id, signature });
  }

  /** Seals a dossier; a seal that it has is replaced. */
  seal(dossier: UnsealedDossier): Dossier {
    return { ...dossier, seal: this.sign(SEAL_TYPE, sealClaims(dossier, T0 + 120_000)) };
  }
}

/** The same dossier with a timestamp over its tree head, sealed anew. */
export async function timestamped(
  { service, dossier, head }: ReturnType<typeof sampleDossier>,
  tsa: Pick<TestTsa, 'reply'>,
): Promise<Dossier> {
  const expected = { digest: Buffer.from(head.root, 'hex'), nonce: randomBytes(16), anchors: [], clock: null };
  const reply = await tsa.reply(timestampRequest(expected.digest, expected.nonce));
  const verdict = await checkTimestampResponse(reply, expected);
  if (!verdict.valid) throw new Error(verdict.problem);
  const tree_head = { ...dossier.tree_head, timestamps: [base64Text(verdict.token)] };
  return service.seal({ ...dossier, tree_head });
}

/** A chain that grows. */
class Chain {
  readonly #account: string;
  readonly entries: StoredEntry[] = [];
  nowMs = T0;

  constructor(account: string) {
    this.#account = account;
  }

  append(kind: EvidenceKind, body: string, id: string = newTypeId('evt', this.nowMs)): StoredEntry {
    this.nowMs += 1_000;
    const prev = this.entries.at(-1)?.hash ?? CHAIN_START;
    const at = new Date(this.nowMs).toISOString();
    const entry = { account: this.#account, seq: this.entries.length, id, kind, at, prev, body };
    const stored = { ...entry, hash: entryHash(entry) };
    this.entries.push(stored);
    return stored;
  }
}

export interface SampleOptions {
  /** In minor units; above 5000 it needs an approval, above 10000 it is denied. */
  readonly amount?: number;
  readonly service?: SampleService;
  /** When the chain begins, in Unix milliseconds. */
  readonly startMs?: number;
  /** Recorded of the decision instead of what is so, or what is made of it. */
  readonly recorded?: Recorded | ((body: Recorded) => Recorded);
  /** The mandate that the agent signed for, where that is another. */
  readonly presentedFor?: TypeId<'mdt'>;
  /** Whether the agent signed no action. */
  readonly unsignedAction?: boolean;
  /** The final amounts that were booked, one entry each. */
  readonly booked?: readonly number[];
  /** What was reported as executed. */
  readonly executed?: number | null;
}

export type Recorded = { readonly [name: string]: JsonValue };

/** A dossier as the service would make it, with everything that one can have but timestamps. */
export function sampleDossier(options: SampleOptions = {}) {
  const { amount = 6000, service = new SampleService(), recorded = {}, executed: executedAmount = null } = options;
  const { booked: finals = [amount - 100], presentedFor, unsignedAction } = options;
  const chain = new Chain(service.account);
  chain.nowMs = options.startMs ?? T0;
  const agent = new SigningKey(newSeed());
  const terms = sampleTerms(formatDidKey(agent.publicKey));
  const digest = mandateDigest(terms);
  chain.append('account.created', '{"email":"a@example.com"}');
  const created = chain.append(
    'mandate.created',
    canonicalize({ digest, name: 'Sample', terms } as unknown as JsonValue),
  );
  const step = { digest, mandate_id: terms.mandate_id, reason: null, status: 'active', version: 1 };
  const activated = chain.append('mandate.activated', canonicalize(step));
  const action: Action = { type: 'payments.create', amount_minor: amount, currency: 'EUR', counterparty: 'acme' };
  const given = { service, chain, agent, terms, digest, action, presentedFor, unsignedAction };
  const needsApproval = amount > 5000 && amount <= 10000;
  const opened = needsApproval ? decided(given, null, {}) : null;
  const escalationId = opened === null ? null : opened.escalationId;
  const approved = escalationId === null ? null : chain.append('escalation.approved', approval(given, escalationId));
  const decision = decided(given, escalationId, recorded);
  const allowed = decision.decision === 'allow';
  const receipt = { mandate_id: terms.mandate_id, month: '2026-10-01', receipt_id: decision.entry.id, currency: 'EUR' };
  const booked = allowed
    ? finals.map((final) =>
        chain.append('consumption.booked', canonicalize({ ...receipt, amount, final_amount: final })),
      )
    : [];
  const reported = { executed_amount: executedAmount, external_ref: 'ref-1', outcome: 'erfolgreich', released: 0 };
  const executed = allowed ? [chain.append('execution.reported', canonicalize({ ...receipt, ...reported }))] : [];
  chain.append('session.revoked', '{}');
  const leaves = chain.entries.map(({ hash }) => hash);
  const shown = (stored: StoredEntry): DossierEntry => provenIn(leaves, stored);
  const head = { size: leaves.length, root: rootOfLeaves(leaves) };
  const dossier = service.seal({
    dossier_version: DOSSIER_VERSION,
    issuer: ISSUER,
    receipt: {
      receipt_id: decision.entry.id as TypeId<'rcp'>,
      account: service.account,
      decided_at: decision.entry.at,
      decision: decision.decision,
      ctx: contextDigest(action),
      evidence: { seq: decision.entry.seq, hash: decision.entry.hash },
    },
    action: JSON.parse(contextText(action)),
    presentation: JSON.parse(canonicalize(decision.document as unknown as JsonValue)),
    decision: shown(decision.entry),
    mandate: { terms: shown(created), status: shown(activated) },
    escalations:
      opened === null || approved === null || escalationId === null
        ? []
        : [{ escalation_id: escalationId, opened: shown(opened.entry), answered: shown(approved) }],
    consumption: booked.map(shown),
    execution: executed.map(shown),
    tree_head: {
      token: service.sign(
        TREE_HEAD_TYPE,
        treeHeadClaims(ISSUER, { ...head, accountId: service.account, at: new Date(chain.nowMs).toISOString() }),
      ),
      checkpoint: service.checkpoint(head),
      timestamps: [],
    },
    mat: allowed ? matOf(given, decision.entry) : null,
    jwks: service.jwks as unknown as Dossier['jwks'],
  });
  return { service, dossier, head, chain };
}

function provenIn(leaves: readonly string[], { hash, body, ...entry }: StoredEntry): DossierEntry {
  const parsed = { ...entry, body: JSON.parse(body) } as DossierEntry['entry'];
  return { entry: parsed, hash, inclusion: inclusionProof(leaves, entry.seq) };
}

interface Given {
  readonly service: SampleService;
  readonly chain: Chain;
  readonly agent: SigningKey;
  readonly terms: MandateTerms;
  readonly digest: string;
  readonly action: Action;
  readonly presentedFor: TypeId<'mdt'> | undefined;
  readonly unsignedAction: boolean | undefined;
}

function sampleTerms(did: string): MandateTerms {
  return {
    ...{ mandate_id: newTypeId('mdt', T0), version: 1, scope: ['payments.*'], currency: 'EUR', per_action: 10000 },
    ...{ per_month: 100000, escalation_threshold: 5000, counterparties: [], agent_did: did, time_zone: 'UTC' },
    ...{ valid_until: null, max_uses: null },
  };
}

function approval({ service, terms, action, chain }: Given, escalationId: string): string {
  return canonicalize({
    ...{ action: { amount: action.amount_minor, counterparty: 'acme', currency: 'EUR', type: action.type } },
    ...{ closes_at: new Date(chain.nowMs + 600_000).toISOString(), ctx: contextDigest(action), reason: null },
    ...{ decided_by: service.account, escalation_id: escalationId, instance: 'verify', mandate_id: terms.mandate_id },
    receipt_id: chain.entries.at(-1)!.id,
  });
}

/** Decides as the service does, and records it; with an escalation, its approval is shown. */
function decided(given: Given, escalationId: TypeId<'esc'> | null, recorded: NonNullable<SampleOptions['recorded']>) {
  const { service, chain, agent, terms, digest, action } = given;
  const nowMs = chain.nowMs + 1_000;
  const receiptId = newTypeId('rcp', nowMs);
  const ctx = contextDigest(action);
  const window = { issued_at_ms: nowMs - 500, expires_at_ms: nowMs + 200_000 };
  const mandate_id = terms.mandate_id as TypeId<'mdt'>;
  const signedFor = { mandate_id: given.presentedFor ?? mandate_id, ctx: given.unsignedAction ? null : ctx };
  const document = createPresentation({ ...signedFor, verifier: service.account, ...window }, agent);
  const read = parsePresentation(document);
  if (read.problem !== null) throw new Error(read.problem);
  const presentation = { ...read, ctx };
  const grant: GrantFacts | null =
    escalationId === null
      ? null
      : {
          ...{ escalation_id: escalationId, mandate_id, ctx, status: 'approved' },
          closes_at_ms: chain.nowMs - 1_000 + 600_000,
        };
  const request: DecisionRequest = {
    action: { type: action.type, amount: action.amount_minor, currency: 'EUR', counterparty: 'acme' },
    ...{ ctx, escalation_token_given: grant !== null, bindable: true },
  };
  const facts: DecisionFacts = {
    ...{ now_ms: nowMs, account_id: service.account, mandate: { ...terms, status: 'active', uses: 0 } },
    month: { month: '2026-10-01', reserved: 1200, booked: 3400 },
    presentation: presentationFacts(presentation, {
      ...{ signature_problem: null, expected_signer: terms.agent_did, nonce_spent: false },
    }),
    ...{ tool: null, grant, standing: null, undecidable: null },
  };
  const verdict = decide(facts, request);
  const newEscalation = verdict.decision === 'escalate' ? newTypeId('esc', nowMs) : null;
  const body = verificationBody({
    ...{ facts, request, verdict, mandateDigest: digest, sandbox: false, keyId: newTypeId('key', T0) },
    escalation:
      newEscalation === null ? null : { id: newEscalation, expires_at: new Date(nowMs + 600_000).toISOString() },
    decidedBy: grant === null ? null : service.account,
    ask: {
      ...{ path: 'verify', token_hash: '', address: '', problem: null, request_digest: 'ab'.repeat(32), budget_ms: 0 },
      presentation: {
        ...{ mandate_id, verifier: service.account, ctx, nonce_hash: '', ...window, signer: presentation.signer },
        document: canonicalize(document as unknown as JsonValue),
      },
      action: { type: action.type, amount_minor: action.amount_minor, currency: 'EUR', counterparty: 'acme' },
      ...{ idempotency_key_hash: null, escalation_token_hash: null },
    },
  });
  const real = JSON.parse(body) as Recorded;
  const said = typeof recorded === 'function' ? recorded(real) : { ...real, ...recorded };
  const entry = chain.append('decision', canonicalize(said), receiptId);
  const { decision } = said as { readonly decision?: JsonValue } as { readonly decision: typeof verdict.decision };
  return { entry, document, decision, escalationId: newEscalation };
}

function matOf({ service, terms, digest, action }: Given, entry: StoredEntry): string {
  const claims = matClaims(ISSUER, {
    ...{ accountId: service.account, mandateId: terms.mandate_id, mandateDigest: digest, receiptId: entry.id },
    ...{ decidedAtMs: Date.parse(entry.at), decision: 'allow', ctx: contextDigest(action), action },
    evidence: { seq: entry.seq, hash: entry.hash },
  });
  return service.sign(MAT_TYPE, claims);
}
