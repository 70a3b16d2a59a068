import { hash } from 'node:crypto';
import { type SeededKey, type SeededLimits, seedKey } from '../../../bench/seed.ts';
import type { DecidedVerification, Problem } from '../../../control-plane/decisions/ask.ts';
import type { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { contextDigest } from '../../../core/action.ts';
import { formatDidKey } from '../../../core/did-key.ts';
import { newSeed, SigningKey } from '../../../core/ed25519.ts';
import { canonicalize } from '../../../core/jcs.ts';
import { createPresentation, newNonce, type Presentation, parsePresentation } from '../../../core/presentation.ts';
import { secretHash } from '../../../core/secret-token.ts';
import type { TypeId } from '../../../core/type-id.ts';
import type { VerifyAsk } from '../../../core/wire.ts';
import { type LaneFixture, laneFixture } from './lane-client.ts';

/** A lane fixture whose mandate has an agent with its own key, and an API key to verify with. */
export interface VerifyFixture extends LaneFixture {
  readonly agent: SigningKey;
  readonly did: string;
  readonly key: SeededKey;
}

/** Makes the fixture. */
export async function verifyFixture(
  t: Parameters<typeof laneFixture>[0],
  limits: SeededLimits = {},
): Promise<VerifyFixture> {
  const agent = new SigningKey(newSeed());
  const did = formatDidKey(agent.publicKey);
  const fixture = await laneFixture(t, { agent_did: did, ...limits });
  return { ...fixture, agent, did, key: await seedKey(fixture.sql, fixture.account) };
}

/** What a test says about a verification; the rest is a fresh presentation of 1.00 EUR to acme. */
export interface VerifyOptions {
  readonly amount?: number;
  readonly currency?: string;
  readonly type?: string;
  readonly counterparty?: string | null;
  readonly nonce?: string;
  readonly mandateId?: string;
  readonly verifier?: string;
  readonly signer?: SigningKey;
  readonly issuedAtMs?: number;
  readonly expiresAtMs?: number;
  /** Signed for another action than the one that is verified. */
  readonly signedAmount?: number;
  readonly problem?: string;
  readonly malformed?: boolean;
  readonly key?: SeededKey;
  readonly tokenHash?: string;
  readonly idempotencyKey?: string;
  readonly body?: string;
  readonly escalationToken?: string;
}

/** The ask that a proxy would send for such a request. */
export function verifyAsk({ account, agent, key }: VerifyFixture, options: VerifyOptions = {}): VerifyAsk {
  const action = {
    type: options.type ?? 'payments.create',
    amount_minor: options.amount ?? 100,
    currency: options.currency ?? 'EUR',
    counterparty: options.counterparty === undefined ? 'acme' : options.counterparty,
  };
  const now = Date.now();
  const document = createPresentation(
    {
      mandate_id: (options.mandateId ?? account.mandateId) as TypeId<'mdt'>,
      verifier: (options.verifier ?? account.accountId) as TypeId<'acc'>,
      ctx: contextDigest({ ...action, amount_minor: options.signedAmount ?? action.amount_minor }),
      nonce: options.nonce ?? newNonce(),
      issued_at_ms: options.issuedAtMs ?? now,
      expires_at_ms: options.expiresAtMs ?? now + 300_000,
    },
    options.signer ?? agent,
  );
  const parsed = parsePresentation(document) as Presentation;
  const { mandate_id, verifier, ctx, nonce, issued_at_ms, expires_at_ms, signer } = parsed;
  const nonce_hash = secretHash(`${mandate_id} ${nonce}`);
  const presented = { mandate_id, verifier, ctx, nonce_hash, issued_at_ms, expires_at_ms, signer };
  return {
    path: 'verify',
    token_hash: options.tokenHash ?? (options.key ?? key).tokenHash,
    address: '127.0.0.1',
    problem: options.problem ?? null,
    presentation: options.malformed ? null : { ...presented, document: canonicalize(document) },
    action,
    request_digest: hash('sha256', options.body ?? canonicalize(document), 'hex'),
    idempotency_key_hash: options.idempotencyKey === undefined ? null : secretHash(options.idempotencyKey),
    escalation_token_hash: options.escalationToken === undefined ? null : secretHash(options.escalationToken),
    budget_ms: 5_000,
  };
}

/** The answer as its caller reads it (interface.md, "Verify result"). */
export interface VerifyJson {
  readonly decision: string;
  readonly reasons?: readonly string[];
  readonly reason_text?: string;
  readonly consumption_token?: string;
  readonly mat_compact?: string;
  readonly escalation?: { readonly id: string; readonly expires_at: string };
  readonly receipt?: {
    readonly receipt_id: string;
    readonly decided_at: string;
    readonly evidence: { readonly seq: number; readonly hash: string };
  };
}

/** A decided verification with its answer parsed. */
export interface VerifiedResult extends DecidedVerification {
  readonly json: VerifyJson;
  readonly body: string;
}

/** Verifies through the lanes. */
export async function verify(
  fixture: VerifyFixture,
  options: VerifyOptions | VerifyAsk = {},
  lanes: Lanes = fixture.lanes,
): Promise<DecidedVerification | Problem> {
  const ask = 'path' in options ? options : verifyAsk(fixture, options);
  const key = ('key' in options ? options.key : undefined) ?? fixture.key;
  return await new Promise((answer) =>
    lanes.submit({
      kind: 'verify',
      accountId: fixture.account.accountId,
      key: { accountId: key.accountId, keyId: key.keyId },
      ask,
      deadlineMs: performance.now() + 5_000,
      answer,
    }),
  );
}

/** The answer of a verification as its caller reads it; throws where it came to no decision. */
export async function verified(
  fixture: VerifyFixture,
  options: VerifyOptions | VerifyAsk = {},
  lanes?: Lanes,
): Promise<VerifiedResult> {
  const answer = await verify(fixture, options, lanes);
  if (answer.answer === 'problem') throw new Error(`${answer.error}: ${answer.detail}`);
  const body = answer.text();
  return { ...answer, body, json: JSON.parse(body) as VerifyJson };
}
