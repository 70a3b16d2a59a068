import { ProblemError } from '../../core/errors.ts';
import { isTypeId, type TypeIdPrefix } from '../../core/type-id.ts';
import type { Visit } from './visit.ts';

/** The identifier in a page's path (`:id`); anything that is none of this kind is 404, like one of somebody else. */
export function idOf({ request }: Pick<Visit, 'request'>, prefix: TypeIdPrefix): string {
  const { id } = request.params as { readonly id?: unknown };
  if (isTypeId(id, prefix)) return id;
  throw new ProblemError('not_found', 'There is nothing with this identifier.');
}
