import type { Invocation } from '../invocation.ts';
import { newSystem, stopOnSignal } from '../supervisor/run-system.ts';
import { runDemo } from './demo.ts';

/** `mandate up`: runs the whole system until Ctrl-C or SIGTERM; with `demo`, until the demo is over. */
export async function runUp(invocation: Invocation, options: { readonly demo?: true }): Promise<void> {
  if (options.demo === true) return await runDemo(invocation);
  const system = newSystem(invocation, invocation.io.environment);
  const stopped = stopOnSignal(invocation, system);
  try {
    const addresses = await system.start();
    invocation.show({ text: JSON.stringify({ pid: process.pid, ...addresses }), value: {} }, () => welcome(addresses));
  } catch (error) {
    if (!system.stopping) {
      await system.stop();
      throw error;
    }
  }
  await stopped;
}

function welcome(addresses: Readonly<Record<string, string>>): string {
  return `
Mandate Gateway is running.

  proxy     ${addresses['proxy']}      agents call this in place of their target
  admin     ${addresses['admin']}      the \`mandate\` command talks to this
  metrics   ${addresses['proxy_metrics']} and ${addresses['control_metrics']}

Next, in another terminal:

  mandate signup --email you@example.com        (in a checkout: npm run -s mandate -- signup …)
  mandate --help                                what else there is

Ctrl-C stops everything.
`;
}
