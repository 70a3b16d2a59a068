/** What candidates have in common. */
interface OfAccount {
  readonly account_id: string;
}

/**
 * Acts on candidates account by account. One account's failure does not keep the others from their turn: the first
 * error is thrown after all had it.
 */
export async function byAccount<T extends OfAccount>(
  candidates: readonly T[],
  act: (accountId: string, candidates: readonly T[]) => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const [accountId, own] of Map.groupBy(candidates, (one) => one.account_id)) {
    await act(accountId, own).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
