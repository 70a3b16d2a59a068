import t from 'tap';
import { PROBLEMS, type ProblemCode, ProblemError, problemDocument } from '../../../core/errors.ts';

const CODES = Object.keys(PROBLEMS) as ProblemCode[];

t.test('every code has a client or server error status and a title', async (t) => {
  for (const code of CODES) {
    const [status, title] = PROBLEMS[code];
    t.ok(status >= 400 && status <= 599, code);
    t.match(code, /^[a-z]+(_[a-z]+)*$/);
    t.match(title, /^[A-Z].*[A-Za-z]$/, 'a title is a phrase without a full stop');
  }
});

t.test('the document of an error carries its public text and never its cause', async (t) => {
  const cause = new Error('password=hunter2 at /srv/app/secret.ts:1:1');
  const fields = [{ field: 'amount', message: 'must be a number' }];
  const error = new ProblemError('invalid', 'The amount is not a number.', { cause, fields });
  t.equal(error.cause, cause, 'the log has the cause');
  t.equal(error.status, 422);
  const document = problemDocument(error, 'req_1');
  t.strictSame(document, {
    type: 'urn:mandate-gateway:problem:invalid',
    title: 'A field is invalid',
    status: 422,
    detail: 'The amount is not a number.',
    error: 'invalid',
    request_id: 'req_1',
    fields,
  });
  t.notMatch(JSON.stringify(document), /hunter2|secret\.ts|stack/);
});

t.test('a document without fields has no such member, and the message names code and detail', async (t) => {
  const error = new ProblemError('rate_limited', 'Slow down.', { retryAfterSeconds: 3 });
  t.notOk('fields' in problemDocument(error, 'req_2'));
  t.notOk('cause' in error);
  t.equal(error.retryAfterSeconds, 3);
  t.equal(error.message, 'rate_limited: Slow down.');
});
