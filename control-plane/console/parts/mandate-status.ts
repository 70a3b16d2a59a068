import type { Html } from '../html.ts';
import type { Words } from '../words.ts';
import { badge, type Tone } from './page-parts.ts';

type Status = keyof Words['mandates']['statuses'];
const TONES: Readonly<Record<Status, Tone>> = {
  draft: 'info',
  active: 'good',
  suspended: 'warn',
  revoked: 'bad',
  expired: 'plain',
  consumed: 'plain',
};

/** A mandate's state as a badge. */
export function statusBadge(words: Words, status: string): Html {
  return badge(isStatus(status) ? TONES[status] : 'plain', statusName(words, status));
}

/** A mandate's state in a word. */
export function statusName({ mandates }: Words, status: string): string {
  return isStatus(status) ? mandates.statuses[status] : status;
}

type Verdict = keyof Words['mandates']['verdicts'];
const VERDICT_TONES: Readonly<Record<Verdict, Tone>> = {
  allow: 'good',
  deny: 'bad',
  escalate: 'warn',
  not_asked: 'plain',
};

/** What was decided, as a badge, with the code of a denial. */
export function verdictBadge({ mandates }: Words, decision: string, code: string | null): Html {
  const known = Object.hasOwn(VERDICT_TONES, decision) ? (decision as Verdict) : null;
  const said = known === null ? decision : mandates.verdicts[known];
  return badge(known === null ? 'plain' : VERDICT_TONES[known], code === null ? said : `${said} ${code}`);
}

function isStatus(status: string): status is Status {
  return Object.hasOwn(TONES, status);
}
