import { accounts } from './en/accounts.ts';
import { denials } from './en/denials.ts';
import { entries } from './en/entries.ts';
import { errors } from './en/errors.ts';
import { evidence } from './en/evidence.ts';
import { keys } from './en/keys.ts';
import { mandates } from './en/mandates.ts';
import { overview } from './en/overview.ts';
import { shell } from './en/shell.ts';
import type { Translated } from './translated.ts';

/** All words of the console in English, by noun; every other language has the same. */
export const en = { shell, errors, accounts, overview, mandates, keys, evidence, entries, denials } as const;
export type Words = Translated<typeof en>;
