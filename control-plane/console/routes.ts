import { accountPages } from './pages/account.ts';
import { toolPages } from './pages/gateway-tools.ts';
import { gatewayPages } from './pages/gateways.ts';
import { keyPages } from './pages/keys.ts';
import { mandatePages } from './pages/mandates.ts';
import { overviewPages } from './pages/overview.ts';
import { passkeyPages } from './pages/passkeys.ts';
import { preferencePages } from './pages/preferences.ts';
import { signInPages } from './pages/sign-in.ts';
import { signUpPages } from './pages/sign-up.ts';
import { toolImportPages } from './pages/tool-import.ts';
import { toolMappingPages } from './pages/tool-mapping.ts';
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
  ...gatewayPages,
  ...toolPages,
  ...toolMappingPages,
  ...toolImportPages,
  ...keyPages,
  ...unbuiltPages,
];
