import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { approve, type EscalationRecord, reject } from '../../escalations/store.ts';
import { problemText } from '../errors.ts';
import { readForm } from '../form.ts';
import type { FormState } from '../parts/form-parts.ts';
import { notice } from '../parts/page-parts.ts';
import { idOf } from '../path-id.ts';
import { APPROVALS_PATH } from '../paths.ts';
import { FACTOR_FIELD, takeFactor } from '../session.ts';
import { type Answer, type PageAnswer, type SignedInVisit, seeOther } from '../visit.ts';
import type { Words } from '../words.ts';
import { cardPage, existing } from './approval-card.ts';
import { approvalFactorMs, REASON_MAX_CHARACTERS } from './approval-form.ts';
import { CODE_MAX_CHARACTERS } from './sign-in.ts';

function answerInput({ approvals: text }: Words) {
  return z.strictObject({
    answer: z.enum(['approve', 'reject'], text.answerProblem),
    reason: z
      .string()
      .trim()
      .transform((given) => given.replaceAll('\r\n', '\n'))
      .refine((given) => given.length <= REASON_MAX_CHARACTERS && given.isWellFormed(), text.reasonProblem)
      .refine((given) => !given.includes('\0'), text.reasonProblem)
      .optional(),
    [FACTOR_FIELD]: z.string().trim().max(CODE_MAX_CHARACTERS).optional(),
  });
}

/**
 * Takes a person's yes or no: once, whoever else answers at the same moment. Whether it still waits is looked at before
 * the code, which is not to be spent on what is over.
 *
 * The escalation's token is not in the answer: whoever waits for it asks for it
 * (docs/design/0030-a-token-reaches-no-browser.md).
 */
export async function answer(visit: SignedInVisit): Promise<Answer> {
  const { deps, session, words } = visit;
  const record = await existing(visit, idOf(visit, 'esc'));
  if (record.status !== 'pending') return await lost(visit, record);
  const read = readForm(visit, answerInput(words));
  if (!read.ok) return await cardPage(visit, record, { state: read.state, status: 422 });
  const refused = await factorRefused(visit, record, read.state, read.value[FACTOR_FIELD]);
  if (refused !== null) return refused;
  const { id } = record;
  const given = { escalationId: id, decidedBy: session.accountId, reason: read.value.reason || null };
  const yes = read.value.answer === 'approve';
  const settlement = yes
    ? await approve(deps.commands, deps.custody, session.accountId, given)
    : await reject(deps.commands, session.accountId, given);
  if (!settlement.taken) return await lost(visit, await existing(visit, id));
  deps.escalationChanged?.(session.accountId, id);
  return seeOther(`${APPROVALS_PATH}/${id}`);
}

/** The card with what somebody else, or the clock, decided first. */
function lost(visit: SignedInVisit, record: EscalationRecord): Promise<PageAnswer> {
  return cardPage(visit, record, { status: 409, above: notice('warn', visit.words.approvals.lost) });
}

/** The card again where the second factor is neither fresh nor shown; null: go on. */
async function factorRefused(
  visit: SignedInVisit,
  record: EscalationRecord,
  state: FormState,
  code: string | undefined,
): Promise<PageAnswer | null> {
  const { problems, wrongCode } = visit.words.accounts;
  try {
    if (await takeFactor(visit, code, approvalFactorMs(visit.deps))) return null;
    const errors = { [FACTOR_FIELD]: code === undefined || code === '' ? problems.code : wrongCode };
    return await cardPage(visit, record, { state: { ...state, errors }, status: 422 });
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'locked_out') throw error;
    visit.reply.header('retry-after', error.retryAfterSeconds ?? 1);
    const above = notice('warn', problemText(visit.words, error));
    return await cardPage(visit, record, { state, status: error.status, above });
  }
}
