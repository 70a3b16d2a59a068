import type { DossierVerdict } from '../core/dossier-check.ts';
import type { ClaimName, ClaimResult } from '../core/dossier-claims.ts';

/** How the verdict is told to people, on the page and by the command. */
export const VERDICT_TEXTS: Readonly<Record<DossierVerdict, { readonly title: string; readonly text: string }>> = {
  accepted: {
    title: 'Accepted',
    text: 'All that must hold was checked with the keys you pinned, and holds.',
  },
  rejected: {
    title: 'Rejected',
    text: 'Something in this file does not hold. Do not rely on any of it.',
  },
  incomplete: {
    title: 'Not proven',
    text: 'Nothing contradicts this file, but what would prove it is missing: pin the keys of the service.',
  },
};

/** A result in a word or two. */
export const RESULT_WORDS: Readonly<Record<ClaimResult, string>> = {
  ok: 'Holds',
  failed: 'Fails',
  not_checked: 'Not checked',
};

/** What each claim is about. */
export const CLAIM_TITLES: Readonly<Record<ClaimName, string>> = {
  form: 'File',
  seal: 'Seal of the dossier',
  tree_head: 'Signed tree head',
  receipt: 'Receipt',
  mat: 'Token of the decision (MAT)',
  decision: 'Decision made again',
  mandate: 'Mandate as it stood',
  action: 'Action',
  presentation: "Agent's signature",
  agent: "The mandate's agent",
  escalation: 'Escalation and approver',
  consumption: 'Consumption',
  execution: 'Execution',
  entry: 'Entry in the log',
  chain: 'Order of the entries',
  checkpoint: 'Checkpoint',
  witness: 'Witness',
  timestamp: 'Timestamp',
  keys: 'Keys in the file',
};
