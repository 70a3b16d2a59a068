import { z } from 'zod';
import { wholeNumber } from '../http/request.ts';

const RATE_MAX = 1_000_000;
const NAME_MAX_CHARACTERS = 200;
const CREDENTIAL_MAX_CHARACTERS = 4_096;

/** Header names that a credential may not use: of the connection, the body, the way here, or changing the request. */
const RESERVED = new Set([
  ...['host', 'content-length', 'content-type', 'content-encoding', 'transfer-encoding', 'connection', 'keep-alive'],
  ...['te', 'trailer', 'upgrade', 'expect', 'proxy-authorization', 'proxy-connection', 'idempotency-key', 'prefer'],
  ...['via', 'forwarded', 'x-real-ip', 'x-host', 'x-original-host', 'x-original-url', 'x-rewrite-url'],
  ...['x-http-method', 'x-http-method-override', 'x-method-override', 'proxy-authenticate'],
]);

const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^`|~0-9A-Za-z-]{1,128}$/, 'must be a header name (without "_")')
  .refine(
    (name) => !RESERVED.has(name.toLowerCase()),
    'must not be a header of the connection, the body, or one that changes the request',
  )
  .refine((name) => !/^x-(?:service|forwarded|mandate)-/i.test(name), 'must not be one of our own headers');

const credential = z.strictObject({
  header: headerName,
  value: z
    .string()
    .regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, 'must be visible ASCII, without spaces around it')
    .max(CREDENTIAL_MAX_CHARACTERS),
});

const name = z
  .string()
  .min(1)
  .max(NAME_MAX_CHARACTERS)
  .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), 'must not hold control characters');

export const gatewayInput = z.strictObject({
  mandate_id: z.string(),
  target_url: z.string(),
  name: name.default('Unnamed gateway'),
  credential: credential.optional(),
  rate_per_second: wholeNumber(1, RATE_MAX).optional(),
  rate_burst: wholeNumber(1, RATE_MAX).optional(),
});
export type GatewayInput = z.infer<typeof gatewayInput>;

export const gatewayChange = z
  .strictObject({
    target_url: z.string().optional(),
    name: name.optional(),
    credential: credential.nullish(),
    rate_per_second: wholeNumber(1, RATE_MAX).optional(),
    rate_burst: wholeNumber(1, RATE_MAX).optional(),
  })
  .refine((change) => Object.values(change).some((value) => value !== undefined), 'must change something');
export type GatewayChange = z.infer<typeof gatewayChange>;
