import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';
import { isFunctionLikeDeclaration, isStringLiteral } from 'typescript/unstable/ast/is';
import { API } from 'typescript/unstable/sync';
import { parse } from 'yaml';
import { settings, settingsTable } from '../config/schema.ts';
import { DENIAL_CODES } from '../core/denial-codes.ts';
import { PROBLEMS } from '../core/errors.ts';
import * as limits from '../core/limits.ts';

const LINES_OF_A_FUNCTION = 70;
const LINES_OF_A_FILE = 500;
const CHARACTERS_OF_A_LINE = 120;

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NOT_OURS = new Set(['node_modules', '.git', '.tap', 'data', 'dist', 'coverage']);

/** The folders of code, and what each may import besides itself. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  config: ['core'],
  proxy: ['core', 'config'],
  'control-plane': ['core', 'config'],
  cli: ['core', 'config'],
  examples: [],
  bench: ['core', 'config', 'control-plane', 'examples', 'proxy', 'cli', 'test'],
  test: ['core', 'config', 'control-plane', 'examples', 'proxy', 'cli', 'bench'],
};

function filesBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name)) return [];
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

const files = filesBelow('.');
const code = files.filter((path) => path.endsWith('.ts'));
const folderOf = (path: string): string => path.split('/')[0] ?? '';

/** What the syntax of one file says about it. */
interface Facts {
  readonly imports: readonly string[];
  readonly longFunctions: readonly string[];
  readonly anys: readonly number[];
}

function factsOf(source: SourceFile): Facts {
  const [imports, longFunctions, anys]: [string[], string[], number[]] = [[], [], []];
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line + 1;
  const visit = (node: Node): void => {
    if (node.kind === SyntaxKind.AnyKeyword) anys.push(lineOf(node.getStart(source)));
    if (isStringLiteral(node) && importsBy(node.parent)) imports.push(node.text);
    if (isFunctionLikeDeclaration(node)) {
      const [from, to] = [lineOf(node.getStart(source)), lineOf(node.end)];
      if (to - from + 1 > LINES_OF_A_FUNCTION) longFunctions.push(`line ${from}: ${to - from + 1} lines`);
    }
    node.forEachChild(visit);
  };
  visit(source);
  return { imports, longFunctions, anys };
}

/** Whether a string below this node names a module: a static import or export, `import()` or `import('…').Type`. */
function importsBy(parent: Node): boolean {
  if (parent.kind === SyntaxKind.ImportDeclaration || parent.kind === SyntaxKind.ExportDeclaration) return true;
  if (parent.kind === SyntaxKind.LiteralType) return parent.parent.kind === SyntaxKind.ImportType;
  if (parent.kind !== SyntaxKind.CallExpression) return false;
  let called = false;
  parent.forEachChild((child) => {
    called ||= child.kind === SyntaxKind.ImportKeyword;
  });
  return called;
}

function readSyntax(): Map<string, Facts> {
  const api = new API({ cwd: ROOT });
  try {
    const [project] = api.updateSnapshot({ openProject: join(ROOT, 'tsconfig.json') }).getProjects();
    if (project === undefined) throw new Error('tsconfig.json makes no project');
    return new Map(
      code.map((path) => {
        const source = project.program.getSourceFile(join(ROOT, path));
        if (source === undefined) throw new Error(`tsconfig.json leaves ${path} out, so nothing checks its types`);
        return [path, factsOf(source)];
      }),
    );
  } finally {
    api.close();
  }
}

const syntax = readSyntax();

/** The imports of each file of ours that are files of ours, as paths from the root. */
const graph = new Map(
  Array.from(syntax, ([path, { imports }]) => {
    const own = imports.filter((name) => name.startsWith('.'));
    return [path, own.map((name) => relative(ROOT, join(ROOT, dirname(path), name)))] as const;
  }),
);

t.test(
  'no function is longer than a screen, no file longer than can be kept in mind, no line wider than a page',
  async (t) => {
    for (const [path, { longFunctions }] of syntax) t.same(longFunctions, [], path);
    for (const path of files.filter((path) => /\.(ts|sql|sh)$|^\.ci\//.test(path) && basename(path) !== 'schema.sql')) {
      const lines = read(path).split('\n');
      t.ok(lines.length - 1 <= LINES_OF_A_FILE, `${path} has ${lines.length - 1} lines`);
      const wide = lines.flatMap((line, at) => ([...line].length > CHARACTERS_OF_A_LINE ? [at + 1] : []));
      t.same(wide, [], `${path}: lines wider than ${CHARACTERS_OF_A_LINE}`);
    }
  },
);

t.test('no type is any, and no check of types or lint is switched off for a line', async (t) => {
  const suppressed = new RegExp(['@ts-', 'biome-'].map((tool) => `${tool}(ignore|nocheck|expect-error)`).join('|'));
  for (const [path, { anys }] of syntax) {
    t.same(anys, [], path);
    t.notMatch(read(path), suppressed, path);
  }
});

t.test('files and folders have names that say what they hold, in kebab-case', async (t) => {
  const vague = new Set(['shared', 'common', 'utils', 'util', 'helpers', 'helper', 'types', 'misc', 'lib', 'index']);
  for (const path of files.filter((path) => folderOf(path) in MAY_IMPORT || folderOf(path) === 'migrations')) {
    const names = path.split('/').map((name) => name.replace(/(\.test)?\.[a-z]+$/, ''));
    for (const name of names) t.notOk(vague.has(name), `${path}: ${name}`);
    if (extname(path) === '.ts') t.match(names.join('/'), /^[a-z0-9]+(-[a-z0-9]+)*(\/[a-z0-9]+(-[a-z0-9]+)*)*$/, path);
  }
});

t.test(
  'imports point one way, name their files in full, and only control-plane/db knows the database client',
  async (t) => {
    for (const [path, { imports }] of syntax) {
      const folder = folderOf(path);
      const allowed = [folder, ...(MAY_IMPORT[folder] ?? [])];
      for (const target of graph.get(path) ?? []) {
        t.ok(allowed.includes(folderOf(target)), `${path} may not import ${target}`);
        t.ok(code.includes(target), `${path} imports ${target}, which is there`);
      }
      const database = imports.some((name) => name === 'postgres' || name.startsWith('postgres/'));
      if (database) t.ok(path.startsWith('control-plane/db/'), `${path} may not import postgres`);
    }
  },
);

t.test('no file imports itself through others', async (t) => {
  const done = new Set<string>();
  const cycleFrom = (path: string, above: readonly string[]): string | null => {
    const seen = above.indexOf(path);
    if (seen >= 0) return [...above.slice(seen), path].join(' → ');
    if (done.has(path)) return null;
    for (const target of graph.get(path) ?? []) {
      const cycle = cycleFrom(target, [...above, path]);
      if (cycle !== null) return cycle;
    }
    done.add(path);
    return null;
  };
  for (const path of graph.keys()) t.equal(cycleFrom(path, []), null, path);
});

t.test('the environment is read in one place', async (t) => {
  const processes = ['core', 'config', 'proxy', 'control-plane', 'cli'];
  const readers = code.filter((path) => processes.includes(folderOf(path)) && /\bprocess\.env\b/.test(read(path)));
  t.same(
    readers.filter((path) => stripComments(read(path)).includes('process.env')),
    ['config/load.ts'],
  );
});

function stripComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
}

/** The headings of a page that name a code, in their order. */
function headings(page: string, pattern: RegExp): string[] {
  return Array.from(read(page).matchAll(pattern), ([, code]) => code ?? '');
}

t.test(
  'every denial code has its section in docs/denial-codes.md, in check order, with name and meaning',
  async (t) => {
    const page = read('docs/denial-codes.md');
    t.same(
      headings('docs/denial-codes.md', /^## (MD-[0-9]+)/gm),
      DENIAL_CODES.map(([code]) => code),
    );
    for (const [code, name, meaning] of DENIAL_CODES) {
      const [, section = ''] = page.split(`## ${code} ${name}\n\n${meaning}\n`);
      const [, example = ''] = /\*\*Example\.\*\* "([^\n]+)"\n/.exec(section) ?? [];
      const cases = files.filter((path) => path.startsWith(`test/vectors/decisions/${code}-`)).map(read);
      const reasons = cases.map((text) => JSON.parse(text).verdict.reason_text);
      t.ok(reasons.includes(example), `${code}: the example is what a vector says: ${example}`);
    }
  },
);

t.test('every error code is in docs/errors.md with its status and title, and no other', async (t) => {
  const rows = Array.from(read('docs/errors.md').matchAll(/^\| `([a-z_]+)` \| ([0-9]+) \| ([^|]+) \|/gm));
  t.same(
    rows.map(([, code, status, title]) => [code, Number(status), title]),
    Object.entries(PROBLEMS).map(([code, [status, title]]) => [code, status, title]),
  );
});

t.test('every bound in core/limits.ts is used', async (t) => {
  const others = code.filter((path) => path !== 'core/limits.ts' && folderOf(path) !== 'test').map(read);
  for (const name of Object.keys(limits)) {
    const used = new RegExp(`\\b${name}\\b`);
    const inside =
      read('core/limits.ts')
        .split('\n')
        .filter((line) => used.test(line)).length > 1;
    t.ok(inside || others.some((text) => used.test(text)), name);
  }
});

t.test("README's table of settings is the one that config/schema.ts makes", async (t) => {
  const [, table] = /<!-- settings -->\n+([\s\S]*?)\n+<!-- \/settings -->/.exec(read('README.md')) ?? [];
  t.equal(table, settingsTable(), 'npm run -s docs:settings prints the table');
});

t.test('every relative link in the documents leads to a file that is there', async (t) => {
  for (const path of files.filter((path) => path.endsWith('.md'))) {
    for (const [, target = ''] of read(path).matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      t.ok(files.includes(join(dirname(path), target)), `${path} → ${target}`);
    }
  }
});

t.test('dependencies are pinned to one version, and their archives are named by no private registry', async (t) => {
  const manifest = JSON.parse(read('package.json'));
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    t.match(version, /^[0-9]+\.[0-9]+\.[0-9]+(-[a-z0-9.]+)?$/, name);
  }
  const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, { resolved?: string }> };
  const elsewhere = Object.entries(lock.packages).filter(([, { resolved }]) => {
    return resolved !== undefined && !resolved.startsWith('https://registry.npmjs.org/');
  });
  t.same(elsewhere, []);
});

interface Service {
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly healthcheck?: object;
  readonly ports?: readonly string[];
  readonly environment?: Record<string, string>;
}

t.test(
  'compose.yaml keeps every service small, publishes only the proxy, and sets only settings that exist',
  async (t) => {
    const { services } = parse(read('compose.yaml'), { merge: true }) as { services: Record<string, Service> };
    const known = settings().flatMap(([, { env }]) => [env, `${env}_FILE`]);
    for (const [name, service] of Object.entries(services)) {
      t.equal(service.read_only, true, `${name} has a read-only root`);
      t.same(service.cap_drop, ['ALL'], name);
      t.same(service.security_opt, ['no-new-privileges:true'], name);
      if (name === 'proxy') t.same(service.ports, ['127.0.0.1:8080:8080']);
      else t.notOk('ports' in service, `${name} is not published`);
      const variables = Object.keys(service.environment ?? {}).filter((variable) => variable.startsWith('MANDATE_'));
      for (const variable of variables) t.ok(known.includes(variable), `${name}: ${variable}`);
    }
    t.ok(services['database']?.healthcheck, 'the others have the one of the image');
    t.match(read('Dockerfile'), /^HEALTHCHECK /m);
    t.match(read('Dockerfile'), /^USER node$/m);
  },
);
