import t from 'tap';
import { serviceText } from '../../../../control-plane/console/service-text.ts';
import { wordsOf } from '../../../../control-plane/console/words.ts';
import { gatewayInput } from '../../../../control-plane/gateways/input.ts';
import { checkedTarget } from '../../../../control-plane/gateways/target.ts';
import { toolInput, wantedTool } from '../../../../control-plane/gateways/tool-store.ts';
import { DecimalText, fieldProblems } from '../../../../core/body-value.ts';
import { ProblemError } from '../../../../core/errors.ts';
import { openApiParser } from '../../../../core/openapi-text.ts';
import { readOpenApi } from '../../../../core/openapi-tools.ts';
import { readQuery, readToolPath } from '../../../../core/tool-name.ts';

const parseOpenApiText = await openApiParser();

/** What the service says of inputs that people can type into forms. */
async function messages(): Promise<string[]> {
  const gateway = { mandate_id: 'mdt_', target_url: 'https://example.com' };
  const wrong = [
    { name: '' },
    { name: 'x'.repeat(201) },
    { name: 'a\tb' },
    ...['a b', 'host', 'x-service-x'].map((header) => ({ credential: { header, value: 'v' } })),
    { credential: { header: 'authorization', value: 'ü' } },
    { credential: { header: 'authorization', value: 'x'.repeat(4_097) } },
    { rate_burst: new DecimalText('0') },
  ].flatMap((more) => fieldProblems(gatewayInput.safeParse({ ...gateway, ...more }).error!));
  const targets = [
    '',
    'ftp://a',
    'https://a?b',
    'https://u@a',
    'https://a/../b',
    'http://127.0.0.1',
    'https://a.invalid',
  ];
  const reasons = await Promise.all(
    [...targets, `https://a/${'x'.repeat(3_000)}`].map((one) => checkedTarget(one, false).then(() => [], problemsOf)),
  );
  return [...wrong, ...reasons.flat(), ...toolProblems()]
    .map(({ message }) => message)
    .concat(pathMessages(), documents());
}

function problemsOf(error: unknown) {
  if (error instanceof ProblemError) return error.fields;
  throw error;
}

function toolProblems() {
  const named = (name: string, mapping: object = {}) => ({ name, mapping: { action_type: 'a.b', ...mapping } });
  return [
    named('payments'),
    named('http.post:/a{b}'),
    named('http.post:/{a}/{a}'),
    named(`http.post:/${Array.from({ length: 40 }, (_, at) => `{p${at}}`).join('/')}`),
    named('http.post:/a', { action_type: 'A b' }),
    named('http.post:/a', { amount: 'amount' }),
    named('http.post:/a', { body_limit_bytes: 1e12 }),
    named('http.get:/a', { amount: '/amount' }),
    named('http.post:/a', { amount: 'path:sum' }),
    named('http.post:/a', { currency: 'none' }),
    named('http.post:/a', { currency: 'const:euro' }),
    named('http.post:/a', { amount: 'const:1,5', currency: 'const:EUR' }),
    named('http.post:/a', { counterparty: `const:${'x'.repeat(300)}` }),
  ].flatMap((given) => {
    const parsed = toolInput.safeParse(given);
    if (!parsed.success) return fieldProblems(parsed.error);
    try {
      wantedTool(parsed.data);
    } catch (error) {
      return problemsOf(error);
    }
    throw new Error(`${JSON.stringify(given)} is in order`);
  });
}

function pathMessages(): string[] {
  const paths = ['a//b', 'a/../b', 'a%2Fb', 'a\u0001', 'a\\b', 'a;b', 'ä', 'a"b', 'a%zz', 'a%41', 'a%2541', 'a%ff'];
  const long = [`${'a'.repeat(20_000)}`, Array.from({ length: 400 }, () => 'a').join('/')];
  const queries = ['a"b', '%zz', '_method=DELETE', 'x'.repeat(40_000)];
  return [...[...paths, ...long].map(readToolPath), ...queries.map(readQuery)].flatMap((reading) =>
    reading.ok ? [] : [reading.message],
  );
}

function documents(): string[] {
  const mandate = { scope: ['*'], currency: 'EUR' };
  return ['{', 'a: [', '{"swagger":"2.0"}', '{"openapi":"2.9"}', '{}'].map((text) => {
    try {
      readOpenApi(parseOpenApiText(text), { basePath: '', mandate } as never);
      return '';
    } catch (error) {
      return error instanceof Error ? error.message : '';
    }
  });
}

t.test('what the service says of a form is said in the language of the reader', async (t) => {
  const all = new Set(await messages());
  t.ok(all.size > 35, `${all.size} different messages`);
  const german = wordsOf('de');
  t.same(
    [...all].filter((message) => serviceText(german, message) === message),
    [],
  );
  t.equal(serviceText(wordsOf('de'), 'must be a whole number from 1 to 9'), 'Eine ganze Zahl von 1 bis 9.');
  t.equal(serviceText(wordsOf('de'), 'something new'), 'something new', 'what is not known stays as it is');
});
