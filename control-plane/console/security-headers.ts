import type { FastifyReply } from 'fastify';

/** Nothing but what this service serves itself; no code in pages, no frames, no other place for forms (CSP level 3). */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

const PERMISSIONS_POLICY = [
  'accelerometer=()',
  'camera=()',
  'display-capture=()',
  'geolocation=()',
  'gyroscope=()',
  'microphone=()',
  'payment=()',
  'usb=()',
  'publickey-credentials-create=(self)',
  'publickey-credentials-get=(self)',
  'clipboard-write=(self)',
].join(', ');

/** A year, in seconds; told behind TLS only. */
const TRANSPORT_SECURITY = 'max-age=31536000';

/**
 * Sets what every answer of the console carries.
 *
 * The referrer stays within this site; with `no-referrer` browsers would send `Origin: null` with our own forms, and
 * its check would be worth nothing (docs/design/0021-what-a-console-session-is.md).
 */
export function securityHeaders(reply: FastifyReply, secure: boolean): void {
  reply.headers({
    'content-security-policy': CONTENT_SECURITY_POLICY,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'same-origin',
    'permissions-policy': PERMISSIONS_POLICY,
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    ...(secure ? { 'strict-transport-security': TRANSPORT_SECURITY } : {}),
  });
}
