import { CONSOLE_ROUTES } from '../control-plane/console/routes.ts';
import { type Filled, RARE } from './fill-decisions.ts';
import type { SeededAccount } from './seed.ts';

const DAY_MS = 86_400_000;

/** The addresses of all pages that show what the account holds, `/console` left out. */
export function pagePaths(account: SeededAccount, filled: Filled, size: number): string[] {
  const objects: Readonly<Record<string, string>> = {
    mandates: account.mandateId,
    gateways: account.instanceId,
    keys: filled.keyId,
    evidence: receipt(Math.floor(size / 2)),
    entries: 'evt_'.padEnd(30, '0'),
  };
  return CONSOLE_ROUTES.filter(({ method, access }) => method === 'GET' && access === 'signed-in')
    .flatMap(({ path }) => {
      if (!path.includes(':id')) return [path === '/' ? '' : path];
      const noun = path.slice(0, path.indexOf('/:id')).split('/').at(-1) ?? '';
      const id = objects[noun];
      return id === undefined ? [] : [path.replace(':id', id)];
    })
    .filter((path) => !path.endsWith('/events'));
}

/**
 * The addresses of searches: every condition alone and each pair of them, with values that many decisions have and
 * with values that one has; on the first page, and in the midst of the chain.
 */
export function searchPaths(account: SeededAccount, filled: Filled, size: number): string[] {
  const common = commonConditions(filled);
  const rare = rareConditions(filled);
  const all = [...Object.entries(common), ...Object.entries(rare)];
  const queries = all.map(([, query]) => query);
  for (const [at, [name, first]] of all.entries()) {
    for (const [other, second] of all.slice(at + 1)) {
      const sameField = name.split(' ')[0] === other.split(' ')[0] || repeats(first, second);
      if (!sameField) queries.push(`${first}&${second}`);
    }
  }
  queries.push(`mandate=${account.mandateId}&subject=${filled.instances[1]}&max_amount=1.10&currency=EUR`);
  queries.push(`subject=${filled.instances[1]}&code=MD-302&max_amount=1.10&currency=EUR&decision=deny`);
  queries.push(`receipt=${receipt(size - 1)}`, `receipt=${'rcp_7'.padEnd(30, 'z')}`);
  const deep = Object.values(common).map((query) => `${query}&before=${Math.floor(size / 2)}`);
  return [...queries, ...deep].map((query) => `/evidence?${query}`);
}

function receipt(at: number): string {
  return `rcp_${String(at).padStart(26, '0')}`;
}

/** What many decisions are found by: at the chain's end, all along it, and only at its beginning. */
function commonConditions({ mandates, instances, agents, keyId }: Filled): Readonly<Record<string, string>> {
  return {
    'time old': `from=${day(29)}&to=${day(28)}`,
    'time new': `from=${day(2)}`,
    'decision escalate': 'decision=escalate',
    'decision allow': 'decision=allow',
    'mandate second': `mandate=${mandates[1]}`,
    'subject first': `subject=${instances[0]}`,
    'subject key': `subject=${keyId}`,
    'agent first': `agent=${agents[0]}`,
    'code often': 'code=MD-302',
    'code long ago': 'code=MD-203',
    'amount top': 'min_amount=90.89&currency=EUR',
    'amount long ago': 'min_amount=200&currency=EUR',
    'amount lowest': 'max_amount=1.10&currency=EUR',
    'amount USD': 'currency=USD',
  };
}

/** What one or two decisions are found by, or none. */
function rareConditions({ rare }: Filled): Readonly<Record<string, string>> {
  return {
    'code rare': `code=${RARE.code}`,
    'code none': 'code=MD-105',
    'amount rare': `min_amount=${RARE.amount}&currency=${RARE.currency}`,
    'amount none': 'min_amount=999999&currency=EUR',
    'mandate rare': `mandate=${rare.mandateId}`,
    'subject rare': `subject=${rare.instanceId}`,
    'agent rare': `agent=${rare.agent}`,
  };
}

/** Whether both name a field: an address names each once. */
function repeats(first: string, second: string): boolean {
  const names = new Set(new URLSearchParams(first).keys());
  return [...new URLSearchParams(second).keys()].some((name) => names.has(name));
}

function day(ago: number): string {
  return new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10);
}
