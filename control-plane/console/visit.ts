import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { UnknownAddresses } from '../accounts/lock-out.ts';
import type { ConsoleSession, SessionOrigin } from '../accounts/sessions.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import type { ScriptName } from './assets.ts';
import type { Cookies } from './cookies.ts';
import type { Fragment } from './html.ts';
import type { PendingWatch } from './pending-watch.ts';
import type { Language, Words } from './words.ts';

export type Theme = 'light' | 'dark';

/** What all pages share, besides the dependencies of every route. */
export interface ConsoleDependencies extends RouteDependencies {
  readonly cookies: Cookies;
  /** Where the console is used; the first is the service's own. */
  readonly origins: readonly string[];
  readonly unknownAddresses: UnknownAddresses;
  /** The streams of events that are open here: a control plane that stops ends them. */
  readonly streams: Map<ServerResponse, string>;
  /** Looks for pending escalations while pages that show them are open. */
  readonly pending: PendingWatch;
}

/** One request to a page, by anybody. */
export interface Visit {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly deps: ConsoleDependencies;
  readonly language: Language;
  readonly words: Words;
  /** The theme that was chosen; null: the system's. */
  readonly theme: Theme | null;
  /** What the token of forms is made from: the session's token, or the visit's; renewed with the session. */
  readonly secret: { value: string };
  /** The token that every form of this page carries. */
  readonly csrf: string;
  /** The message that the request before left for this page. */
  readonly flash: Flash | null;
  readonly session: ConsoleSession | null;
}

/** One request to a page by a person who is signed in. */
export interface SignedInVisit extends Visit {
  readonly session: ConsoleSession;
}

/** The messages that may be shown once on the next page: `<noun>.<key>` of `flash` in that noun's words. */
export type Flash = {
  [N in keyof Words]: Words[N] extends { readonly flash: infer F } ? `${N}.${Extract<keyof F, string>}` : never;
}[keyof Words];

/** The entry of the navigation that a page belongs to. */
export type Section =
  | 'overview'
  | 'approvals'
  | 'mandates'
  | 'gateways'
  | 'keys'
  | 'evidence'
  | 'reconcile'
  | 'settings'
  | 'account';

/** A page: a title, what is in it, and for whom it is framed. */
export interface PageAnswer {
  readonly kind: 'page';
  readonly status: number;
  readonly title: string;
  /** null: a page outside the shell (sign-in, sign-up, confirmation). */
  readonly section: Section | null;
  readonly body: Fragment;
  /** Scripts besides the one that every page has; the page works without. */
  readonly scripts: readonly ScriptName[];
  /** Seconds after which a browser without scripts loads it anew; null: never. */
  readonly refreshSeconds: number | null;
}

/** What a handler answers: a page, another address to look at, or what it has sent itself (downloads, events). */
export type Answer =
  | PageAnswer
  | { readonly kind: 'redirect'; readonly to: string; readonly flash: Flash | null }
  | { readonly kind: 'json'; readonly status: number; readonly body: object }
  | { readonly kind: 'sent' };

/** A page in the shell. */
export function page(
  section: Section | null,
  title: string,
  body: Fragment,
  more: Partial<Pick<PageAnswer, 'status' | 'scripts' | 'refreshSeconds'>> = {},
): PageAnswer {
  const { status = 200, scripts = [], refreshSeconds = null } = more;
  return { kind: 'page', status, title, section, body, scripts, refreshSeconds };
}

/** 303 to another page of the console, which shows the message once: what follows every post that changed something. */
export function seeOther(to: string, flash: Flash | null = null): Answer {
  return { kind: 'redirect', to, flash };
}

/** A page of the console: its path below `/console`, and who may see it. */
export type ConsoleRoute =
  | {
      readonly access: 'open';
      readonly method: 'GET' | 'POST';
      readonly path: string;
      readonly answer: (visit: Visit) => Promise<Answer>;
    }
  | {
      readonly access: 'signed-in';
      readonly method: 'GET' | 'POST';
      readonly path: string;
      readonly answer: (visit: SignedInVisit) => Promise<Answer>;
      /** Of a form that may be larger than others. */
      readonly bodyLimitBytes?: number;
    };

/** A page that needs a session; its handler looks only at rows of `visit.session.accountId`. */
export function get(path: string, answer: (visit: SignedInVisit) => Promise<Answer>): ConsoleRoute {
  return { access: 'signed-in', method: 'GET', path, answer };
}

/** A form that needs a session; its CSRF token and origin were checked before the handler runs. */
export function post(
  path: string,
  answer: (visit: SignedInVisit) => Promise<Answer>,
  more: { readonly bodyLimitBytes?: number } = {},
): ConsoleRoute {
  return { access: 'signed-in', method: 'POST', path, answer, ...more };
}

/** A page for everybody. */
export function openGet(path: string, answer: (visit: Visit) => Promise<Answer>): ConsoleRoute {
  return { access: 'open', method: 'GET', path, answer };
}

/** A form for everybody; its CSRF token and origin are checked as well. */
export function openPost(path: string, answer: (visit: Visit) => Promise<Answer>): ConsoleRoute {
  return { access: 'open', method: 'POST', path, answer };
}

/** Who asks for a session here. */
export function originOf({ request }: Visit): SessionOrigin {
  return { kind: 'console', userAgent: request.headers['user-agent'] ?? null };
}

/** Thrown by whatever needs the visitor somewhere else first. */
export class ElsewhereFirst extends Error {
  override readonly name = 'ElsewhereFirst';
  readonly to: string;

  constructor(to: string) {
    super('another page comes first');
    this.to = to;
  }
}
