import { createHmac, randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;
const PREFIX = 'whsec_';

/** Makes a new secret of an endpoint. */
export function newWebhookKey(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** A secret as its receiver is told it. */
export function webhookSecret(key: Buffer): string {
  return PREFIX + key.toString('base64');
}

/**
 * The headers that prove a message: HMAC-SHA256 over `id.timestamp.body`, one signature for each key.
 *
 * `atSeconds` is when it is sent, in Unix seconds. Source: Standard Webhooks 1.0, "Signature scheme".
 */
export function signedHeaders(
  message: { readonly id: string; readonly atSeconds: number; readonly body: string },
  keys: readonly Buffer[],
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const { id, atSeconds, body } = message;
  const signatures = keys.map((key) => {
    return `v1,${createHmac('sha256', key).update(`${id}.${atSeconds}.${body}`, 'utf8').digest('base64')}`;
  });
  return {
    'webhook-id': id,
    'webhook-timestamp': String(atSeconds),
    'webhook-signature': signatures.join(' '),
  };
}
