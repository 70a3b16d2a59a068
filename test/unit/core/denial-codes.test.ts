import t from 'tap';
import { DENIAL_CODE_VERSION, DENIAL_CODES, denialName } from '../../../core/denial-codes.ts';

t.test('version 1 of the denial table never changes: codes, names and order are those of contract §4', async (t) => {
  t.equal(DENIAL_CODE_VERSION, 1);
  t.same(
    DENIAL_CODES.map(([code, name]) => `${code} ${name}`),
    [
      'MD-101 presentation_invalid',
      'MD-102 presentation_expired',
      'MD-103 presentation_wrong_verifier',
      'MD-104 presentation_context_mismatch',
      'MD-105 presentation_replayed',
      'MD-201 mandate_unknown',
      'MD-202 agent_mismatch',
      'MD-203 mandate_not_active',
      'MD-204 mandate_ended',
      'MD-501 tool_unmapped',
      'MD-502 tool_unreadable',
      'MD-301 action_type_not_covered',
      'MD-305 currency_mismatch',
      'MD-304 counterparty_not_allowed',
      'MD-302 amount_above_action_limit',
      'MD-303 amount_above_month_limit',
      'MD-401 escalation_not_granted',
      'MD-402 escalation_token_invalid',
      'MD-503 not_decidable',
    ],
  );
});

t.test('every code has its own name and a meaning that ends as a sentence', async (t) => {
  t.equal(new Set(DENIAL_CODES.map(([, name]) => name)).size, DENIAL_CODES.length);
  for (const [code, name, meaning] of DENIAL_CODES) {
    t.equal(denialName(code), name);
    t.match(meaning, /^[A-Z].*\.$/);
  }
});
