import { ConfigError, type Environment } from '../../config/load.ts';
import { CliError, EXIT_FAILED, EXIT_USAGE } from '../cli-error.ts';
import type { Invocation } from '../invocation.ts';
import { System } from './system.ts';

/** The system of an environment. @throws CliError (usage) that names every wrong variable */
export function newSystem(invocation: Invocation, environment: Environment): System {
  try {
    return new System({ environment, onNote: (text) => invocation.note(text) });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(error.message, { code: 'configuration', exitCode: EXIT_USAGE });
  }
}

/** Resolves once a signal has stopped everything; a second signal ends it at once. */
export function stopOnSignal(invocation: Invocation, system: System): Promise<void> {
  return new Promise((resolve, reject) => {
    let asked = false;
    const onSignal = (): void => {
      if (asked) {
        system.kill();
        process.exit(EXIT_FAILED);
      }
      asked = true;
      invocation.note('\nStopping … (again to force)');
      system.stop().then(() => {
        invocation.note('Stopped.');
        resolve();
      }, reject);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
