import type { Command } from 'commander';
import type { AdminClient, Answer, JsonRecord } from '../admin-client.ts';
import { CliError, usageError } from '../cli-error.ts';
import { type Invocation, recordOf } from '../invocation.ts';
import { bodyText } from '../json-text.ts';
import { fields, printable } from '../output.ts';
import { ask, secretFromStdin } from '../prompt.ts';
import { freshCode, otpauthQr } from '../second-factor.ts';
import { readSession, sessionOf, writeSession } from '../session-file.ts';

interface SignInOptions {
  email: string;
  passwordStdin?: true;
  totp?: string;
  totpSecret?: string;
}

/** `mandate signup | login | logout | whoami`: an account with its second factor, and the CLI's session. */
export function registerAccount(program: Command, invocation: Invocation): void {
  program
    .command('signup')
    .description('make an account, with its second factor')
    .requiredOption('--email <address>', 'your e-mail address')
    .option('--password-stdin', 'read the password from standard input instead of asking for it')
    .option('--totp-secret <base32>', 'use this TOTP secret and answer for it (for scripts)')
    .action((options: SignInOptions) => signUp(invocation, options));
  program
    .command('login')
    .description('sign in; the session is kept in a file of mode 0600')
    .requiredOption('--email <address>', 'your e-mail address')
    .option('--password-stdin', 'read the password from standard input instead of asking for it')
    .option('--totp <code>', 'the code your authenticator shows now')
    .option('--totp-secret <base32>', 'compute the code from this TOTP secret (for scripts)')
    .action((options: SignInOptions) => logIn(invocation, options));
  program
    .command('logout')
    .description('end the session, here and at the control plane')
    .action(() => logOut(invocation));
  program
    .command('whoami')
    .description('show the account you are signed in to')
    .action(async () => {
      const answer = await (await invocation.client()).get('/admin/account');
      invocation.show(answer, accountCard);
    });
}

async function signUp(invocation: Invocation, options: SignInOptions): Promise<void> {
  const scripted = options.totpSecret !== undefined;
  if (!scripted && !canAsk(invocation, options)) {
    throw usageError(
      'The first code of the second factor must be asked for, and this is no terminal.',
      'Give --totp-secret <base32>, or run `mandate signup` at a terminal without --password-stdin.',
    );
  }
  const client = invocation.anonymous();
  const password = await readPassword(invocation, options, 'Choose a password: ');
  const body = bodyText({ email: options.email, password, totp_secret: options.totpSecret });
  const begun = (await client.send('POST', '/admin/signup', body)).value;
  const code = scripted
    ? await freshCode(options.totpSecret ?? '')
    : await showAndAsk(invocation, recordOf(begun, 'totp'));
  const confirm = bodyText({ signup_token: begun['signup_token'], totp_code: code });
  const answer = await client.send('POST', '/admin/signup/confirm', confirm);
  await keepSession(invocation, options.email, answer);
}

function canAsk(invocation: Invocation, options: SignInOptions): boolean {
  return invocation.io.stdin.isTTY === true && options.passwordStdin !== true;
}

async function showAndAsk(invocation: Invocation, totp: JsonRecord): Promise<string> {
  const uri = String(totp['otpauth_uri'] ?? '');
  const { stderr } = invocation.io;
  stderr.write(`${await otpauthQr(uri)}\n`);
  stderr.write('Scan this with your authenticator app, or enter the address by hand:\n');
  stderr.write(`  ${printable(uri)}\n\n`);
  return (await ask(invocation.io, 'The code it shows: ', { hidden: false })).replaceAll(/\s/g, '');
}

async function logIn(invocation: Invocation, options: SignInOptions): Promise<void> {
  if (options.totp !== undefined && options.totpSecret !== undefined) {
    throw usageError('--totp and --totp-secret were both given: give one of them.');
  }
  if (options.totp === undefined && options.totpSecret === undefined && !canAsk(invocation, options)) {
    throw usageError('The code of the second factor is missing.', 'Give --totp <code> or --totp-secret <base32>.');
  }
  const client = invocation.anonymous();
  const password = await readPassword(invocation, options, 'Password: ');
  const answer =
    options.totpSecret === undefined
      ? await logInWith(client, options.email, password, options.totp ?? (await askCode(invocation)))
      : await logInWithSecret(invocation, client, { email: options.email, password, secret: options.totpSecret });
  await keepSession(invocation, options.email, answer);
}

async function askCode(invocation: Invocation): Promise<string> {
  return (await ask(invocation.io, 'Code of your second factor: ', { hidden: false })).replaceAll(/\s/g, '');
}

function logInWith(client: AdminClient, email: string, password: string, code: string): Promise<Answer> {
  return client.send('POST', '/admin/login', bodyText({ email, password, totp_code: code }));
}

/** A code is good for one use: where the present one was used already (by `signup`, say), waits for the next one. */
async function logInWithSecret(
  invocation: Invocation,
  client: AdminClient,
  credentials: { email: string; password: string; secret: string },
): Promise<Answer> {
  const { email, password, secret } = credentials;
  const first = await freshCode(secret);
  try {
    return await logInWith(client, email, password, first);
  } catch (error) {
    if (!(error instanceof CliError) || !error.json.includes('"unauthenticated"')) throw error;
    invocation.note('The code was refused; it may have been used already. Waiting for the next one …');
    return logInWith(client, email, password, await freshCode(secret, first));
  }
}

async function readPassword(invocation: Invocation, options: SignInOptions, question: string): Promise<string> {
  if (options.passwordStdin === true) return secretFromStdin(invocation.io, 'password');
  if (invocation.io.stdin.isTTY === true) return ask(invocation.io, question, { hidden: true });
  throw usageError('The password is missing and this is no terminal.', 'Pipe it in and give --password-stdin.');
}

async function keepSession(invocation: Invocation, email: string, answer: Answer): Promise<void> {
  const session = sessionOf({ ...answer.value, email });
  await writeSession(invocation.sessionPath, invocation.config.controlUrl, session);
  invocation.show(answer, () =>
    fields([
      ['account', session.account_id],
      ['signed in as', email],
      ['until', session.expires_at],
      ['session file', invocation.sessionPath],
    ]),
  );
}

async function logOut(invocation: Invocation): Promise<void> {
  const client = await invocation.client();
  const { controlUrl, token } = invocation.config;
  try {
    await client.send('POST', '/admin/logout');
  } catch (error) {
    // A session that the control plane no longer knows is over as well.
    if (!(error instanceof CliError) || !error.json.includes('"unauthenticated"')) throw error;
  }
  if (token === null && (await readSession(invocation.sessionPath, controlUrl)) !== null) {
    await writeSession(invocation.sessionPath, controlUrl, null);
  }
  invocation.show({ text: '{"logged_out":true}', value: {} }, () => 'Signed out.\n');
}

function accountCard(account: JsonRecord): string {
  const evidence = recordOf(account, 'evidence');
  return fields([
    ['account', account['account_id']],
    ['e-mail', account['email']],
    ['created', account['created_at']],
    ['evidence', `${evidence['size'] ?? 0} entries, head ${evidence['hash'] ?? ''}`],
  ]);
}
