import { logKey, logOrigin, signCheckpoint } from '../../core/checkpoint.ts';
import { SigningKey } from '../../core/ed25519.ts';
import { verifierKeyText } from '../../core/signed-note.ts';
import { CUSTODIAL_NOTE } from '../custody/routes.ts';
import {
  EXAMPLE_ACTION,
  EXAMPLE_CTX,
  EXAMPLE_EVIDENCE,
  EXAMPLE_ISSUER,
  EXAMPLE_PRESENTATION,
  EXAMPLE_TREE_HEAD_FACTS,
  exampleSecret,
  exampleTime,
  IDS,
} from './example-facts.ts';
import {
  EXAMPLE_CREDENTIAL,
  EXAMPLE_JWK,
  EXAMPLE_MAT,
  EXAMPLE_NEXT_JWK,
  EXAMPLE_TREE_HEAD_RECEIPT,
} from './example-tokens.ts';

/*
 * The examples of the API's description, all about one mandate and one action: the presentation and the tokens verify,
 * and a test holds each of them to its schema.
 */

const RECEIPT = {
  receipt_id: IDS.receipt,
  decided_at: exampleTime(0),
  ctx: EXAMPLE_CTX,
  evidence: EXAMPLE_EVIDENCE,
} as const;
const ESCALATION = { id: IDS.escalation, expires_at: exampleTime(10) } as const;
const DENIAL = {
  reasons: ['MD-302'],
  reason_text: '149.50 EUR is 49.50 above the limit of 100.00 per action.',
} as const;

export const PRESENT_REQUEST = { mandate_id: IDS.mandate, action: EXAMPLE_ACTION };
export const PRESENT_ANSWER = { presentation: EXAMPLE_PRESENTATION, custody: 'custodial', note: CUSTODIAL_NOTE };
export const VERIFY_REQUEST = { presentation: EXAMPLE_PRESENTATION, action: EXAMPLE_ACTION };
export const VERIFY_REQUEST_APPROVED = { ...VERIFY_REQUEST, escalation_token: exampleSecret('etk') };
export const VERIFY_ALLOW = {
  decision: 'allow',
  consumption_token: exampleSecret('ctk'),
  receipt: RECEIPT,
  mat_compact: EXAMPLE_MAT,
};
export const VERIFY_DENY = { decision: 'deny', ...DENIAL, receipt: RECEIPT };
export const VERIFY_ESCALATE = { decision: 'escalate', escalation: ESCALATION, receipt: RECEIPT };
export const ESCALATION_PENDING = { ...ESCALATION, id: IDS.escalation, status: 'pending' };
export const ESCALATION_APPROVED = {
  ...ESCALATION_PENDING,
  status: 'approved',
  escalation_token: exampleSecret('etk'),
};

export const CONSUMPTION_TOKEN_ONLY = { consumption_token: exampleSecret('ctk') };
export const CONSUMPTION_REQUEST = {
  ...CONSUMPTION_TOKEN_ONLY,
  final_amount: 47.2,
  currency: 'EUR',
  action_type: EXAMPLE_ACTION.type,
  counterparty: EXAMPLE_ACTION.counterparty,
  context_digest: EXAMPLE_CTX,
};
export const CONSUMPTION_ANSWER = {
  consumption_id: IDS.consumption,
  mandate_id: IDS.mandate,
  booked: { value: 47.2, currency: 'EUR' },
  remaining: { value: 952.8, currency: 'EUR', period: '2027-03' },
  receipt: {
    receipt_id: IDS.receipt,
    recorded_at: exampleTime(1),
    evidence: { ...EXAMPLE_EVIDENCE, seq: EXAMPLE_EVIDENCE.seq + 1 },
  },
};
export const EXECUTION_REQUEST = {
  reservation_token: exampleSecret('ctk'),
  outcome: 'erfolgreich',
  executed_amount: 47.2,
  executed_currency: 'EUR',
  external_ref: 'invoice 2027-0314',
};
export const EXECUTION_ANSWER = { execution_id: IDS.execution, receipt_id: IDS.receipt, status: 'erfolgreich' };

export const MANDATE_STATUS = {
  mandate_id: IDS.mandate,
  status: 'active',
  limits: {
    scope: ['payments.*'],
    amount_limit_per_action: 100,
    amount_limit_per_month: 1000,
    escalation_threshold: 50,
    currency: 'EUR',
    counterparties: ['acme-supplies'],
    valid_until: null,
    max_uses: null,
    uses: 1,
    time_zone: 'Europe/Berlin',
  },
  agent_did: '',
  presentation_verifier: IDS.account,
  usage: {
    month: '2027-03',
    booked: 47.2,
    reserved: 0,
    remaining: 952.8,
    resets_at: '2027-03-31T22:00:00.000Z',
  },
  credential: EXAMPLE_CREDENTIAL,
};

export const SANDBOX_MANDATE_REQUEST = {
  scope: ['payments.create'],
  amount_limit_per_action: 100,
  amount_limit_per_month: 1000,
  escalation_threshold: 50,
};
export const SANDBOX_MANDATE = {
  mandate_id: IDS.mandate,
  agent_secret: exampleSecret('ags'),
  status: 'active',
  expires_at: exampleTime(24 * 60),
};
export const SANDBOX_PRESENTATION_REQUEST = {
  mandate_id: IDS.mandate,
  agent_secret: exampleSecret('ags'),
  action: EXAMPLE_ACTION,
};
export const SANDBOX_APPROVAL = {
  id: IDS.escalation,
  status: 'approved',
  escalation_token: exampleSecret('etk'),
};
export const SANDBOX_REJECTION = { id: IDS.escalation, status: 'rejected' };
export const ECHO = {
  method: 'POST',
  path: '/api/sandbox/echo',
  query: 'n=1',
  headers: { authorization: '***', 'content-type': 'application/json' },
  body: '{"order":4711}',
  body_encoding: 'utf-8',
};

export const GATEWAY_DENY = { error: 'service_deny', ...DENIAL, receipt_id: IDS.receipt };
export const GATEWAY_ESCALATE = { error: 'service_escalate', escalation: ESCALATION, receipt_id: IDS.receipt };
export const JWKS = { keys: [EXAMPLE_NEXT_JWK, EXAMPLE_JWK] };

const LOG_SIGNER = new SigningKey(Buffer.alloc(32, 'example '));
const LOG_KEY = logKey(logOrigin(EXAMPLE_ISSUER, IDS.account), LOG_SIGNER.publicKey);
export const CHECKPOINT = signCheckpoint(EXAMPLE_TREE_HEAD_FACTS, LOG_KEY, (message) => LOG_SIGNER.sign(message));
export const TREE_HEAD = {
  account_id: IDS.account,
  size: EXAMPLE_TREE_HEAD_FACTS.size,
  root: EXAMPLE_TREE_HEAD_FACTS.root,
  at: EXAMPLE_TREE_HEAD_FACTS.at,
  receipt: EXAMPLE_TREE_HEAD_RECEIPT,
  checkpoint: CHECKPOINT,
  origin: LOG_KEY.name,
  verifier_key: verifierKeyText(LOG_KEY),
};
