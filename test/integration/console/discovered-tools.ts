import { ToolSightings } from '../../../control-plane/gateways/sightings.ts';
import type { RequestShape } from '../../../core/request-shape.ts';
import { parseToolPattern } from '../../../core/tool-name.ts';
import { newTypeId } from '../../../core/type-id.ts';
import type { AdminFixture } from '../control-plane/admin-fixture.ts';

/** Fields as a request to pay has them, and one with markup for a name. */
export const PAY_SHAPE: RequestShape = {
  body: 'json',
  fields: [
    { at: '/amount', type: 'number' },
    { at: '/currency', type: 'string' },
    { at: '/payee', type: 'string' },
    { at: '/<img src=x onerror=alert(1)>', type: 'string' },
  ],
  query: ['dry_run'],
  more: true,
};

/** OpenAPI with an operation to pay, one to read, and one that cannot be a tool. */
export const OPENAPI = JSON.stringify({
  openapi: '3.1.0',
  info: { title: 'Shop <b>API</b>' },
  paths: {
    '/transfers': {
      post: {
        summary: 'Pay <script>alert(1)</script>',
        requestBody: {
          content: {
            'application/json': {
              schema: {
                type: 'object',
                properties: { amount: { type: 'number' }, currency: { type: 'string' }, payee: { type: 'string' } },
              },
            },
          },
        },
        'x-mandate-action-type': 'payments.transfer',
      },
    },
    '/transfers/{transferId}': { get: { summary: 'Read one' } },
    '/a//b': { get: {} },
  },
});

/** Puts tools on an instance as if an agent's denied requests had been seen three times each. */
export async function discover(
  sql: AdminFixture['sql'],
  { accountId, instanceId }: { readonly accountId: string; readonly instanceId: string },
  names: readonly string[],
): Promise<void> {
  const sightings = new ToolSightings();
  for (const name of names) {
    const reading = parseToolPattern(name);
    if (!reading.ok) throw new Error(`${name}: ${reading.message}`);
    const { key } = reading.pattern;
    await sql`
      insert into tools (account_id, instance_id, key, tool_id, pattern, shape, state, mapping, created_at, changed_at)
      values (${accountId}, ${instanceId}, ${key}, ${newTypeId('tol', Date.now())}, ${name}, null, 'unmapped', null,
        db_clock(), db_clock())`;
    const one = { accountId, instanceId, key, atMs: Date.now(), unreadable: null, shape: PAY_SHAPE };
    sightings.note([one, one, one]);
  }
  while (await sightings.flush(sql));
}
