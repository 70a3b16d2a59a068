/** Loaded before each test file: without it every file would strip and compile hundreds of modules anew. */
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/mandate', import.meta.url)));
