import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * The cookies of the console. All are HttpOnly and SameSite=Lax, and live on one host only.
 *
 * session: who is signed in. visit: binds the forms of somebody who is not. setup: a sign-up or a new second factor
 * that is not confirmed yet, sealed. challenge: what a passkey has to sign, sealed. flash: the key of one message.
 */
const NAMES = ['session', 'visit', 'setup', 'challenge', 'flash', 'language', 'theme'] as const;
export type CookieName = (typeof NAMES)[number];

/** What a browser stores of one cookie; a sealed sign-up is the longest. */
const VALUE_MAX_CHARACTERS = 3_800;
const VALUE = /^[A-Za-z0-9_.-]+$/;

/**
 * How cookies are named and marked: behind TLS `__Host-` and Secure; on plain HTTP neither, since no browser would
 * keep them. The other name makes sure that a cookie of the one kind is never taken for one of the other.
 */
export class Cookies {
  readonly #secure: boolean;

  constructor(issuer: string) {
    this.#secure = new URL(issuer).protocol === 'https:';
  }

  /** The name that the browser knows a cookie by. */
  nameOf(name: CookieName): string {
    return this.#secure ? `__Host-mandate_${name}` : `mandate_plain_${name}`;
  }

  /** The value of a cookie, or null where there is none, more than one, or text that we would not have set. */
  read(request: FastifyRequest, name: CookieName): string | null {
    const wanted = `${this.nameOf(name)}=`;
    const found = (request.headers.cookie ?? '').split(/; */).filter((one) => one.startsWith(wanted));
    const value = found.length === 1 ? found[0]?.slice(wanted.length) : undefined;
    return value !== undefined && value.length <= VALUE_MAX_CHARACTERS && VALUE.test(value) ? value : null;
  }

  /** Sets a cookie for this visit, or for `seconds`. */
  set(reply: FastifyReply, name: CookieName, value: string, seconds: number | null = null): void {
    if (!VALUE.test(value) || value.length > VALUE_MAX_CHARACTERS)
      throw new RangeError(`no value of a cookie: ${name}`);
    const age = seconds === null ? '' : `; Max-Age=${seconds}`;
    this.#write(reply, name, `${value}${age}`);
  }

  /** Has the browser forget a cookie. */
  clear(reply: FastifyReply, name: CookieName): void {
    this.#write(reply, name, '; Max-Age=0');
  }

  #write(reply: FastifyReply, name: CookieName, rest: string): void {
    const mine = `${this.nameOf(name)}=`;
    const before = [reply.getHeader('set-cookie') ?? []].flat().map(String);
    const others = before.filter((line) => !line.startsWith(mine));
    const flags = `; Path=/; HttpOnly; SameSite=Lax${this.#secure ? '; Secure' : ''}`;
    reply.removeHeader('set-cookie');
    reply.header('set-cookie', [...others, `${mine}${rest}${flags}`]);
  }
}
