import t from 'tap';
import type { Sql } from '../../control-plane/db/client.ts';
import { newTypeId } from '../../core/type-id.ts';
import { createDatabase } from '../database.ts';

const NOW = '2026-05-15T10:00:00.000Z';
const HASH = Buffer.alloc(32, 7);
const SHORT = Buffer.alloc(31);
const ABOVE = 1_000_000_000_000_001;

const account_id = newTypeId('acc', 0);
const mandate_id = newTypeId('mdt', 0);
const instance_id = newTypeId('gwi', 0);
const key_id = newTypeId('key', 0);
const dated = { created_at: NOW, changed_at: NOW };

type Row = Record<string, string | number | boolean | null | Buffer | string[]>;

/** A row that every table takes, in the order in which they refer to each other. */
const GOOD: Record<string, Row> = {
  accounts: { account_id, email: 'ada@example.com', password_hash: 'x', totp_sealed: HASH, created_at: NOW },
  account_heads: { account_id, at: NOW },
  sessions: { account_id, session_id: 's', token_hash: HASH, created_at: NOW, last_seen_at: NOW, expires_at: NOW },
  token_routes: { token_hash: HASH, kind: 'gateway', account_id, subject_id: instance_id },
  mandates: {
    ...{ account_id, mandate_id, name: 'travel', status: 'active', scope: ['payments.transfer'], currency: 'EUR' },
    ...{ per_action: 50_000, per_month: 200_000, escalation_threshold: null, digest: 'd', ...dated },
  },
  mandate_months: { account_id, mandate_id, month: '2026-05-01', reserved: 0, booked: 0, allows: 0 },
  reservations: {
    ...{ account_id, receipt_id: 'rcp_1', mandate_id, month: '2026-05-01', path: 'gateway', subject_id: instance_id },
    ...{ amount: 100, state: 'reserved', reserved_at: NOW, due_at: NOW },
  },
  escalations: {
    ...{ account_id, escalation_id: newTypeId('esc', 0), mandate_id, subject_id: instance_id, ctx: 'sha-256:1' },
    ...{ status: 'pending', action: '{}', receipt_id: 'rcp_2', created_at: NOW, expires_at: NOW, closes_at: NOW },
  },
  gateway_instances: {
    ...{ account_id, instance_id, mandate_id, name: 'bank', status: 'active', target_url: 'https://api.example.com' },
    ...{ token_hash: HASH, unmapped_tools: 0, ...dated },
  },
  tools: {
    ...{ account_id, instance_id, key: 'http.post:/pay', tool_id: newTypeId('tol', 0), pattern: 'http.post:/pay' },
    ...{ state: 'unmapped', mapping: null, ...dated },
  },
  tool_sightings: {
    ...{ account_id, instance_id, key: 'http.post:/pay', unmapped: 1, unreadable: 0, unreadable_reason: null },
    ...{ first_at: NOW, last_at: NOW, shape: '{}' },
  },
  decision_positions: { account_id, next_seq: 0 },
  decision_search: {
    ...{ account_id, seq: 0, at: NOW, subject_id: instance_id, mandate_id, agent: null, decision: 'allow', code: null },
    ...{ currency: 'EUR', amount: 1 },
  },
  decision_days: {
    ...{ account_id, mandate_id, day: '2026-05-15', decision: 'deny', code: 'MD-302', decisions: 1, amount: '1' },
  },
  idempotency_answers: {
    ...{ account_id, subject_id: instance_id, key_hash: HASH, request_digest: HASH, receipt_id: 'rcp_1' },
    ...{ state: 'in_flight', created_at: NOW, expires_at: NOW },
  },
  api_keys: {
    ...{ account_id, key_id, name: 'shop', token_hash: HASH, scopes: ['verify'], status: 'active', created_at: NOW },
    ...{ revoked_at: null },
  },
  api_key_uses: { account_id, key_id, last_used_at: NOW },
  sandbox: { account_id, created_at: NOW },
  tree_heads: { account_id, size: 0, root: HASH, at: NOW, checkpoint: 'c', receipt: 'r' },
  log_keys: { public_key: HASH, sealed: HASH, created_at: NOW },
  sandbox_mandates: { account_id, mandate_id, secret_hash: HASH, created_at: NOW },
};

/** Changes of the good row that break a rule; each is refused by a CHECK. */
const BROKEN: Record<string, readonly Row[]> = {
  accounts: [
    { account_id: 'acc_1' },
    { account_id: mandate_id },
    { email: 'Ada@example.com' },
    { email: 'a' },
    { failed_attempts: -1 },
    { session_failed_attempts: -1 },
  ],
  account_heads: [{ size: -1 }, { hash: SHORT }, { size: 2 }, { edge: HASH }, { size: 1, edge: Buffer.alloc(32, 8) }],
  sessions: [{ token_hash: SHORT }],
  token_routes: [{ kind: 'anything' }, { token_hash: SHORT }],
  mandates: [
    { status: 'deleted' },
    { scope: [] },
    { currency: 'eur' },
    { per_action: -1 },
    { per_action: ABOVE },
    { per_month: -1 },
    { per_month: ABOVE },
    { escalation_threshold: -1 },
    { escalation_threshold: ABOVE },
    { max_uses: 0 },
    { uses: -1 },
    { uses: 3, max_uses: 2 },
    { version: 0 },
    { name: '' },
    { mandate_id: 'mdt_1' },
  ],
  mandate_months: [{ month: '2026-05-02' }, { reserved: -1 }, { booked: -1 }, { allows: -1 }],
  reservations: [
    { amount: -1 },
    { amount: ABOVE },
    { state: 'booked' },
    { state: 'released' },
    { path: 'other' },
    { idempotency_key: SHORT },
  ],
  escalations: [
    { status: 'maybe' },
    { status: 'approved' },
    { status: 'used', token_hash: HASH },
    { used_at: NOW },
    { token_hash: SHORT },
    { request_body: Buffer.alloc(65_537) },
    { reason: 'x'.repeat(501) },
    { escalation_id: 'esc_1' },
  ],
  gateway_instances: [
    { unmapped_tools: 501 },
    { unmapped_tools: -1 },
    { status: 'paused' },
    { credential_header: 'x-api-key' },
    { credential_sealed: HASH },
    { target_url: `https://${'x'.repeat(2048)}` },
    { template_shapes: Array.from({ length: 65 }, (_, n) => `/${n}`) },
    { rate_per_second: 0 },
    { rate_burst: 0 },
    { token_hash: SHORT },
  ],
  tools: [{ state: 'mapped' }, { mapping: '{}' }, { state: 'open' }, { key: 'x'.repeat(2201) }, { version: 0 }],
  tool_sightings: [
    { unmapped: -1 },
    { unreadable: -1 },
    { unreadable_reason: 'x'.repeat(501) },
    { shape: JSON.stringify('x'.repeat(262_144)) },
  ],
  decision_positions: [{ next_seq: -1 }],
  decision_search: [{ decision: 'maybe' }],
  decision_days: [{ decision: 'maybe' }, { decisions: -1 }, { amount: '-1' }],
  idempotency_answers: [
    { state: 'answered' },
    { state: 'lost' },
    { status: 99 },
    { status: 600 },
    { body: Buffer.alloc(262_145) },
    { key_hash: SHORT },
    { request_digest: SHORT },
  ],
  api_keys: [
    { key_id: 'key_1' },
    { name: '' },
    { token_hash: SHORT },
    { scopes: [] },
    { scopes: ['verify', 'admin'] },
    { status: 'disabled' },
    { status: 'revoked' },
    { revoked_at: NOW },
    { verify_per_second: 0 },
    { verify_burst: 0 },
    { management_per_second: 0 },
    { management_burst: 1_000_001 },
  ],
  api_key_uses: [],
  sandbox: [{ only_row: false }],
  sandbox_mandates: [{ secret_hash: SHORT }],
  tree_heads: [{ size: -1 }, { root: SHORT }, { at: '2026-05-15' }, { checkpoint: '' }, { receipt: '' }],
  log_keys: [{ public_key: SHORT }, { only_row: false }],
};

function insert(sql: Sql, table: string, row: Row): Promise<unknown> {
  return sql`insert into ${sql(table)} ${sql(row)}`;
}

t.test('the database refuses what the code never writes, whoever writes it', async (t) => {
  const { sql } = await createDatabase(t);
  const tables = Object.keys(GOOD);
  t.same(Object.keys(BROKEN).sort(), [...tables].sort());
  for (const table of tables) {
    for (const change of BROKEN[table] ?? []) {
      const shown = JSON.stringify(change).slice(0, 80);
      await t.rejects(insert(sql, table, { ...GOOD[table], ...change }), { code: '23514' }, `${table} ${shown}`);
    }
    await t.resolves(insert(sql, table, GOOD[table] ?? {}), `${table} takes a good row`);
  }
});

t.test('an account, a mandate or an instance that is referred to must exist', async (t) => {
  const { sql } = await createDatabase(t);
  for (const table of ['account_heads', 'sessions', 'mandates', 'gateway_instances', 'tools', 'api_keys']) {
    await t.rejects(insert(sql, table, GOOD[table] ?? {}), { code: '23503' }, table);
  }
});

t.test('two accounts cannot share an e-mail address, and a request has one pending escalation', async (t) => {
  const { sql } = await createDatabase(t);
  for (const [table, row] of Object.entries(GOOD)) await insert(sql, table, row);
  const { accounts = {}, escalations = {} } = GOOD;
  await t.rejects(insert(sql, 'accounts', { ...accounts, account_id: newTypeId('acc', 1) }), { code: '23505' });
  await t.rejects(insert(sql, 'escalations', { ...escalations, escalation_id: newTypeId('esc', 1) }), {
    code: '23505',
  });
});
