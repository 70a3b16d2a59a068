import { z } from 'zod';
import { readForm } from '../form.ts';
import { nextPath } from '../paths.ts';
import { openPost, seeOther } from '../visit.ts';
import { isLanguage } from '../words.ts';

/** A year: a choice stays until it is another one. */
const KEPT_SECONDS = 365 * 24 * 60 * 60;

const choice = z.strictObject({
  language: z.string().refine(isLanguage).optional(),
  theme: z.enum(['system', 'light', 'dark']).optional(),
  next: z.string().optional(),
});

/** Language and colours: kept in this browser, for whoever uses it. */
export const preferencePages = [
  openPost('/preferences', async (visit) => {
    const { deps, reply } = visit;
    const read = readForm(visit, choice);
    if (read.ok && read.value.language !== undefined) {
      deps.cookies.set(reply, 'language', read.value.language, KEPT_SECONDS);
    }
    if (read.ok && read.value.theme !== undefined) deps.cookies.set(reply, 'theme', read.value.theme, KEPT_SECONDS);
    return seeOther(nextPath(read.ok ? read.value.next : undefined));
  }),
];
