import { readFileSync } from 'node:fs';
import t from 'tap';
import { dossierDocument, dossierJsonSchema, readDossier } from '../../../core/dossier.ts';
import {
  decideAgain,
  type RecordedDecision,
  recordedDecision,
  verdictDifference,
} from '../../../core/recorded-decision.ts';
import { sampleDossier } from './dossier-sample.ts';

const FILE = new URL('../../../docs/dossier.schema.json', import.meta.url);

t.test('the published JSON Schema is the one that files are read by, and a change of it shows', async (t) => {
  t.same(JSON.parse(readFileSync(FILE, 'utf8')), dossierJsonSchema());
  const members = Object.keys(dossierDocument.shape);
  t.same((dossierJsonSchema() as { readonly required?: string[] }).required, members, 'no member is optional');
});

t.test('a dossier is read back as it was written', async (t) => {
  const { dossier } = sampleDossier();
  const reading = readDossier(Buffer.from(JSON.stringify(dossier)));
  t.ok(reading.ok);
  if (reading.ok) t.same(JSON.parse(JSON.stringify(reading.dossier)), dossier);
});

t.test('a gateway decision is made again from its record, whatever of it was read', async (t) => {
  const terms = {
    ...{ mandate_id: 'mdt_x', version: 1, scope: ['payments.*'], currency: 'EUR', per_action: 100, per_month: 1000 },
    ...{ escalation_threshold: 50, counterparties: ['acme'], agent_did: '', time_zone: 'UTC', valid_until: null },
    max_uses: 2,
  };
  const body = {
    ...{
      path: 'gateway',
      denial_code_version: 1,
      instance: 'gwi_x',
      month: { booked: 0, month: '2026-10-01', reserved: 0 },
    },
    action: { amount: 40, counterparty: 'acme', currency: 'EUR', type: 'payments.create' },
    ...{
      ctx: 'sha-256:x',
      decision: 'allow',
      mandate: { digest: '', id: 'mdt_x', status: 'active', uses: 0, version: 1 },
    },
    request: { bindable: true, method: 'POST', path: '/payments', query: '' },
    tool: { id: 'tol_x', key: 'http.post:/payments', state: 'mapped', version: 1 },
  };
  const said = (changes: object, more = {}) => {
    const one = recordedDecision.parse({ ...body, ...changes }) as RecordedDecision;
    const verdict = decideAgain(one, { account: 'acc_x', atMs: 1_000, terms: { ...terms, ...more } });
    return [verdict.decision === 'deny' ? verdict.code : verdict.decision, verdictDifference(one, verdict)];
  };
  t.same(said({}), ['allow', null]);
  t.same(said({ mandate: { ...body.mandate, uses: 2 } }), ['MD-204', 'deny instead of allow']);
  t.same(said({ tool: { ...body.tool, state: 'unmapped' }, action: null, decision: 'deny', code: 'MD-501' }), [
    'MD-501',
    null,
  ]);
  const big = { ...body.action, amount: 60 };
  const asked = { action: big, decision: 'escalate', escalation: { expires_at: '', id: 'esc_1' } };
  t.same(said(asked), ['escalate', null]);
  const grant = {
    closes_at_ms: 2_000,
    ctx: 'sha-256:x',
    escalation_id: 'esc_1',
    mandate_id: 'mdt_x',
    status: 'approved',
  };
  const token = { ...body.request, token_given: true };
  t.same(said({ action: big, grant, request: token }), ['allow', null]);
  t.same(said({ action: big, grant: { ...grant, closes_at_ms: 1_000 }, request: token }), [
    'MD-402',
    'deny instead of allow',
  ]);
  const standing = { closes_at_ms: 2_000, escalation_id: 'esc_2', expires_at_ms: 2_000, status: 'pending' };
  t.same(said({ ...asked, standing }), ['escalate', 'to esc_2 instead of esc_1']);
  t.same(said({ undecidable: 'The credential cannot be opened.', decision: 'deny', code: 'MD-503' }), ['MD-503', null]);
});
