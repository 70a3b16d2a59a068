import { sameHash } from '../../core/secret-token.ts';
import type { GatewayAnswer, RateState } from '../../core/wire.ts';
import { type AccountFacts, answerKey } from './account-facts.ts';
import { type Problem, problem } from './ask.ts';
import type { Recording } from './record.ts';

/** A request under an idempotency key of a gateway instance or an API key; hashes and digest are hex. */
export interface KeyedRequest {
  readonly subjectId: string;
  readonly keyHash: string;
  readonly digest: string;
}

/** What an earlier request under the same key was answered, or why that cannot be told; null where there was none. */
export function earlierAnswer(
  state: AccountFacts,
  { subjectId, keyHash, digest }: KeyedRequest,
  rate: RateState,
): Problem | (GatewayAnswer & { readonly answer: 'replay' }) | null {
  const known = state.answers.get(answerKey(subjectId, keyHash));
  if (known === undefined) return null;
  const receipt = known.receiptId;
  if (!sameHash(known.requestDigest, digest)) {
    return problem('idempotency_mismatch', 'Another request was sent under this Idempotency-Key.', rate, receipt);
  }
  switch (known.state) {
    case 'in_flight': {
      const detail = 'The first request is still in flight; ask again later.';
      return problem('idempotency_in_flight', detail, rate, receipt, 1);
    }
    case 'unknown':
      return problem('outcome_unknown', 'What became of the first request is not known.', rate, receipt);
    case 'answered':
      break;
    default:
      throw new Error(`an idempotency state that is not known: ${String(known.state satisfies never)}`);
  }
  if (known.status === null || known.body === null) {
    return problem('idempotency_answer_too_large', 'The first answer was too large to keep.', rate, receipt);
  }
  const headers = known.headers.map(([name, value]): [string, string] => [name, value]);
  return { answer: 'replay', receipt_id: receipt, stored: { status: known.status, headers, body: known.body }, rate };
}

/** Keeps a key for 24 hours from now: with the answer (JSON text) where it is known already, else as in flight. */
export function keepKey(
  { facts, recording }: { readonly facts: AccountFacts; readonly recording: Recording },
  { subjectId, keyHash, digest }: KeyedRequest,
  receiptId: string,
  answer: string | null = null,
): void {
  const { accountId, nowMs } = facts.head;
  const body = answer === null ? null : Buffer.from(answer, 'utf8').toString('base64');
  facts.answers.set(answerKey(subjectId, keyHash), {
    requestDigest: digest,
    receiptId,
    state: body === null ? 'in_flight' : 'answered',
    status: body === null ? null : 200,
    headers: [],
    body,
  });
  recording.statement(
    `insert into idempotency_answers (account_id, subject_id, key_hash, request_digest, receipt_id, state, status,
       headers, body, created_at, expires_at)
     values ($1, $2, decode($3, 'hex'), decode($4, 'hex'), $5, $6, $7::text::integer, $8::text::jsonb,
       decode($9, 'base64'), ms_time($10), ms_time($10) + interval '24 hours')
     on conflict (account_id, subject_id, key_hash) do update set request_digest = excluded.request_digest,
       receipt_id = excluded.receipt_id, state = excluded.state, status = excluded.status, headers = excluded.headers,
       body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at
       where idempotency_answers.expires_at <= excluded.created_at`,
    [
      accountId,
      subjectId,
      keyHash,
      digest,
      receiptId,
      body === null ? 'in_flight' : 'answered',
      body === null ? null : '200',
      body === null ? null : '[]',
      body,
      String(nowMs),
    ],
  );
}
