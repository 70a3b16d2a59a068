import { accountPages } from './pages/account.ts';
import { approvalPages } from './pages/approvals.ts';
import { decisionPages } from './pages/decision.ts';
import { entryPages } from './pages/entries.ts';
import { evidencePages } from './pages/evidence.ts';
import { exportPages } from './pages/export.ts';
import { toolPages } from './pages/gateway-tools.ts';
import { gatewayPages } from './pages/gateways.ts';
import { keyPages } from './pages/keys.ts';
import { logPages } from './pages/log.ts';
import { mandatePages } from './pages/mandates.ts';
import { overviewPages } from './pages/overview.ts';
import { passkeyPages } from './pages/passkeys.ts';
import { preferencePages } from './pages/preferences.ts';
import { reconcilePages } from './pages/reconcile.ts';
import { settingsPages } from './pages/settings.ts';
import { signInPages } from './pages/sign-in.ts';
import { signUpPages } from './pages/sign-up.ts';
import { stopPages } from './pages/stop.ts';
import { toolImportPages } from './pages/tool-import.ts';
import { toolMappingPages } from './pages/tool-mapping.ts';
import { webhookPages } from './pages/webhooks.ts';
import type { ConsoleRoute } from './visit.ts';

/** Every page of the console, one file per noun; how to add one is in docs/console.md. */
export const CONSOLE_ROUTES: readonly ConsoleRoute[] = [
  ...signUpPages,
  ...signInPages,
  ...accountPages,
  ...passkeyPages,
  ...preferencePages,
  ...overviewPages,
  ...mandatePages,
  ...stopPages,
  ...gatewayPages,
  ...toolPages,
  ...toolMappingPages,
  ...toolImportPages,
  ...keyPages,
  ...approvalPages,
  ...reconcilePages,
  ...settingsPages,
  ...webhookPages,
  ...evidencePages,
  ...entryPages,
  ...exportPages,
  ...logPages,
  ...decisionPages,
];
