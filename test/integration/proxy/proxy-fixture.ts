import type { Test } from 'tap';
import type { ToolMapping } from '../../../core/tool-mapping.ts';
import type { TargetConfig } from '../../../core/wire.ts';
import { type ProxyOptions, type RunningProxy, startProxy } from '../../../proxy/server.ts';
import { FakeControlPlane, INTERNAL_SECRET, tool } from './fake-control-plane.ts';
import { Target } from './target.ts';

/** A proxy between a scripted control plane and a target with a ledger; all of it ends with the test. */
export interface ProxyFixture {
  readonly port: number;
  readonly proxy: RunningProxy;
  readonly control: FakeControlPlane;
  readonly target: Target;
  /** What was logged as an error or a warning. */
  readonly errors: readonly unknown[];
  /** Makes the control plane hold a mapping for a tool's name or template. */
  map(pattern: string, mapping: ToolMapping): void;
  /** Lets allowed requests go elsewhere from now on. */
  pointTo(url: string, credential?: TargetConfig['credential']): void;
}

/** How long a decision may take in tests where it does not come at all. */
export const DECISION_TIMEOUT_MS = 300;
const SHUTDOWN_MS = 1_000;

export async function proxyFixture(t: Test, overrides: Partial<ProxyOptions> = {}): Promise<ProxyFixture> {
  const target = await new Target().start();
  const control = new FakeControlPlane(target.url);
  await control.start();
  const errors: unknown[] = [];
  const proxy = await startProxy({
    host: '127.0.0.1',
    port: 0,
    controlPlanes: [control.address],
    internalSecret: INTERNAL_SECRET,
    controlUrl: 'http://127.0.0.1:9',
    decisionTimeoutMs: 5_000,
    allowPrivateTargets: true,
    targetConnectTimeoutMs: 1_000,
    targetTimeoutMs: 10_000,
    shutdownTimeoutMs: SHUTDOWN_MS,
    logError: (error, message) => errors.push(error ?? message),
    ...overrides,
  });
  t.teardown(async () => {
    await proxy.close();
    await Promise.all([control.remove(), target.stop()]);
  });
  return {
    port: proxy.port,
    proxy,
    control,
    target,
    errors,
    map: (pattern, mapping) => {
      const update = tool(pattern, mapping);
      control.tools.set(update.key, update);
    },
    pointTo: (url, credential = null) => {
      control.target = { version: control.target.version + 1, url, credential };
    },
  };
}
