import { accountPages } from './pages/account.ts';
import { decisionPages } from './pages/decision.ts';
import { entryPages } from './pages/entries.ts';
import { evidencePages } from './pages/evidence.ts';
import { exportPages } from './pages/export.ts';
import { keyPages } from './pages/keys.ts';
import { logPages } from './pages/log.ts';
import { mandatePages } from './pages/mandates.ts';
import { overviewPages } from './pages/overview.ts';
import { passkeyPages } from './pages/passkeys.ts';
import { preferencePages } from './pages/preferences.ts';
import { signInPages } from './pages/sign-in.ts';
import { signUpPages } from './pages/sign-up.ts';
import { unbuiltPages } from './pages/unbuilt.ts';
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
  ...keyPages,
  ...evidencePages,
  ...entryPages,
  ...exportPages,
  ...logPages,
  ...decisionPages,
  ...unbuiltPages,
];
