import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { EXPORT_FORMATS } from '../../../core/evidence-export.ts';
import { sendExport } from '../../evidence/export-routes.ts';
import { currentSize } from '../../evidence/tree-heads.ts';
import { formValues, readForm, refusedForm } from '../form.ts';
import { attributes, html } from '../html.ts';
import { commandLine, EVIDENCE_PATH, evidenceTabs } from '../parts/evidence-parts.ts';
import { check, emptyForm, type FormState, selectField, textField } from '../parts/form-parts.ts';
import { wholeText } from '../parts/number.ts';
import { card, column, heading, notice } from '../parts/page-parts.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit } from '../visit.ts';

const EXPORT_PATH = `${EVIDENCE_PATH}/export`;

/** Exporting a range of the evidence as a file. */
export const exportPages = [
  get('/evidence/export', async (visit) => exportPage(visit, emptyForm({ from_seq: '0', format: 'json' }))),
  post('/evidence/export', send),
];

const seq = z.string().regex(/^(?:0|[1-9]\d{0,14})$/);
const exportForm = z.strictObject({
  from_seq: seq.or(z.literal('')),
  to_seq: seq.or(z.literal('')),
  format: z.enum(EXPORT_FORMATS),
  timestamp: z.literal('on').optional(),
});

async function send(visit: SignedInVisit): Promise<Answer> {
  const { deps, session, words, reply } = visit;
  const { accountId } = session;
  const read = readForm(visit, exportForm);
  if (!read.ok) return refused(visit, Object.keys(read.state.errors));
  const { from_seq, to_seq, format, timestamp } = read.value;
  const asked = {
    ...{ accountId, exportedBy: accountId, format, timestamp: timestamp === 'on' },
    ...{ fromSeq: Number(from_seq), toSeq: to_seq === '' ? null : Number(to_seq) },
  };
  try {
    await sendExport(deps, reply, asked, ({ fromSeq, toSeq }) => ({
      'content-disposition': `attachment; filename="evidence-${accountId}-${fromSeq}-${toSeq}.${format}"`,
      'x-export-entries': String(toSeq - fromSeq + 1),
    }));
    return { kind: 'sent' };
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    if (error.code === 'invalid') {
      return refused(
        visit,
        error.fields.map(({ field }) => field),
      );
    }
    if (error.code !== 'conflict') throw error;
    return exportPage(visit, emptyForm(formValues(visit)), { status: 409, problem: words.evidence.export.busy });
  }
}

function refused(visit: SignedInVisit, fields: readonly string[]): Promise<PageAnswer> {
  const message = visit.words.evidence.export.rangeProblem;
  const problems = fields.map((field) => ({ field, message }));
  return exportPage(visit, refusedForm(formValues(visit), problems), { status: 422 });
}

async function exportPage(
  visit: SignedInVisit,
  state: FormState,
  { status = 200, problem = null }: { readonly status?: number; readonly problem?: string | null } = {},
): Promise<PageAnswer> {
  const { words, language, deps, session, csrf } = visit;
  const text = words.evidence.export;
  const size = await currentSize(deps.sql, session.accountId);
  const stamps = deps.timestamps !== undefined;
  const formats = EXPORT_FORMATS.map((format) => [format, text.formats[format]] as const);
  const seqOptions = { inputmode: 'numeric', maxlength: 15 } as const;
  const form = html`<form ${attributes({
    class: 'form',
    method: 'post',
    action: EXPORT_PATH,
    novalidate: true,
    'data-export': '',
    'data-size': size,
  })}><input type="hidden" name="csrf" value="${csrf}">
<p class="muted">${text.size(wholeText(language, size))}</p><div class="pair">
${textField(state, 'from_seq', { label: text.fromSeq, hint: text.fromHint, ...seqOptions })}
${textField(state, 'to_seq', { label: text.toSeq, hint: text.toHint, ...seqOptions })}</div>
${selectField(state, 'format', { label: text.format }, formats)}
${
  stamps
    ? check(state, { name: 'timestamp', label: text.timestamp, hint: text.timestampHint })
    : html`<p class="muted small">${text.timestampNone}</p>`
}
<div class="actions"><button type="submit" class="button primary">${text.submit}</button></div></form>`;
  const progress = html`<div ${attributes({
    class: 'stack',
    hidden: true,
    'data-progress': '',
    'data-running': text.running,
    'data-done': text.done,
    'data-failed': text.failed,
  })}><progress value="0" aria-label="${text.running}"></progress><p role="status" data-text></p>
<div class="actions"><button type="button" class="button small">${text.stop}</button></div></div>`;
  const body = column(
    heading(words.evidence.title, text.lead),
    evidenceTabs(words, 'export'),
    problem === null ? null : notice('warn', problem),
    card(text.range, [form, progress]),
    card(
      text.checkTitle,
      commandLine('check', 'mandate evidence verify FILE --jwks jwks.json', words.shell),
      text.check,
    ),
  );
  return page('evidence', text.title, body, { status, scripts: ['export'] });
}
