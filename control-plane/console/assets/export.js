// Shows how far an export is; without this the browser downloads the file by itself.

/** More entries than this are left to the browser, which writes them to the disk as they come. */
const ENTRIES_MAX = 200_000;
const LINE_FEED = 10;

const form = document.querySelector('form[data-export]');
const area = document.querySelector('[data-progress]');

function wanted() {
  const to = form.elements.to_seq.value === '' ? Number(form.dataset.size) : Number(form.elements.to_seq.value);
  return to - Number(form.elements.from_seq.value || 0) + 1;
}

async function download(signal) {
  const [bar, text] = [area.querySelector('progress'), area.querySelector('[data-text]')];
  const body = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.action, { method: 'POST', body, signal });
  // What was refused is shown as a page: the same form, sent without this script.
  if (!answer.ok) {
    form.submit();
    return;
  }
  const entries = Number(answer.headers.get('x-export-entries'));
  const number = new Intl.NumberFormat(document.documentElement.lang);
  bar.max = entries;
  area.hidden = false;
  const parts = [];
  // The first line and the last one are no entries.
  let lines = -2;
  for (const reader = answer.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    for (const byte of value) if (byte === LINE_FEED) lines += 1;
    const seen = Math.max(0, Math.min(lines, entries));
    bar.value = seen;
    text.textContent = `${area.dataset.running}: ${number.format(seen)} / ${number.format(entries)}`;
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts));
  link.download = answer.headers.get('content-disposition').split('"')[1];
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  text.textContent = area.dataset.done;
}

form.addEventListener('submit', async (event) => {
  // The page stays where it is, so that the form can be sent again.
  setTimeout(() => delete form.dataset.sent, 1_000);
  if (wanted() > ENTRIES_MAX) return;
  event.preventDefault();
  if (form.dataset.busy === 'yes') return;
  form.dataset.busy = 'yes';
  const stop = new AbortController();
  area.querySelector('button').onclick = () => stop.abort();
  try {
    await download(stop.signal);
  } catch {
    area.hidden = stop.signal.aborted;
    area.querySelector('[data-text]').textContent = area.dataset.failed;
  }
  form.dataset.busy = 'no';
});
