import { isTypeId, type TypeId, type TypeIdPrefix } from '../../core/type-id.ts';
import { usageError } from '../cli-error.ts';

const NOUNS: Partial<Record<TypeIdPrefix, string>> = {
  mdt: 'mandate',
  gwi: 'gateway instance',
  esc: 'escalation',
  key: 'API key',
  whk: 'webhook',
  dlv: 'delivery',
};

/**
 * An identifier as it may go into a path.
 *
 * @throws CliError (usage) for anything but an identifier of this kind
 */
export function idArgument<P extends TypeIdPrefix>(value: string, prefix: P): TypeId<P> {
  if (isTypeId(value, prefix)) return value;
  throw usageError(
    `${JSON.stringify(value.slice(0, 100))} is not the id of a ${NOUNS[prefix] ?? prefix}.`,
    `It begins with ${prefix}_ and has 26 characters after that; the \`list\` command shows the ones there are.`,
  );
}

/** Collects an option that may be given more than once. */
export function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value];
}

/** Collects a comma-separated option that may be given more than once. */
export function commaList(value: string, before: string[] | undefined): string[] {
  const parts = value.split(',').map((part) => part.trim());
  return [...(before ?? []), ...parts.filter((part) => part !== '')];
}

/** The help of `--totp` at what a person confirms. */
export const TOTP_HELP = 'the code your authenticator shows now, where your session showed one too long ago';
