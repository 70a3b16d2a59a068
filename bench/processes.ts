import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** V8 flags of `mandate up` (cli/supervisor): what is measured is what is shipped. */
const NODE_FLAGS = ['--max-semi-space-size=8', '--max-old-space-size=256'];

export interface StartedProcess {
  readonly child: ChildProcess;
  /** Where it listens, by what for. */
  readonly at: Readonly<Record<string, string>>;
}

/** Starts a process of the system (`proxy/main`, `control-plane/main`) and waits until it says where it listens. */
export async function startProcess(entry: string, env: NodeJS.ProcessEnv): Promise<StartedProcess> {
  const path = fileURLToPath(new URL(`../${entry}.ts`, import.meta.url));
  const cache = fileURLToPath(new URL('../node_modules/.cache/mandate', import.meta.url));
  const child = fork(path, [], {
    env: { NODE_COMPILE_CACHE: cache, MALLOC_ARENA_MAX: '1', ...process.env, ...env },
    execArgv: NODE_FLAGS,
    stdio: 'inherit',
  });
  const at = await new Promise<Record<string, string>>((resolve, reject) => {
    child.on('message', (message: { type?: string; addresses?: Record<string, string>; message?: string }) => {
      if (message.type === 'ready') resolve(message.addresses ?? {});
      if (message.type === 'failed') reject(new Error(message.message));
    });
    child.once('exit', (code) => reject(new Error(`${entry} ended with ${code}`)));
  });
  return { child, at };
}
