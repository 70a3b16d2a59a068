import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { newSecretToken } from '../../core/secret-token.ts';
import { accountOf } from '../admin/session.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idQuery, readQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { gatewayChange, gatewayInput } from './input.ts';
import {
  changeGateway,
  createGateway,
  type GatewayRecord,
  listGateways,
  readGateway,
  rotateToken,
  setGatewayStatus,
} from './store.ts';
import { checkedTarget } from './target.ts';

const listQuery = z.strictObject({ after: idQuery('gwi').optional() });

/** The routes of gateway instances: a mandate in front of a target. */
export function registerGatewayRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/gateways', async (request) => {
    const { after = null } = readQuery(request, listQuery);
    const { gateways, next } = await listGateways(deps.sql, accountOf(request), after);
    return { gateways: gateways.map(gatewayView), next };
  });
  app.get('/admin/gateways/:id', async (request) => {
    return gatewayView(await readGateway(deps.sql, accountOf(request), idParam(request, 'gwi')));
  });
  app.post('/admin/gateways', async (request, reply) => {
    const input = readBody(request, gatewayInput);
    const targetUrl = await checkedTarget(input.target_url, deps.allowPrivateTargets);
    const token = newSecretToken('gwt');
    const made = await deps.commands.command(accountOf(request), (context) =>
      createGateway(context, deps.custody, { ...input, target_url: targetUrl }, token),
    );
    return reply.code(201).send({ ...gatewayView(made), token });
  });
  app.patch('/admin/gateways/:id', async (request) => {
    const change = readBody(request, gatewayChange);
    const id = idParam(request, 'gwi');
    const { target_url: text } = change;
    const targetUrl = text === undefined ? undefined : await checkedTarget(text, deps.allowPrivateTargets);
    const changed = await deps.commands.command(accountOf(request), (context) =>
      changeGateway(context, deps.custody, id, { ...change, target_url: targetUrl }),
    );
    return gatewayView(changed);
  });
  app.post('/admin/gateways/:id/rotate-token', async (request) => {
    const [id, token] = [idParam(request, 'gwi'), newSecretToken('gwt')];
    const rotated = await deps.commands.command(accountOf(request), (context) => rotateToken(context, id, token));
    return { ...gatewayView(rotated), token };
  });
  for (const [step, status] of [
    ['disable', 'disabled'],
    ['enable', 'active'],
  ] as const) {
    app.post(`/admin/gateways/:id/${step}`, async (request) => {
      const id = idParam(request, 'gwi');
      return gatewayView(
        await deps.commands.command(accountOf(request), (context) => setGatewayStatus(context, id, status)),
      );
    });
  }
}

function gatewayView(row: GatewayRecord) {
  return {
    instance_id: row.instance_id,
    mandate_id: row.mandate_id,
    name: row.name,
    status: row.status,
    target_url: row.target_url,
    credential_header: row.credential_header,
    rate_per_second: row.rate_per_second,
    rate_burst: row.rate_burst,
    unmapped_tools: row.unmapped_tools,
    created_at: new Date(row.created_at).toISOString(),
    changed_at: new Date(row.changed_at).toISOString(),
  };
}
