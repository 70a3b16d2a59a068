import type { Allow, Consumption, Deny, Escalation, Execution } from './interface.ts';
import type { MandateClient } from './mandate-client.ts';
import type { Action, Presentation } from './presentation.ts';

/** How an act went, as far as that is known for sure. */
export interface ActResult {
  readonly done: boolean;
  /** The target's name for it. */
  readonly external_ref: string;
  /** What it cost in the end, where that is less than was allowed. */
  readonly final_amount?: number;
}

export type Outcome =
  | {
      readonly outcome: 'done';
      readonly allow: Allow;
      readonly consumption: Consumption;
      readonly execution: Execution;
    }
  | { readonly outcome: 'failed'; readonly allow: Allow; readonly execution: Execution }
  | { readonly outcome: 'denied'; readonly deny: Deny }
  | { readonly outcome: 'not_approved'; readonly escalation: Escalation };

/**
 * Verifies, waits for a human where one is asked, acts only on `allow`, then books and reports.
 *
 * An `act` that throws has an outcome that nobody knows: nothing is booked, released or reported, so that the amount
 * stays counted in full. Throws what the client and `act` throw.
 */
export async function actUnderMandate(
  client: MandateClient,
  { presentation, action }: { readonly presentation: Presentation; readonly action: Action },
  act: (allow: Allow) => Promise<ActResult>,
  say: (line: string) => void = () => {},
): Promise<Outcome> {
  let result = await client.verify({ presentation, action });
  if (result.decision === 'escalate') {
    const { id, expires_at } = result.escalation;
    say(`A human is asked: ${id}, until ${expires_at}`);
    const escalation = await client.waitForEscalation(id);
    if (escalation.escalation_token === undefined) return { outcome: 'not_approved', escalation };
    // The same presentation: an escalation does not spend it.
    result = await client.verify({ presentation, action, escalation_token: escalation.escalation_token });
    if (result.decision === 'escalate') return { outcome: 'not_approved', escalation };
  }
  if (result.decision === 'deny') return { outcome: 'denied', deny: result };
  say(`Allowed: receipt ${result.receipt.receipt_id}`);
  const { done, external_ref, final_amount = action.amount.value } = await act(result);
  const report = {
    reservation_token: result.consumption_token,
    executed_currency: action.amount.currency,
    external_ref,
  };
  if (!done) {
    const execution = await client.execute({ ...report, outcome: 'fehlgeschlagen', executed_amount: 0 });
    return { outcome: 'failed', allow: result, execution };
  }
  const consumption = await client.consume({
    consumption_token: result.consumption_token,
    final_amount,
    currency: action.amount.currency,
    action_type: action.type,
    ...(action.counterparty === undefined ? {} : { counterparty: action.counterparty }),
    ...(presentation.ctx === null ? {} : { context_digest: presentation.ctx }),
  });
  const execution = await client.execute({ ...report, outcome: 'erfolgreich', executed_amount: final_amount });
  return { outcome: 'done', allow: result, consumption, execution };
}
