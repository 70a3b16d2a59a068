import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { pageHtml } from './page-html.ts';

// In a checkout these are TypeScript, in an installed package JavaScript.
const own = (name: string): string => fileURLToPath(new URL(`./${name}${extname(import.meta.url)}`, import.meta.url));

/**
 * The checker as one HTML file: the very functions of `mandate dossier check`, bundled here and now.
 *
 * @throws Error where a module of the checker needs more of Node than the page has a stand-in for
 */
export async function makeDossierPage(): Promise<string> {
  const [crypto, buffer] = [own('node-crypto'), own('node-buffer')];
  const { outputFiles } = await build({
    entryPoints: [own('browser')],
    bundle: true,
    write: false,
    format: 'iife',
    platform: 'browser',
    target: 'es2024',
    minify: true,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'silent',
    alias: { 'node:crypto': crypto, 'node:buffer': buffer },
    inject: [buffer],
  });
  const [script] = outputFiles;
  if (script === undefined) throw new Error('esbuild made nothing');
  return pageHtml(script.text.trim());
}
