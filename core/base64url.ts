/**
 * The bytes of base64url without padding (RFC 4648 §5), or null where the text is not their only spelling: other
 * alphabets, padding, spaces, and a last character with bits that belong to no byte are refused.
 */
export function base64urlBytes(text: string): Buffer | null {
  // Node skips what it does not know; whatever it skipped is missing when the bytes are written again.
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}

/** Whether `text` is base64url in its only spelling. */
export function isCanonicalBase64url(text: string): boolean {
  return base64urlBytes(text) !== null;
}
