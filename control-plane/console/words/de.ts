import { accounts } from './de/accounts.ts';
import { errors } from './de/errors.ts';
import { gateways } from './de/gateways.ts';
import { keys } from './de/keys.ts';
import { mandates } from './de/mandates.ts';
import { overview } from './de/overview.ts';
import { shell } from './de/shell.ts';
import { tools } from './de/tools.ts';
import type { Words } from './en.ts';

/** All words of the console in German. */
export const de: Words = { shell, errors, accounts, overview, mandates, keys, gateways, tools };
