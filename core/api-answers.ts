import { z } from 'zod';
import { contextDigestField, currencyField, typeIdPattern } from './body-fields.ts';
import { ESCALATION_STATES } from './decide.ts';
import { DENIAL_CODES, type DenialCode, type DenialName } from './denial-codes.ts';
import { PROBLEMS, type ProblemCode } from './errors.ts';
import { NONCE_MAX_CHARACTERS, NONCE_MIN_CHARACTERS } from './limits.ts';
import { MANDATE_STATES } from './mandate.ts';
import type { SecretPrefix } from './secret-token.ts';
import type { TypeIdPrefix } from './type-id.ts';

/*
 * The answers of the public API as schemas: what GET /api/openapi.json describes, and what tests hold each real answer
 * to. Objects are open: a version of the API may get further members, which a client ignores.
 */

const id = (prefix: TypeIdPrefix, description: string) =>
  z
    .string()
    .regex(new RegExp(typeIdPattern(prefix)))
    .meta({ description });
const secret = (prefix: SecretPrefix, description: string) =>
  z
    .string()
    .regex(new RegExp(`^${prefix}_[A-Za-z0-9_-]{43}$`))
    .meta({ description });
const time = (description: string) =>
  z
    .string()
    .regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/)
    .meta({ format: 'date-time', description });
const jws = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/)
    .meta({ description });
const amount = (description: string) => z.number().min(0).meta({ description });
const month = z
  .string()
  .regex(/^[0-9]{4}-[0-9]{2}$/)
  .meta({ description: "A month in the mandate's time zone." });
const note = z.string().meta({ description: 'Words for people.' });
const custody = z.literal('custodial');
const denialCode = z.enum(DENIAL_CODES.map(([code]) => code) as [DenialCode, ...DenialCode[]]);
const receiptId = id('rcp', 'The receipt of the decision: where it stands in the evidence.');

const evidence = z
  .object({
    seq: z.int().min(0),
    hash: z.string().regex(/^[0-9a-f]{64}$/),
  })
  .meta({ description: "The entry in the account's chain of evidence." });

const sha256Hex = (description: string) =>
  z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .meta({ description });

/** A signed tree head of an account's evidence (contract §10). */
export const treeHeadAnswer = z.object({
  account_id: id('acc', 'The account whose evidence it is.'),
  size: z.int().min(0).meta({ description: 'How many entries it covers.' }),
  root: sha256Hex('The root of their Merkle tree (RFC 6962 §2.1).'),
  at: time("The database's time of signing."),
  receipt: jws('The same, signed with ES256 (typ sth+jwt); its key is in the JWKS.'),
  checkpoint: z.string().meta({ description: 'The same as a signed note (C2SP tlog-checkpoint).' }),
  origin: z.string().meta({ description: "The checkpoint's first line, and the name of its key." }),
  verifier_key: z.string().meta({ description: 'The key of the checkpoint: name+id+base64 (C2SP signed-note).' }),
});

const seq = z.int().min(0);

/** The file of POST /api/v1/evidence/export in its JSON form (core/evidence-export.ts). */
export const evidenceExportAnswer = z.object({
  format: z.literal('mandate-evidence-export'),
  version: z.literal(1),
  account: id('acc', 'The account whose evidence it is.'),
  issuer: z.string().meta({ description: 'The service.' }),
  from_seq: seq.meta({ description: 'The first entry.' }),
  to_seq: seq.meta({ description: 'The last entry.' }),
  count: z.int().min(1).meta({ description: 'How many entries there are.' }),
  prev: sha256Hex('The hash of the entry before the first one; zeros before entry 0.'),
  edge: z.array(z.string()).meta({ description: 'The right edge of the Merkle tree before the first entry, in hex.' }),
  entries: z.array(
    z.object({
      account: id('acc', 'The account.'),
      seq,
      id: z.string(),
      kind: z.string(),
      at: time("The database's time."),
      prev: sha256Hex('The hash of the entry before.'),
      body: z.unknown().meta({ description: 'What happened; its members depend on the kind.' }),
    }),
  ),
  size: z.int().min(1).meta({ description: 'The entries that the root covers: all up to the last one here.' }),
  root: sha256Hex('The root over them (RFC 6962 §2.1).'),
  receipt: jws('What is here, signed with ES256 (typ evidence-export+jwt); its key is in the JWKS.'),
  timestamp: z.string().optional().meta({ description: 'An RFC 3161 token over the root, in base64.' }),
});

/** A presentation (contract §3). */
export const presentationAnswer = z
  .strictObject({
    type: z.literal('MandatePresentation'),
    mandate_id: id('mdt', 'The mandate that the agent acts under.'),
    verifier: id('acc', 'The presentation_verifier of the mandate.'),
    ctx: contextDigestField.nullable(),
    nonce: z.string().regex(new RegExp(`^[A-Za-z0-9_-]{${NONCE_MIN_CHARACTERS},${NONCE_MAX_CHARACTERS}}$`)),
    issued_at: z.string().meta({ format: 'date-time' }),
    expires_at: z.string().meta({ format: 'date-time', description: 'At most 5 minutes after issued_at.' }),
    proof: z.strictObject({
      type: z.literal('DataIntegrityProof'),
      cryptosuite: z.literal('eddsa-jcs-2022'),
      created: z.string().meta({ format: 'date-time' }),
      verificationMethod: z.string().regex(/^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]+#z6Mk[1-9A-HJ-NP-Za-km-z]+$/),
      proofPurpose: z.literal('authentication'),
      domain: z.string().meta({ description: 'The verifier again.' }),
      challenge: z.string().meta({ description: 'The nonce again.' }),
      proofValue: z.string().regex(/^z[1-9A-HJ-NP-Za-km-z]+$/),
    }),
  })
  .meta({
    description:
      'What an agent signs: a W3C Data Integrity proof, Ed25519. It allows at most once. Unknown members are MD-101.',
  });

/** The answer of POST /api/v1/agents/present, and of the sandbox's. */
export const presentAnswer = z.object({ presentation: presentationAnswer, custody, note });

const decisionReceipt = z.object({
  receipt_id: receiptId,
  decided_at: time('When it was decided, by the clock of the database.'),
  ctx: contextDigestField,
  evidence,
});

/** The answers of POST /api/v1/verify by their decision (interface.md, "Verify result"). */
export const verifyAllow = z.object({
  decision: z.literal('allow'),
  consumption_token: secret('ctk', 'Books what is reserved (also the reservation_token of an execution).'),
  receipt: decisionReceipt,
  latency_ms: z.number().min(0).optional().meta({ description: 'In the sandbox only.' }),
  mat_compact: jws('The decision as an ES256 token (typ mat+jwt), for 10 minutes.'),
});
export const verifyDeny = z.object({
  decision: z.literal('deny'),
  reasons: z.array(denialCode).length(1),
  reason_text: z.string(),
  receipt: decisionReceipt,
});
const escalationOpened = z.object({
  id: id('esc', 'To ask GET /api/v1/escalations/{id} about.'),
  expires_at: time('When it is denied unless somebody approved it.'),
});
export const verifyEscalate = z.object({
  decision: z.literal('escalate'),
  escalation: escalationOpened,
  receipt: decisionReceipt,
});
export const verifyAnswer = z.discriminatedUnion('decision', [verifyAllow, verifyDeny, verifyEscalate]).meta({
  discriminator: {
    propertyName: 'decision',
    mapping: { allow: 'VerifyAllow', deny: 'VerifyDeny', escalate: 'VerifyEscalate' },
  },
});

/** The answer of POST /api/v1/consumptions. */
export const consumptionAnswer = z.object({
  consumption_id: id('con', 'The consumption.'),
  mandate_id: id('mdt', 'The mandate that it counts against.'),
  booked: z.object({ value: amount('What counts for good.'), currency: currencyField }),
  remaining: z.object({ value: amount('What is left of the month.'), currency: currencyField, period: month }),
  receipt: z.object({ receipt_id: receiptId, recorded_at: time('When it was booked.'), evidence }),
});

/** The answer of POST /api/v1/executions. */
export const executionAnswer = z.object({
  execution_id: id('exe', 'The report.'),
  receipt_id: receiptId,
  status: z.enum(['erfolgreich', 'fehlgeschlagen', 'teilweise', 'abgebrochen']),
});

/** The answer of GET /api/v1/mandates/<id>/status. */
export const mandateStatusAnswer = z.object({
  mandate_id: id('mdt', 'The mandate.'),
  status: z.enum(MANDATE_STATES),
  limits: z.object({
    scope: z.array(z.string()).min(1).meta({ description: 'Action types, or prefixes that end in .*' }),
    amount_limit_per_action: amount('The most that one action may be.'),
    amount_limit_per_month: amount('The most of a month.'),
    escalation_threshold: amount('What is above it needs an approval; null: nothing does.').nullable(),
    currency: currencyField,
    counterparties: z.array(z.string()).meta({ description: 'Those that are allowed; empty: any.' }),
    valid_until: time('When it expires; null: it does not.').nullable(),
    max_uses: z.int().min(1).nullable(),
    uses: z.int().min(0),
    time_zone: z.string().meta({ description: 'The IANA time zone that months are counted in.' }),
  }),
  agent_did: z
    .string()
    .regex(/^(?:did:key:z6Mk[1-9A-HJ-NP-Za-km-z]+)?$/)
    .meta({ description: 'The did:key of an agent that signs itself; empty where the service holds the key.' }),
  presentation_verifier: id('acc', 'What presentations must name as verifier.'),
  usage: z.object({
    month,
    booked: amount('What counts for good.'),
    reserved: amount('What was allowed and not booked yet.'),
    remaining: amount('What is left of the month.'),
    resets_at: time('When the next month begins.'),
  }),
  credential: jws('The mandate as a W3C verifiable credential (typ vc+jwt), while it is active.').optional(),
});

/** The answer of GET /api/v1/escalations/<id>. */
export const escalationAnswer = z.object({
  id: id('esc', 'The escalation.'),
  status: z.enum(ESCALATION_STATES),
  expires_at: time('When it is denied unless somebody approved it.'),
  escalation_token: secret('etk', 'Once it is approved, until it is used: send it with the same request.').optional(),
});

/** The answer of GET /api/v1/denial-codes. */
export const denialCodesAnswer = z.object({
  denial_code_version: z.int().min(1),
  codes: z.array(
    z.object({
      code: denialCode,
      name: z.enum(DENIAL_CODES.map(([, name]) => name) as [DenialName, ...DenialName[]]),
      order: z.int().min(1).meta({ description: 'The place in the order of checks; the first that fails is told.' }),
      description: z.string(),
    }),
  ),
});

/** The answers of the sandbox (contract §8). */
export const sandboxMandateAnswer = z.object({
  mandate_id: id('mdt', 'The mandate.'),
  agent_secret: secret('ags', "The agent's secret, shown once."),
  status: z.literal('active'),
  expires_at: time('When it ends, a day later.'),
});
export const sandboxApproval = z.object({
  id: id('esc', 'The escalation.'),
  status: z.literal('approved'),
  escalation_token: secret('etk', 'To be sent with the same request.'),
});
export const sandboxRejection = z.object({ id: id('esc', 'The escalation.'), status: z.literal('rejected') });
export const echoAnswer = z.object({
  method: z.string(),
  path: z.string(),
  query: z.string().meta({ description: 'What follows the question mark, as it was sent.' }),
  headers: z.record(z.string(), z.string()).meta({ description: 'By lower-case name; credentials are ***.' }),
  body: z.string(),
  body_encoding: z.enum(['utf-8', 'base64']),
});

/** The gateway's own answers (contract §7); an allow is the target's answer. */
export const gatewayDeny = z.object({
  error: z.literal('service_deny'),
  reasons: z.array(denialCode).length(1),
  reason_text: z.string(),
  receipt_id: receiptId,
});
export const gatewayEscalate = z.object({
  error: z.literal('service_escalate'),
  escalation: escalationOpened,
  receipt_id: receiptId,
});
export const gatewayRefusal = z.discriminatedUnion('error', [gatewayDeny, gatewayEscalate]).meta({
  discriminator: {
    propertyName: 'error',
    mapping: { service_deny: 'GatewayDeny', service_escalate: 'GatewayEscalate' },
  },
});

const coordinate = z.string().regex(/^[A-Za-z0-9_-]{43}$/);

/** GET /.well-known/jwks.json (RFC 7517 §5). */
export const jwksAnswer = z.object({
  keys: z.array(
    z.object({
      kty: z.literal('EC'),
      crv: z.literal('P-256'),
      x: coordinate,
      y: coordinate,
      kid: z.string().min(1),
      alg: z.literal('ES256'),
      use: z.literal('sig'),
    }),
  ),
});

/** Every error that is no decision (RFC 9457, contract §8). */
export const problemAnswer = z
  .object({
    type: z.string().regex(/^urn:mandate-gateway:problem:[a-z_]+$/),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string(),
    error: z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    request_id: z.string().meta({ description: 'The X-Request-Id of the answer.' }),
    fields: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
  })
  .meta({ description: 'An error (RFC 9457); `error` is stable, `detail` is for people.' });
