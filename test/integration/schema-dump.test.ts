import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { dumpSchema } from '../../control-plane/db/schema-dump.ts';
import { createDatabase } from '../database.ts';

const FILE = new URL('../../migrations/schema.sql', import.meta.url);

t.test('migrations/schema.sql is what the migrations make, so that a diff of it shows every change', async (t) => {
  const { ownerUrl } = await createDatabase(t);
  const dump = await dumpSchema(ownerUrl);
  if (process.env['TAP_SNAPSHOT'] === '1') writeFileSync(FILE, dump);
  t.equal(dump, readFileSync(FILE, 'utf8'), 'npm run docs:schema writes it anew');
});
