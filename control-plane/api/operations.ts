import type { ApiScope } from '../../core/api-scopes.ts';
import { typeIdPattern } from '../../core/body-fields.ts';
import type { ProblemCode } from '../../core/errors.ts';
import type { TypeIdPrefix } from '../../core/type-id.ts';
import { DENIAL_CODE_TABLE } from './denial-codes.ts';
import type { SchemaName } from './document-schemas.ts';
import { dossierOperations } from './dossier-operations.ts';
import { exampleSecret, IDS } from './example-facts.ts';
import * as examples from './examples.ts';
import { EXPORT } from './export-operation.ts';
import { type Access, DOCUMENT_METHODS, type Examples, type Operation, type Parameter } from './operation.ts';

const PUBLIC: Access = { kind: 'public' };
/** TRACE would show the way's own headers to whoever asks: the proxy lets none pass. */
const ANY_METHOD = DOCUMENT_METHODS.filter((method) => method !== 'trace');
const withKey = (scope: ApiScope, gatewayToken = false): Access => ({ kind: 'key', scope, gatewayToken });

/** What may go wrong with any request that is passed on to a control plane. */
const PASSED_ON: readonly ProblemCode[] = [
  'malformed_request',
  'ambiguous_path',
  'repeated_header',
  'rate_limited',
  'internal',
  'not_decidable',
];
const NEEDS_KEY: readonly ProblemCode[] = ['unauthenticated', 'insufficient_scope'];
const HAS_BODY: readonly ProblemCode[] = ['malformed_json', 'payload_too_large', 'unsupported_media_type', 'invalid'];

const json = (schema: SchemaName, given: Examples) => ({ type: 'application/json', schema, examples: given });

function idParameter(prefix: TypeIdPrefix, of: string, example: string): Parameter {
  const schema = { type: 'string', pattern: typeIdPattern(prefix) };
  return { name: 'id', in: 'path', required: true, description: `The identifier of ${of}.`, schema, example };
}

const header = (name: string, description: string, example: string, schema: object = {}): Parameter => ({
  ...{ name, in: 'header', required: false, description, example },
  schema: { type: 'string', ...schema },
});

const ESCALATION_ID = idParameter('esc', 'the escalation', IDS.escalation);

const DECIDING: readonly Operation[] = [
  {
    methods: ['post'],
    path: '/api/v1/agents/present',
    id: 'present',
    tag: 'Decisions',
    summary: 'Sign an intent with the key that the service holds',
    description:
      'Path 1: the service signs for an agent whose key it holds. It is no decision; pass the presentation unchanged ' +
      'to POST /api/v1/verify with the same action. A mandate whose agent signs for itself is a conflict.',
    access: withKey('agents:present'),
    body: json('PresentRequest', { intent: examples.PRESENT_REQUEST }),
    answers: [
      {
        status: '200',
        description: 'The presentation, valid for 5 minutes.',
        content: json('PresentAnswer', { presentation: examples.PRESENT_ANSWER }),
      },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, ...HAS_BODY, 'not_found', 'conflict'],
  },
  {
    methods: ['post'],
    path: '/api/v1/verify',
    id: 'verify',
    tag: 'Decisions',
    summary: 'Decide whether an agent may act',
    description:
      'Act only where the decision is allow. An allow reserves the amount in full and spends the presentation; a ' +
      'deny and an escalate do neither. After an approval, send the same request with the escalation_token.',
    access: withKey('verify'),
    parameters: [
      header('Idempotency-Key', 'One for each logical request, kept for 24 hours.', 'order-4711', {
        minLength: 1,
        maxLength: 255,
        pattern: '^[\\x21-\\x7e]+$',
      }),
    ],
    body: json('VerifyRequest', { first: examples.VERIFY_REQUEST, approved: examples.VERIFY_REQUEST_APPROVED }),
    answers: [
      {
        status: '200',
        description: 'The decision.',
        content: json('VerifyAnswer', {
          allow: examples.VERIFY_ALLOW,
          deny: examples.VERIFY_DENY,
          escalate: examples.VERIFY_ESCALATE,
        }),
        headers: ['X-Idempotent-Replay'],
      },
    ],
    problems: [
      ...PASSED_ON.filter((code) => code !== 'ambiguous_path'),
      ...([...NEEDS_KEY, ...HAS_BODY, 'trailers_refused', 'idempotency_mismatch', 'too_many_escalations'] as const),
      ...(['overloaded'] as const),
    ],
  },
  {
    methods: ['get'],
    path: '/api/v1/escalations/{id}',
    id: 'escalation',
    tag: 'Decisions',
    summary: 'Ask how an escalation stands',
    description:
      'For whoever waits for a human: with an API key, or with the gateway token of the very instance that asked.',
    access: withKey('verify', true),
    parameters: [ESCALATION_ID],
    answers: [
      {
        status: '200',
        description: 'How it stands, and its token once it is approved.',
        content: json('Escalation', { pending: examples.ESCALATION_PENDING, approved: examples.ESCALATION_APPROVED }),
      },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, 'not_found'],
  },
  {
    methods: ['get'],
    path: '/api/v1/denial-codes',
    id: 'denialCodes',
    tag: 'Decisions',
    summary: 'List the denial codes in check order',
    description: 'A code never changes its meaning.',
    access: PUBLIC,
    answers: [{ status: '200', description: 'The codes.', content: json('DenialCodes', { codes: DENIAL_CODE_TABLE }) }],
    problems: PASSED_ON,
  },
];

const BOOKING: readonly Operation[] = [
  {
    methods: ['post'],
    path: '/api/v1/consumptions',
    id: 'consume',
    tag: 'Bookings',
    summary: 'Book what an allowed action cost',
    description:
      'Frees what is not booked of the reservation. Without final_amount everything is booked. The same values again ' +
      'are answered the same, marked as a replay; other values are a conflict.',
    access: withKey('consumptions:write'),
    body: json('ConsumptionRequest', { full: examples.CONSUMPTION_REQUEST, token: examples.CONSUMPTION_TOKEN_ONLY }),
    answers: [
      {
        status: '200',
        description: 'What was booked, and what is left of the month.',
        content: json('ConsumptionAnswer', { booked: examples.CONSUMPTION_ANSWER }),
        headers: ['X-Idempotent-Replay'],
      },
    ],
    problems: [
      ...([...PASSED_ON, ...NEEDS_KEY, ...HAS_BODY, 'not_found', 'conflict', 'exceeds_authorised_amount'] as const),
      'overloaded',
    ],
  },
  {
    methods: ['post'],
    path: '/api/v1/executions',
    id: 'execute',
    tag: 'Bookings',
    summary: 'Report how an allowed action went',
    description:
      'fehlgeschlagen and abgebrochen release what was not booked. reservation_token is the consumption_token of the ' +
      'decision. The English names mean the same as the German ones, which the answer has.',
    access: withKey('executions:write'),
    body: json('ExecutionRequest', { done: examples.EXECUTION_REQUEST }),
    answers: [
      {
        status: '200',
        description: 'The report as it was recorded.',
        content: json('ExecutionAnswer', { done: examples.EXECUTION_ANSWER }),
        headers: ['X-Idempotent-Replay'],
      },
    ],
    problems: [
      ...([...PASSED_ON, ...NEEDS_KEY, ...HAS_BODY, 'not_found', 'conflict', 'exceeds_authorised_amount'] as const),
      'overloaded',
    ],
  },
  {
    methods: ['get'],
    path: '/api/v1/mandates/{id}/status',
    id: 'mandateStatus',
    tag: 'Mandates',
    summary: 'See how a mandate stands',
    description: 'Live, like every decision: nothing of it may be kept.',
    access: withKey('mandates:read'),
    parameters: [idParameter('mdt', 'the mandate', IDS.mandate)],
    answers: [
      {
        status: '200',
        description: 'Its limits, its agent, its state and what is left of the month.',
        content: json('MandateStatus', { active: examples.MANDATE_STATUS }),
      },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, 'not_found'],
  },
];

const tileParameter = (name: string, description: string, example: string, pattern: string): Parameter => ({
  ...{ name, in: 'path', required: true, description, example },
  schema: { type: 'string', pattern },
});

const TILE_NUMBER = '(?:x[0-9]{3}/)*[0-9]{3}(?:\\.p/[1-9][0-9]{0,2})?$';
const TILE_INDEX = tileParameter(
  'tile_index',
  'Its number in groups of three digits, all but the last behind an x, and .p/<width> where it is not full yet.',
  'x001/x234/067.p/8',
  `^${TILE_NUMBER}`,
);

const LOG: readonly Operation[] = [
  {
    methods: ['get'],
    path: '/api/v1/evidence/checkpoint',
    id: 'checkpoint',
    tag: 'Evidence',
    summary: "Get the latest checkpoint of the account's log",
    description: 'A signed note as C2SP tlog-checkpoint has it, which witnesses cosign and log tools verify.',
    access: withKey('evidence:read'),
    answers: [
      {
        status: '200',
        description: 'The checkpoint.',
        content: { type: 'text/plain', schema: 'text', examples: { checkpoint: examples.CHECKPOINT } },
      },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, 'conflict'],
  },
  {
    methods: ['get'],
    path: '/api/v1/evidence/tree-head',
    id: 'treeHead',
    tag: 'Evidence',
    summary: "Get the signed tree head of the account's evidence",
    description: 'The same tree head as an ES256 token and as a checkpoint, and the key of the checkpoint.',
    access: withKey('evidence:read'),
    answers: [
      { status: '200', description: 'The tree head.', content: json('TreeHead', { head: examples.TREE_HEAD }) },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, 'conflict'],
  },
  {
    methods: ['get'],
    path: '/api/v1/evidence/tile/{level}/{tile_index}',
    id: 'tile',
    tag: 'Evidence',
    summary: "Get a tile of hashes of the account's log",
    description: 'Up to 256 hashes of 32 bytes, as C2SP tlog-tiles has them; level 0 are the hashes of the entries.',
    access: withKey('evidence:read'),
    parameters: [tileParameter('level', 'The level of the tile.', '0', '^[0-6]$'), TILE_INDEX],
    answers: [
      {
        status: '200',
        description: 'The hashes, one behind the other.',
        content: { type: 'application/octet-stream', schema: 'bytes', examples: {} },
      },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, 'not_found', 'conflict'],
  },
  {
    methods: ['get'],
    path: '/api/v1/evidence/tile/entries/{tile_index}',
    id: 'entryBundle',
    tag: 'Evidence',
    summary: "Get the entries of a tile of the account's log",
    description:
      'Up to 256 entries as C2SP tlog-tiles bundles them: two bytes of length, then the canonical JSON. An entry of ' +
      'more than 65,535 bytes cannot be bundled, and is a conflict: export it instead.',
    access: withKey('evidence:read'),
    parameters: [TILE_INDEX],
    answers: [
      {
        status: '200',
        description: 'The entries, one behind the other.',
        content: { type: 'application/octet-stream', schema: 'bytes', examples: {} },
      },
    ],
    problems: [...PASSED_ON, ...NEEDS_KEY, 'not_found', 'conflict'],
  },
];

const sandboxAnswer = (verb: 'approve' | 'reject', schema: SchemaName, example: unknown): Operation => ({
  methods: ['post'],
  path: `/api/v1/sandbox/escalations/{id}/${verb}`,
  id: `sandbox${verb === 'approve' ? 'Approve' : 'Reject'}`,
  tag: 'Sandbox',
  summary: `${verb === 'approve' ? 'Approve' : 'Reject'} an escalation of a sandbox mandate`,
  description: 'In the sandbox whoever holds the agent secret is the principal as well.',
  access: PUBLIC,
  parameters: [ESCALATION_ID],
  body: json('SandboxAnswerRequest', { secret: { agent_secret: exampleSecret('ags') } }),
  answers: [{ status: '200', description: 'It is answered.', content: json(schema, { answered: example }) }],
  problems: [...PASSED_ON, ...HAS_BODY, 'not_found', 'conflict', 'overloaded'],
});

const SANDBOX: readonly Operation[] = [
  {
    methods: ['post'],
    path: '/api/v1/sandbox/mandates',
    id: 'sandboxMandate',
    tag: 'Sandbox',
    summary: 'Make a sandbox mandate',
    description: 'Active at once, for a day. Any API key with the scope verify verifies in it.',
    access: PUBLIC,
    body: json('SandboxMandateRequest', { mandate: examples.SANDBOX_MANDATE_REQUEST }),
    answers: [
      {
        status: '201',
        description: "The mandate, and its agent's secret, which is shown once.",
        content: json('SandboxMandate', { mandate: examples.SANDBOX_MANDATE }),
      },
    ],
    problems: [...PASSED_ON, ...HAS_BODY, 'overloaded'],
  },
  {
    methods: ['post'],
    path: '/api/v1/sandbox/presentations',
    id: 'sandboxPresentation',
    tag: 'Sandbox',
    summary: 'Sign an intent under a sandbox mandate',
    description: 'Without an action its ctx is null, and it may be verified with any one, once.',
    access: PUBLIC,
    body: json('SandboxPresentationRequest', { intent: examples.SANDBOX_PRESENTATION_REQUEST }),
    answers: [
      {
        status: '200',
        description: 'The presentation, valid for 5 minutes.',
        content: json('PresentAnswer', { presentation: examples.PRESENT_ANSWER }),
      },
    ],
    problems: [...PASSED_ON, ...HAS_BODY, 'not_found', 'conflict'],
  },
  sandboxAnswer('approve', 'SandboxApproval', examples.SANDBOX_APPROVAL),
  sandboxAnswer('reject', 'SandboxRejection', examples.SANDBOX_REJECTION),
  {
    methods: ANY_METHOD,
    path: '/api/sandbox/echo',
    id: 'echo',
    tag: 'Sandbox',
    summary: 'Be told what was received',
    description: 'A neutral target without side effects, for any body. Credentials are masked.',
    access: PUBLIC,
    body: { type: '*/*', schema: 'any', examples: {} },
    answers: [{ status: '200', description: 'What was received.', content: json('Echo', { post: examples.ECHO }) }],
    problems: [...PASSED_ON, 'payload_too_large', 'unsupported_media_type'],
  },
];

const GATEWAY: Operation = {
  methods: ANY_METHOD,
  path: '/api/gateway/http/{tool_path}',
  id: 'gateway',
  tag: 'Gateway',
  summary: 'Send a request through the gateway',
  description:
    'Path 3: what the mandate allows is forwarded to the target under tool_path (which may hold slashes), byte for ' +
    'byte, and its answer streams back. The first request of a path makes a tool that is denied until it is mapped ' +
    'to an action type. Clients that know only a host send the path at the root, with the same token.',
  access: { kind: 'gateway' },
  parameters: [
    {
      ...{ name: 'tool_path', in: 'path', required: true, example: 'payments' },
      description: "The target's path in its canonical form.",
      schema: { type: 'string', minLength: 1 },
    },
    header('Idempotency-Key', 'Forwarded at most once for each key and instance.', 'order-4711', {
      minLength: 1,
      maxLength: 255,
    }),
    header('X-Service-Escalation-Token', 'The token of an approved escalation.', exampleSecret('etk')),
    header('Prefer', 'wait=<seconds>, 600 at most: hold the request until a human has answered.', 'wait=120'),
  ],
  body: { type: '*/*', schema: 'any', examples: {} },
  answers: [
    {
      status: '403',
      description: 'Denied, or waiting for an approval; nothing was forwarded.',
      content: json('GatewayRefusal', { deny: examples.GATEWAY_DENY, escalate: examples.GATEWAY_ESCALATE }),
      headers: ['X-Service-Decision', 'X-Service-Receipt'],
    },
    {
      status: 'default',
      description: 'Allowed: the answer of the target, whatever its status, where X-Service-Decision is allow.',
      content: null,
      headers: ['X-Service-Decision', 'X-Service-Receipt', 'X-Idempotent-Replay'],
    },
  ],
  problems: [
    ...(['malformed_json', 'malformed_form', 'malformed_request', 'ambiguous_path', 'ambiguous_query'] as const),
    ...(['repeated_header', 'trailers_refused', 'unauthenticated', 'idempotency_in_flight'] as const),
    ...([
      'idempotency_answer_too_large',
      'payload_too_large',
      'unsupported_media_type',
      'idempotency_mismatch',
    ] as const),
    ...(['rate_limited', 'too_many_escalations', 'too_many_waiting', 'internal', 'target_unreachable'] as const),
    ...(['target_lost', 'target_invalid_answer', 'outcome_unknown', 'not_decidable', 'overloaded'] as const),
    'target_timeout',
  ],
};

const SERVICE: readonly Operation[] = [
  {
    methods: ['get'],
    path: '/.well-known/jwks.json',
    id: 'jwks',
    tag: 'Service',
    summary: 'Get the public keys that the service signs with',
    description: 'ES256: the next, the current and all retired ones (RFC 7517).',
    access: PUBLIC,
    answers: [
      {
        status: '200',
        description: 'The keys.',
        content: { type: 'application/jwk-set+json', schema: 'Jwks', examples: { keys: examples.JWKS } },
      },
    ],
    problems: PASSED_ON,
  },
  {
    methods: ['get'],
    path: '/api/openapi.json',
    id: 'openapi',
    tag: 'Service',
    summary: 'Get this document',
    description: 'OpenAPI 3.1, generated from the schemas that the server validates with.',
    access: PUBLIC,
    answers: [
      {
        status: '200',
        description: 'The document.',
        content: { type: 'application/json', schema: 'any', examples: {} },
      },
    ],
    problems: PASSED_ON,
  },
  {
    methods: ['get'],
    path: '/api/docs',
    id: 'docs',
    tag: 'Service',
    summary: 'Read this document as a page',
    description: 'HTML without scripts.',
    access: PUBLIC,
    answers: [
      { status: '200', description: 'The page.', content: { type: 'text/html', schema: 'text', examples: {} } },
    ],
    problems: PASSED_ON,
  },
];

/** Every operation of the public API, the gateway path among them. */
export const OPERATIONS: readonly Operation[] = [
  ...DECIDING,
  ...BOOKING,
  ...LOG,
  EXPORT,
  ...dossierOperations(PASSED_ON, NEEDS_KEY),
  ...SANDBOX,
  GATEWAY,
  ...SERVICE,
];
