import { accounts } from './en/accounts.ts';
import { approvals } from './en/approvals.ts';
import { denials } from './en/denials.ts';
import { entries } from './en/entries.ts';
import { errors } from './en/errors.ts';
import { evidence } from './en/evidence.ts';
import { gateways } from './en/gateways.ts';
import { keys } from './en/keys.ts';
import { mandates } from './en/mandates.ts';
import { notifications } from './en/notifications.ts';
import { overview } from './en/overview.ts';
import { reconcile } from './en/reconcile.ts';
import { service } from './en/service.ts';
import { shell } from './en/shell.ts';
import { stop } from './en/stop.ts';
import { tools } from './en/tools.ts';
import { wizard } from './en/wizard.ts';
import type { Translated } from './translated.ts';

/** All words of the console in English, by noun; every other language has the same. */
export const en = {
  shell,
  errors,
  accounts,
  overview,
  mandates,
  wizard,
  stop,
  keys,
  gateways,
  tools,
  approvals,
  reconcile,
  notifications,
  evidence,
  entries,
  denials,
  service,
} as const;
export type Words = Translated<typeof en>;
