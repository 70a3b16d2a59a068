import t from 'tap';
import { z } from 'zod';
import { bodyValue } from '../../../core/body-value.ts';
import { parseStrictJson } from '../../../core/json.ts';

t.test('an object where a list or a text belongs is a wrong field, whatever its members are called', async (t) => {
  const schema = z.strictObject({ list: z.array(z.string()).max(3), text: z.string().min(1).max(3) });
  for (const odd of ['{"length":{}}', '{"length":{"toString":1}}', '{"length":[]}', '{"size":{},"__proto__":{}}']) {
    const body = bodyValue(parseStrictJson(Buffer.from(`{"list":${odd},"text":${odd}}`)));
    const { success, error } = schema.safeParse(body);
    t.notOk(success, odd);
    t.same(new Set(error?.issues.map(({ path }) => path[0])), new Set(['list', 'text']));
  }
});

t.test('names are members of their own, and none is inherited', async (t) => {
  const body = bodyValue(parseStrictJson(Buffer.from('{"__proto__":{"a":true},"constructor":null}'))) as object;
  t.same(Object.keys(body), ['__proto__', 'constructor']);
  t.notOk('a' in body || 'toString' in body || 'hasOwnProperty' in body);
});
