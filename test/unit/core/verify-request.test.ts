import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { bodyValue } from '../../../core/body-value.ts';
import { parseStrictJson } from '../../../core/json.ts';
import { readVerifyRequest, verifyBody } from '../../../core/verify-request.ts';

const BODY = {
  presentation: { type: 'MandatePresentation' },
  action: { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' }, counterparty: 'acme' },
};
const treeOf = (value: unknown) => parseStrictJson(Buffer.from(JSON.stringify(value)));

t.test('a body is read with its amount in minor units and its counterparty in NFC', async (t) => {
  const action = { ...BODY.action, counterparty: 'Cafe\u0301' };
  t.match(readVerifyRequest(treeOf({ ...BODY, action, escalation_token: 'etk_1' })), {
    action: { type: 'payments.create', amount_minor: 1_250, currency: 'EUR', counterparty: 'Caf\u00e9' },
    escalationToken: 'etk_1',
  });
  const { counterparty: _, ...bare } = BODY.action;
  t.match(readVerifyRequest(treeOf({ ...BODY, action: bare })), {
    action: { counterparty: null },
    escalationToken: null,
  });
});

const odd = fc.constantFrom<unknown>(
  undefined,
  null,
  true,
  '',
  'x',
  'A B',
  'eur',
  7,
  1.5,
  -1,
  1e3,
  [],
  {},
  'x'.repeat(300),
);
const places = ['presentation', 'action', 'escalation_token', 'more', 'action.type', 'action.amount', 'action.more'];
const inner = ['action.counterparty', 'action.amount.value', 'action.amount.currency', 'action.amount.more'];

/** The body with something else in one place. */
function changed(path: string, value: unknown): unknown {
  const body = structuredClone(BODY) as Record<string, unknown>;
  const names = path.split('.');
  const last = names.pop() as string;
  let at = body;
  for (const name of names) at = at[name] as Record<string, unknown>;
  at[last] = value;
  return body;
}

t.test('whatever is wrong is refused as the published schema has it, and nothing else', async (t) => {
  const property = fc.property(fc.constantFrom(...places, ...inner), odd, (path, value) => {
    const tree = treeOf(changed(path, value));
    const { success } = verifyBody.safeParse(bodyValue(tree));
    const accepts = (): boolean => {
      try {
        readVerifyRequest(tree);
        return true;
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'invalid');
        return false;
      }
    };
    const amountFits = !(path === 'action.amount.value' && (value === -1 || value === 1e3 || value === 7));
    // The presentation is only looked at by its kind, and amounts by their currency, beyond what the schema says.
    if (path === 'presentation')
      assert.equal(accepts(), success && typeof value === 'object' && !Array.isArray(value) && value !== null);
    else if (amountFits) assert.equal(accepts(), success);
  });
  fc.assert(property, { numRuns: 400 });
  t.throws(() => readVerifyRequest(treeOf([])), { code: 'invalid' });
  t.throws(() => readVerifyRequest(treeOf(changed('action.amount.value', -1))), { code: 'invalid' });
});
