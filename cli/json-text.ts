import { usageError } from './cli-error.ts';

/** JSON text that is put into a body as it stands. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

const PLAIN_DECIMAL = /^(0|[1-9][0-9]{0,15})(\.[0-9]{1,4})?$/;
const WHOLE = /^[1-9][0-9]{0,15}$/;

/**
 * An amount as it was typed, in major units: it goes into the body with these very digits, never through a double.
 *
 * @throws CliError (usage) for anything but plain digits with an optional point
 */
export function amountText(option: string, value: string): JsonText {
  if (PLAIN_DECIMAL.test(value)) return new JsonText(value);
  throw usageError(
    `${option} must be an amount in plain digits, such as 250 or 99.95.`,
    'Leave out signs, spaces, exponents and currency symbols.',
  );
}

/** A whole number above 0 as it was typed. */
export function wholeText(option: string, value: string): JsonText {
  if (WHOLE.test(value)) return new JsonText(value);
  throw usageError(`${option} must be a whole number above 0.`);
}

type Body = { readonly [name: string]: unknown };

/** JSON text of a body; members that are undefined are left out. */
export function bodyText(body: Body): string {
  const members = Object.entries(body)
    .filter(([, value]) => value !== undefined)
    .map(
      ([name, value]) => `${JSON.stringify(name)}:${value instanceof JsonText ? value.text : JSON.stringify(value)}`,
    );
  return `{${members.join(',')}}`;
}
