import type { FastifyInstance } from 'fastify';
import { newSecretToken } from '../../core/secret-token.ts';
import { accountOf } from '../admin/session.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idParam, readBody } from '../http/request.ts';
import { keyChange, keyInput } from './input.ts';
import { changeKey, createKey, type KeyRecord, readKey, readKeys, revokeKey } from './store.ts';

/** The routes of API keys: what software of the account shows at `/api/v1`. */
export function registerKeyRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/keys', async (request) => {
    return { keys: (await readKeys(deps.sql, accountOf(request), null)).map(keyView) };
  });
  app.get('/admin/keys/:id', async (request) => {
    return keyView(await readKey(deps.sql, accountOf(request), idParam(request, 'key')));
  });
  app.post('/admin/keys', async (request, reply) => {
    const input = readBody(request, keyInput);
    const token = newSecretToken('mak');
    const made = await deps.commands.command(accountOf(request), (context) => createKey(context, input, token));
    return reply.code(201).send({ ...keyView(made), api_key: token });
  });
  app.patch('/admin/keys/:id', async (request) => {
    const change = readBody(request, keyChange);
    const id = idParam(request, 'key');
    return keyView(await deps.commands.command(accountOf(request), (context) => changeKey(context, id, change)));
  });
  app.post('/admin/keys/:id/revoke', async (request) => {
    const id = idParam(request, 'key');
    return keyView(await deps.commands.command(accountOf(request), (context) => revokeKey(context, id)));
  });
}

function keyView(row: KeyRecord) {
  return {
    key_id: row.key_id,
    name: row.name,
    scopes: row.scopes,
    status: row.status,
    verify_per_second: row.verify_per_second,
    verify_burst: row.verify_burst,
    management_per_second: row.management_per_second,
    management_burst: row.management_burst,
    created_at: new Date(row.created_at).toISOString(),
    revoked_at: optionalTime(row.revoked_at),
    last_used_at: optionalTime(row.last_used_at),
  };
}

function optionalTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
