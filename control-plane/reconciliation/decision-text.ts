import type { UnknownOutcome } from './store.ts';

/** What a decision's evidence says that a person needs, as far as it can be read. */
export interface DecisionText {
  readonly action?: { readonly type?: string; readonly counterparty?: string } | null;
  readonly request?: Readonly<Record<string, unknown>>;
  readonly tool?: { readonly key?: string };
}

/** What the evidence says of the decision; nothing where it cannot be read, so that the rest can still be settled. */
export function decisionOf({ decision }: Pick<UnknownOutcome, 'decision'>): DecisionText {
  try {
    return JSON.parse(decision ?? '{}') as DecisionText;
  } catch {
    return {};
  }
}
