import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AgentKeys } from '../../core/agent-keys.ts';
import { ProblemError } from '../../core/errors.ts';
import { IN_FLIGHT_MAX, VERIFY_BODY_MAX_BYTES } from '../../core/limits.ts';
import { type Presentation, parsePresentation, verifyPresentation } from '../../core/presentation.ts';
import { parseBody } from '../../core/request-body.ts';
import { secretHash } from '../../core/secret-token.ts';
import { readVerifyRequest, type VerifyRequest } from '../../core/verify-request.ts';
import type { VerifyAnswer, VerifyAsk } from '../../core/wire.ts';
import { ControlPlaneAway } from '../control-link.ts';
import type { DecisionClient } from '../decision-client.ts';
import { newRequestId, sendResult, sendUndecided } from '../http/answers.ts';
import { BodyReader, bodyKind } from '../http/body.ts';
import { answerFailure } from '../http/failure.ts';
import {
  addressOf,
  bearerSecret,
  escalationTokenHash,
  idempotencyKeyHash,
  type RequestHead,
  readHead,
} from '../http/head.ts';
import { NewKeys, type NewKeysRate } from './new-keys.ts';
import { Turns } from './turns.ts';

export const VERIFY_PATH = '/api/v1/verify';

export interface VerifierDependencies {
  readonly decisions: DecisionClient;
  readonly decisionTimeoutMs: number;
  readonly newAgentKeys?: NewKeysRate | undefined;
  readonly logError: (error: unknown, message: string) => void;
}

/** What a request says before its body is read. */
interface Opened {
  readonly head: RequestHead;
  readonly tokenHash: string;
  readonly keyHash: string | null;
}

function ignore(): void {}

/**
 * POST /api/v1/verify: checks what needs no state (form, signature) and asks the control plane for the decision.
 *
 * Source: interface.md "POST /api/v1/verify", contract §§3, 4, 8.
 */
export class Verifier {
  readonly #deps: VerifierDependencies;
  readonly #keys = new AgentKeys();
  readonly #signerOf = (method: string) => this.#keys.signerOf(method);
  readonly #newKeys: NewKeys;
  readonly #turns = new Turns();
  #inFlight = 0;

  constructor(dependencies: VerifierDependencies) {
    this.#deps = dependencies;
    this.#newKeys = new NewKeys(dependencies.newAgentKeys);
  }

  /** How many requests are being answered. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Answers one request; never throws. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const requestId = newRequestId();
    this.#inFlight += 1;
    response.on('error', ignore);
    response.on('close', () => {
      this.#inFlight -= 1;
    });
    this.#answer(request, response, requestId).catch((error: unknown) =>
      answerFailure(this.#deps, { request, response, requestId }, 'mak', error),
    );
  }

  async #answer(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    if (this.#inFlight > IN_FLIGHT_MAX) {
      throw new ProblemError('overloaded', 'This proxy has too many requests in flight.', { retryAfterSeconds: 1 });
    }
    const opened = open(request);
    if (request.method !== 'POST') {
      response.setHeader('allow', 'POST');
      throw new ProblemError('method_not_allowed', 'This path accepts POST.');
    }
    const bytes = await readBytes(request, response, opened);
    await this.#turns.next();
    const asked = readVerifyRequest(jsonOf(opened.head, bytes));
    const answer = await this.#ask(this.#askOf(request, opened, bytes, asked));
    if (answer.answer === 'result') sendResult(response, answer, requestId);
    else sendUndecided(response, answer, requestId);
  }

  #askOf(request: IncomingMessage, opened: Opened, bytes: Buffer, asked: VerifyRequest): VerifyAsk {
    const parsed = parsePresentation(asked.presentation, this.#signerOf);
    const { type, amount_minor, currency, counterparty } = asked.action;
    if (currency === null) throw new Error('an action that was read has a currency');
    return {
      path: 'verify',
      token_hash: opened.tokenHash,
      address: addressOf(request),
      problem: parsed.problem ?? this.#signatureProblem(parsed),
      presentation: parsed.problem === null ? presented(parsed) : null,
      action: { type, amount_minor, currency, counterparty: counterparty ?? null },
      request_digest: hash('sha256', bytes, 'hex'),
      idempotency_key_hash: opened.keyHash,
      escalation_token_hash: escalationTokenHash(asked.escalationToken),
      budget_ms: this.#deps.decisionTimeoutMs,
    };
  }

  #signatureProblem(presentation: Presentation): string | null {
    if (!this.#keys.knows(presentation.signer) && !this.#newKeys.take(performance.now())) {
      const detail = 'Too many agents are new here at once; ask again.';
      throw new ProblemError('overloaded', detail, { retryAfterSeconds: 1 });
    }
    try {
      return verifyPresentation(presentation, this.#keys);
    } catch (error) {
      throw new ControlPlaneAway(`a signature could not be verified: ${String(error)}`, false);
    }
  }

  #ask(ask: VerifyAsk): Promise<VerifyAnswer> {
    return new Promise((resolve, reject) => this.#deps.decisions.verify(ask, { resolve, reject }));
  }
}

function open(request: IncomingMessage): Opened {
  if (request.httpVersionMajor !== 1) throw new ProblemError('malformed_request', 'HTTP/1.1 is spoken here.');
  if (request.url !== VERIFY_PATH) throw new ProblemError('malformed_request', 'This path takes no query.');
  const head = readHead(request.rawHeaders);
  if (head.repeated !== null) throw new ProblemError('repeated_header', `The header ${head.repeated} is repeated.`);
  if (head.trailer) throw new ProblemError('trailers_refused', 'Send the request without trailers.');
  const key = bearerSecret(head.authorization, 'mak');
  if (key === null) throw new ProblemError('unauthenticated', 'Send `Authorization: Bearer mak_…` with an API key.');
  return { head, tokenHash: secretHash(key), keyHash: idempotencyKeyHash(head.idempotencyKey) };
}

async function readBytes(request: IncomingMessage, response: ServerResponse, opened: Opened): Promise<Buffer> {
  const { head, tokenHash } = opened;
  if (bodyKind(head) !== 'json') {
    throw new ProblemError('unsupported_media_type', 'Send a body with `content-type: application/json`.');
  }
  const reader = new BodyReader(request, tokenHash);
  response.on('close', () => reader.release());
  const bytes = await new Promise<Buffer | null>((resolve, reject) => {
    reader.read(VERIFY_BODY_MAX_BYTES, { resolve, reject });
  });
  if (bytes === null) {
    throw new ProblemError('payload_too_large', `The body may have at most ${VERIFY_BODY_MAX_BYTES} bytes here.`);
  }
  if (request.rawTrailers.length > 0) {
    throw new ProblemError('trailers_refused', 'Send the request without trailers.');
  }
  return bytes;
}

function jsonOf(head: RequestHead, bytes: Buffer) {
  const body = parseBody(bodyKind(head), bytes);
  if (body.kind === 'json') return body.node;
  throw new ProblemError('malformed_json', 'The body is empty: send a JSON object.');
}

function presented(presentation: Presentation): NonNullable<VerifyAsk['presentation']> {
  const { mandate_id, verifier, ctx, nonce, issued_at_ms, expires_at_ms, signer, document } = presentation;
  return {
    mandate_id,
    verifier,
    ctx,
    // With the mandate, so that no agent can spend a nonce that another made up.
    nonce_hash: secretHash(`${mandate_id} ${nonce}`),
    issued_at_ms,
    expires_at_ms,
    signer,
    document,
  };
}
