import { z } from 'zod';
import { bodyValue, wholeNumber } from './body-value.ts';
import type { JsonObject } from './json.ts';
import { isTypeId } from './type-id.ts';

/** The type of the header of a signed tree head: the ES256 receipt of what an account's evidence was at a time. */
export const TREE_HEAD_TYPE = 'sth+jwt';

/** How many entries an account's evidence has, the root over them (hex), and the database's time of saying so. */
export interface TreeHead {
  readonly accountId: string;
  readonly size: number;
  readonly root: string;
  readonly at: string;
}

/** The JSON text of a tree head's claims; `iat` is the NumericDate of `at` (RFC 7519 §2). */
export function treeHeadClaims(issuer: string, { accountId, size, root, at }: TreeHead): string {
  const iat = Math.floor(Date.parse(at) / 1000);
  return JSON.stringify({ iss: issuer, sub: accountId, iat, size, root, at });
}

const claimsSchema = z.strictObject({
  iss: z.url({ protocol: /^https?$/ }),
  sub: z.string().refine((text) => isTypeId(text, 'acc')),
  iat: wholeNumber,
  size: wholeNumber,
  root: z.string().regex(/^[0-9a-f]{64}$/),
  at: z.string().refine((text) => Number.isFinite(Date.parse(text)) && new Date(text).toISOString() === text),
});

/** The tree head in the payload of a token that `checkJws` accepted as TREE_HEAD_TYPE, or null where it states none. */
export function readTreeHead(payload: JsonObject): (TreeHead & { readonly issuer: string }) | null {
  const parsed = claimsSchema.safeParse(bodyValue(payload));
  if (!parsed.success) return null;
  const { iss: issuer, sub: accountId, iat, size, root, at } = parsed.data;
  return Math.floor(Date.parse(at) / 1000) === iat ? { issuer, accountId, size, root, at } : null;
}
