import { accounts } from './de/accounts.ts';
import { denials } from './de/denials.ts';
import { entries } from './de/entries.ts';
import { errors } from './de/errors.ts';
import { evidence } from './de/evidence.ts';
import { keys } from './de/keys.ts';
import { mandates } from './de/mandates.ts';
import { overview } from './de/overview.ts';
import { shell } from './de/shell.ts';
import type { Words } from './en.ts';

/** All words of the console in German. */
export const de: Words = { shell, errors, accounts, overview, mandates, keys, evidence, entries, denials };
