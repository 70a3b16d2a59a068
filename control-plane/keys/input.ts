import { z } from 'zod';
import { API_SCOPES } from '../../core/api-scopes.ts';
import { wholeNumber } from '../http/request.ts';

const RATE_MAX = 1_000_000;
const NAME_MAX_CHARACTERS = 200;

const name = z
  .string()
  .min(1)
  .max(NAME_MAX_CHARACTERS)
  .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), 'must not hold control characters');

const rate = wholeNumber(1, RATE_MAX).optional();
const rates = {
  verify_per_second: rate,
  verify_burst: rate,
  management_per_second: rate,
  management_burst: rate,
};

export const keyInput = z.strictObject({
  name: name.default('Unnamed key'),
  scopes: z
    .array(z.enum(API_SCOPES, { error: `must be one of ${API_SCOPES.join(', ')}` }))
    .min(1, `must name at least one of ${API_SCOPES.join(', ')}`)
    .refine((scopes) => new Set(scopes).size === scopes.length, 'must not name a scope twice'),
  ...rates,
});
export type KeyInput = z.infer<typeof keyInput>;

export const keyChange = z
  .strictObject({ name: name.optional(), ...rates })
  .refine((change) => Object.values(change).some((value) => value !== undefined), 'must change something');
export type KeyChange = z.infer<typeof keyChange>;
