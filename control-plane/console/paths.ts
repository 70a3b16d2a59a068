/** Below this path everything belongs to the console; `/` leads here (docs/design/0020-where-the-console-is.md). */
export const CONSOLE_PREFIX = '/console';
/** Where assets are served from; their names carry a hash of what they hold. */
export const ASSETS_PREFIX = '/console/assets/';

/** Where approvals are; mails lead to one of them. */
export const APPROVALS_PATH = '/console/approvals';
export const LOGIN_PATH = '/console/login';
export const CONFIRM_PATH = '/console/confirm';

/** The longest address within the console that a form may carry along, in characters. */
const NEXT_MAX_CHARACTERS = 512;

/** Where to go on to: a path of the console itself, or its start; never another site. */
export function nextPath(text: string | undefined): string {
  const within = text !== undefined && text.length <= NEXT_MAX_CHARACTERS && /^\/console(?:[/?][!-~]*)?$/.test(text);
  // What a browser resolves would lead out of the console again.
  return within && !/\\|\/\/|\/(?:\.|%2e)/i.test(text) ? text : CONSOLE_PREFIX;
}
