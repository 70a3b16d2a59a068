import { accounts } from './en/accounts.ts';
import { errors } from './en/errors.ts';
import { gateways } from './en/gateways.ts';
import { keys } from './en/keys.ts';
import { mandates } from './en/mandates.ts';
import { overview } from './en/overview.ts';
import { shell } from './en/shell.ts';
import { tools } from './en/tools.ts';
import type { Translated } from './translated.ts';

/** All words of the console in English, by noun; every other language has the same. */
export const en = { shell, errors, accounts, overview, mandates, keys, gateways, tools } as const;
export type Words = Translated<typeof en>;
