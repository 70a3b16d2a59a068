import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { ASSETS_PREFIX } from './paths.ts';

/** The parts of the style sheet, in their order. */
const STYLES = [
  'tokens',
  'base',
  'layout',
  'forms',
  'tables',
  'components',
  'evidence',
  'charts',
  'mandates',
  'approvals',
  'print',
] as const;
const SCRIPTS = ['passkeys', 'export', 'enhance'] as const;
export type ScriptName = (typeof SCRIPTS)[number];

/** Characters of a hash in a name: 64 bits, which nobody needs to be unable to forge. */
const HASH_CHARACTERS = 16;
/** A name stands for what it holds, so it may be kept for as long as caches keep anything. */
const CACHE = 'public, max-age=31536000, immutable';

interface Asset {
  readonly path: string;
  readonly type: string;
  readonly bytes: Buffer;
}

const folder = new URL('./assets/', import.meta.url);

function asset(name: string, extension: string, type: string, bytes: Buffer): Asset {
  const path = `${ASSETS_PREFIX}${name}.${hash('sha256', bytes, 'hex').slice(0, HASH_CHARACTERS)}.${extension}`;
  return { path, type, bytes };
}

const style = asset(
  'console',
  'css',
  'text/css; charset=utf-8',
  Buffer.concat(STYLES.map((name) => readFileSync(new URL(`styles/${name}.css`, folder)))),
);
const icon = asset('icon', 'svg', 'image/svg+xml', readFileSync(new URL('icon.svg', folder)));
const scripts = SCRIPTS.map((name) =>
  asset(name, 'js', 'text/javascript; charset=utf-8', readFileSync(new URL(`${name}.js`, folder))),
);
const byPath = new Map([style, icon, ...scripts].map((one) => [one.path, one]));

/** Where the console's style sheet is. */
export const STYLE_PATH = style.path;
/** Where its icon is. */
export const ICON_PATH = icon.path;

/** Where a script is. */
export function scriptPath(name: ScriptName): string {
  return scripts[SCRIPTS.indexOf(name)]?.path ?? '';
}

/** GET /console/assets/…: what pages load, the same for everybody. */
export function registerAssets(app: FastifyInstance): void {
  app.get(`${ASSETS_PREFIX}:name`, { config: { public: true } }, async (request, reply) => {
    const { name } = request.params as { readonly name: string };
    const found = byPath.get(`${ASSETS_PREFIX}${name}`);
    if (found === undefined) throw new ProblemError('not_found', 'There is nothing at this path.');
    return reply.header('cache-control', CACHE).type(found.type).send(found.bytes);
  });
}
