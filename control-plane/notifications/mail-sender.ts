import type { Transporter } from 'nodemailer';
import type SMTPTransport from 'nodemailer/lib/smtp-transport';
import { SMTP_STEP_TIMEOUT_MS, SMTP_TIMEOUT_MS } from '../../core/limits.ts';
import type { Attempt } from './deliveries.ts';
import type { MailText } from './mail-text.ts';

export interface MailSenderOptions {
  /** `smtp://` or `smtps://`, with user and password where the server wants them. */
  readonly smtpUrl: string;
  /** `Name <address>` or an address. */
  readonly from: string;
  /** Whether a server that offers no STARTTLS is spoken to in plain text. */
  readonly allowPlaintext: boolean;
}

export interface Mail extends MailText {
  readonly to: string;
  /** The same for each attempt: who gets it twice can tell. */
  readonly id: string;
}

/** Sends e-mail by SMTP, each over a connection of its own. */
export class MailSender {
  readonly #options: SMTPTransport.Options;
  #transport: Promise<Transporter> | null = null;
  readonly #from: { readonly name: string; readonly address: string };

  constructor({ smtpUrl, from, allowPlaintext }: MailSenderOptions) {
    const url = new URL(smtpUrl);
    const secure = url.protocol === 'smtps:';
    this.#from = mailboxOf(from);
    this.#options = {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port || (secure ? 465 : 587)),
      secure,
      requireTLS: !secure && !allowPlaintext,
      ...(url.username === ''
        ? {}
        : { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }),
      connectionTimeout: SMTP_STEP_TIMEOUT_MS,
      greetingTimeout: SMTP_STEP_TIMEOUT_MS,
      socketTimeout: SMTP_STEP_TIMEOUT_MS,
      dnsTimeout: SMTP_STEP_TIMEOUT_MS,
      // Nothing of a message is ever taken from a file or an address.
      disableFileAccess: true,
      disableUrlAccess: true,
    };
  }

  /** Sends a mail once; never throws. */
  async send({ to, id, subject, text, html }: Mail): Promise<Attempt> {
    const domain = this.#from.address.slice(this.#from.address.indexOf('@') + 1);
    // Loaded with the first mail: it holds 25 MB.
    this.#transport ??= import('nodemailer').then(({ createTransport }) => createTransport(this.#options));
    const transport = await this.#transport;
    const sending = transport.sendMail({
      from: this.#from,
      // As an object, which is no list and is not parsed.
      to: { name: '', address: to },
      subject: oneLine(subject),
      text,
      html,
      messageId: `<${id}@${domain}>`,
      headers: { 'Auto-Submitted': 'auto-generated' },
    });
    try {
      await inTime(sending);
      return { error: null, status: null, final: false };
    } catch (error) {
      const { responseCode, code } = error as { readonly responseCode?: unknown; readonly code?: unknown };
      const status = typeof responseCode === 'number' ? responseCode : null;
      // A recipient that is refused for good stays refused; a login that fails is the operator's to mend.
      const final = code === 'EENVELOPE' && status !== null && status >= 500;
      return { error: status === null ? 'unreachable' : 'refused', status, final };
    }
  }

  close(): void {
    void this.#transport?.then((transport) => transport.close());
  }
}

function inTime<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the mail was not taken in time')), SMTP_TIMEOUT_MS);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A sender as it is configured: `Name <address>` or an address. */
export function mailboxOf(text: string): { readonly name: string; readonly address: string } {
  const [, name = '', address = text] = /^(.*?)\s*<([^<>]+)>$/.exec(text) ?? [];
  return { name: name.replace(/^"(.*)"$/, '$1'), address };
}

/** A header's text: no control character, so that nothing in it can begin another header. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
}
