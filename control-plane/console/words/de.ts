import { accounts } from './de/accounts.ts';
import { approvals } from './de/approvals.ts';
import { denials } from './de/denials.ts';
import { entries } from './de/entries.ts';
import { errors } from './de/errors.ts';
import { evidence } from './de/evidence.ts';
import { gateways } from './de/gateways.ts';
import { keys } from './de/keys.ts';
import { mandates } from './de/mandates.ts';
import { notifications } from './de/notifications.ts';
import { overview } from './de/overview.ts';
import { reconcile } from './de/reconcile.ts';
import { service } from './de/service.ts';
import { shell } from './de/shell.ts';
import { stop } from './de/stop.ts';
import { tools } from './de/tools.ts';
import { wizard } from './de/wizard.ts';
import type { Words } from './en.ts';

/** All words of the console in German. */
export const de: Words = {
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
};
