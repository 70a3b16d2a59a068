// What pages do better with a script; all of it works without. Loaded by every page.

document.documentElement.classList.add('scripted');

/** Times in the reader's own zone; the server writes them in UTC. */
function localTimes(within) {
  const { lang } = document.documentElement;
  // The page's language as it is written where the reader lives.
  const locale = navigator.languages.find((one) => one.split('-')[0] === lang) ?? lang;
  for (const element of within.querySelectorAll('time[data-local]')) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const style = { dateStyle: 'medium', timeStyle: 'short' };
    element.title = element.textContent;
    element.textContent = new Intl.DateTimeFormat(locale, style).format(at);
  }
}

/** Copies what stands in the element that the button names, and says so. */
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  if (source === null) return;
  await navigator.clipboard.writeText(source.textContent.trim());
  const before = button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => {
    button.textContent = before;
  }, 2000);
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-copy], button[data-print]');
  if (button === null) {
    for (const menu of document.querySelectorAll('details.menu[open]')) {
      if (!menu.contains(event.target)) menu.open = false;
    }
    return;
  }
  if ('print' in button.dataset) window.print();
  else void copy(button);
});

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  for (const menu of document.querySelectorAll('details.menu[open]')) {
    menu.open = false;
    menu.querySelector('summary').focus();
  }
});

/** A form is sent once: a second press of its button would do it twice. */
document.addEventListener('submit', (event) => {
  if (event.defaultPrevented || event.target.dataset.sent === 'yes') {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = 'yes';
});
window.addEventListener('pageshow', () => {
  for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent;
});

/** A file is read into the field that its choice names; the form sends the field alone. */
for (const choice of document.querySelectorAll('input[type=file][data-fill]')) {
  choice.addEventListener('change', async () => {
    const field = document.getElementById(choice.dataset.fill);
    const [file] = choice.files;
    if (field !== null && file !== undefined) field.value = await file.text();
  });
}

/**
 * Pages that must not grow old name a stream of events (`data-live`); when it says that something changed, the page is
 * loaded anew. Who has typed something keeps it, and is shown the part that says so (`data-stale`).
 */
function live(element) {
  const events = new EventSource(element.dataset.live);
  events.addEventListener('changed', () => {
    const fields = [...element.querySelectorAll('input:not([type=hidden]), textarea')];
    const stale = element.querySelector('[data-stale]');
    if (stale !== null && fields.some((field) => field.value !== field.defaultValue)) stale.hidden = false;
    // Not reload(): it would send again the form that this page may be the answer to.
    else location.replace(location.href);
  });
  window.addEventListener('pagehide', () => events.close());
}

window.addEventListener('pageshow', (event) => {
  if (event.persisted && document.querySelector('[data-live]') !== null) location.replace(location.href);
});

/** Counts down the milliseconds that were left when the page was made; the browser's own time of day does not matter. */
function countDown(element) {
  const end = Date.now() + Number(element.dataset.countdown);
  const show = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    element.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
    if (left === 0) clearInterval(timer);
  };
  const timer = setInterval(show, 1000);
  show();
}

/** Between two parts of a search: what a service that people share can bear. */
const SEARCH_PAUSE_MS = 200;

/** Another page of the console, or null; the policy lets no script turn a text into markup, which this does not need. */
function pageAt(path) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open('GET', path);
    request.responseType = 'document';
    request.onloadend = () => resolve(request.status === 200 ? request.responseXML : null);
    request.send();
  });
}

/** A search that found nothing in a part of the evidence goes on with the next one, as the link in it would. */
async function searchOn() {
  for (;;) {
    const link = document.querySelector('[data-found] a[data-search-on]');
    if (link === null) return;
    await new Promise((resolve) => setTimeout(resolve, SEARCH_PAUSE_MS));
    const next = (await pageAt(link.href))?.querySelector('[data-found]') ?? null;
    const shown = document.querySelector('[data-found]');
    if (next === null || shown === null) return;
    shown.replaceChildren(...next.children);
    history.replaceState(null, '', link.href);
    localTimes(shown);
  }
}

for (const element of document.querySelectorAll('[data-live]')) live(element);
for (const element of document.querySelectorAll('[data-countdown]')) countDown(element);
localTimes(document);
void searchOn();
