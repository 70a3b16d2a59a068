#!/usr/bin/env node
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// Beside the installation, not in the temporary directory: other users can write there.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/mandate', import.meta.url)));

const { runCli } = await import('./program.ts');
const { processIo } = await import('./io.ts');

// A reader that had enough (`mandate … | head`) is no error, and must not end a running `up`.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

process.exitCode = await runCli(process.argv.slice(2), processIo());
