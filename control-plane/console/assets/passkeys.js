// Passkeys: asks the server for a challenge, has the authenticator sign it, and sends the answer as a form.

/** Sends a form's fields and reads JSON; throws an Error whose message may be shown. */
async function send(path, fields, otherwise) {
  const answer = await fetch(path, { method: 'POST', body: new URLSearchParams(fields), credentials: 'same-origin' });
  if (answer.redirected) {
    // Another page comes first: a sign-in, or a fresh second factor.
    location.assign(answer.url);
    return new Promise(() => {});
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok || body === null) throw new Error(body?.message ?? otherwise);
  return body;
}

function tell(form, message) {
  const place = form.querySelector('[data-passkey-error]');
  place.textContent = message;
  place.hidden = message === '';
}

async function run(form) {
  const { begin, finish, passkey, failed } = form.dataset;
  const fields = Object.fromEntries(new FormData(form));
  const { options } = await send(begin, fields, failed);
  let credential;
  try {
    credential =
      passkey === 'create'
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  } catch {
    // Cancelled, timed out or not known here: browsers do not tell these apart on purpose.
    throw new Error(failed);
  }
  const { to } = await send(finish, { ...fields, response: JSON.stringify(credential.toJSON()) }, failed);
  location.assign(to);
}

const able = 'PublicKeyCredential' in window && 'parseCreationOptionsFromJSON' in PublicKeyCredential;
for (const form of document.querySelectorAll('form[data-passkey]')) {
  if (!able) {
    form.hidden = true;
    continue;
  }
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    event.stopPropagation();
    tell(form, '');
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      await run(form);
    } catch (error) {
      tell(form, error.message);
      button.disabled = false;
    }
  });
}
