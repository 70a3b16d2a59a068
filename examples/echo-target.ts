import type { ActResult, Outcome } from './client/act-under-mandate.ts';
import type { Allow } from './client/interface.ts';
import type { Action } from './client/presentation.ts';

// Stands for the system that an agent acts on: the sandbox's echo, which answers what it received and does nothing.
// A real agent pays, orders or deletes here.

/** Acts at the echo target. Throws where nobody can say whether it happened. */
export async function echoTarget(url: string, action: Action, allow: Allow): Promise<ActResult> {
  const response = await fetch(`${url}/api/sandbox/echo`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...action, receipt_id: allow.receipt.receipt_id }),
    signal: AbortSignal.timeout(10_000),
  });
  await response.body?.cancel();
  if (response.status >= 500) throw new Error(`the target answered ${response.status}: its outcome is not known`);
  return { done: response.ok, external_ref: `echo-${allow.receipt.receipt_id}` };
}

/** Says on standard output how it went; returns the exit code. */
export function report(url: string, result: Outcome): number {
  switch (result.outcome) {
    case 'done': {
      const { booked, remaining } = result.consumption;
      const { receipt, mat_compact } = result.allow;
      console.log(`Done and booked: ${booked.value} ${booked.currency}, ${remaining.value} left`);
      console.log(`Execution: ${result.execution.execution_id} ${result.execution.status}`);
      console.log(`Dossier: ${url}/api/v1/verifications/${receipt.receipt_id}/dossier?mat=${mat_compact}`);
      return 0;
    }
    case 'failed':
      console.log(`The target refused; what was reserved is released (${result.execution.execution_id}).`);
      return 1;
    case 'denied':
      console.log(`Denied: ${result.deny.reasons.join(', ')} ${result.deny.reason_text}`);
      return 1;
    case 'not_approved':
      console.log(`Not approved: ${result.escalation.id} is ${result.escalation.status}`);
      return 1;
  }
}
