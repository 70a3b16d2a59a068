import { type Action, contextDigest } from '../../core/action.ts';
import { SigningKey } from '../../core/ed25519.ts';
import { type MandateTerms, mandateDigest } from '../../core/mandate.ts';
import type { CredentialFacts } from '../../core/mandate-credential.ts';
import type { MatFacts } from '../../core/mat.ts';
import { createPresentation } from '../../core/presentation.ts';
import { secretTokenOf } from '../../core/secret-token.ts';
import type { TreeHead } from '../../core/tree-head.ts';

/** What the examples of the API's description are about: one mandate, one action, one decision, at fixed times. */
export const IDS = {
  account: 'acc_01m3n8h3h0e9ht4g1k2q5v7x3c',
  mandate: 'mdt_01m3n8h3h0f2r9a6c4d8k1m5pz',
  receipt: 'rcp_01m3n8h3h0fy0s7w5b3n9t2j6e',
  escalation: 'esc_01m3n8h3h0e4v1z8q6y2x7g9hk',
  consumption: 'con_01m3n8h3h0fa3t5r7m9p1w4s6d',
  execution: 'exe_01m3n8h3h0e8c2b6f4j9n1k7qv',
} as const;

const START_MS = Date.UTC(2027, 2, 1, 9, 30);
const MINUTE_MS = 60_000;
/** A time of the examples, so many minutes after they begin. */
export const exampleTime = (minutes: number): string => new Date(START_MS + minutes * MINUTE_MS).toISOString();

const ACTION: Action = { type: 'payments.create', amount_minor: 4_950, currency: 'EUR', counterparty: 'acme-supplies' };

/** The same action as a caller writes it. */
export const EXAMPLE_ACTION = {
  type: ACTION.type,
  amount: { value: 49.5, currency: 'EUR' },
  counterparty: 'acme-supplies',
} as const;
export const EXAMPLE_CTX = contextDigest(ACTION);

const TERMS: MandateTerms = {
  mandate_id: IDS.mandate,
  version: 1,
  scope: ['payments.*'],
  currency: 'EUR',
  per_action: 10_000,
  per_month: 100_000,
  escalation_threshold: 5_000,
  counterparties: ['acme-supplies'],
  agent_did: '',
  time_zone: 'Europe/Berlin',
  valid_until: null,
  max_uses: null,
};

export const EXAMPLE_EVIDENCE = { seq: 42, hash: 'c0ffee'.repeat(10).padEnd(64, '0') } as const;

/** A secret of an example: 32 bytes that nobody drew, so that no example is one that works. */
export const exampleSecret = (prefix: Parameters<typeof secretTokenOf>[0]): string =>
  secretTokenOf(prefix, Buffer.alloc(32, 'example '));

/** A presentation of the action that really verifies; its key is no secret. */
export const EXAMPLE_PRESENTATION = createPresentation(
  {
    mandate_id: IDS.mandate,
    verifier: IDS.account,
    ctx: EXAMPLE_CTX,
    nonce: Buffer.alloc(16, 'example ').toString('base64url'),
    issued_at_ms: START_MS,
    expires_at_ms: START_MS + 5 * MINUTE_MS,
  },
  new SigningKey(Buffer.alloc(32, 'example ')),
);

/** What the tokens of example-tokens.ts were signed over. */
export const EXAMPLE_ISSUER = 'https://mandate.example';
export const EXAMPLE_MAT_FACTS: MatFacts = {
  accountId: IDS.account,
  mandateId: IDS.mandate,
  mandateDigest: mandateDigest(TERMS),
  receiptId: IDS.receipt,
  decidedAtMs: START_MS,
  decision: 'allow',
  ctx: EXAMPLE_CTX,
  action: ACTION,
  evidence: EXAMPLE_EVIDENCE,
};
export const EXAMPLE_TREE_HEAD_FACTS: TreeHead = {
  accountId: IDS.account,
  size: 43,
  root: 'decade'.repeat(10).padEnd(64, '0'),
  at: exampleTime(1),
};
export const EXAMPLE_CREDENTIAL_FACTS: CredentialFacts = { accountId: IDS.account, terms: TERMS, issuedAtMs: START_MS };
