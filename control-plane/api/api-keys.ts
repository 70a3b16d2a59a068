import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ApiScope } from '../../core/api-scopes.ts';
import { ProblemError } from '../../core/errors.ts';
import { isSecretToken } from '../../core/secret-token.ts';
import { bearerToken, refuseRepeatedCredential } from '../http/credential.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { countAgainstAddress, countAgainstCredential } from '../http/rate-limit.ts';
import { findKey, type LiveKey } from '../keys/store.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that an API key needs here. */
    readonly scope?: ApiScope;
    /** Whether anybody may ask; whatever credential is shown is not looked at. */
    readonly public?: true;
    /** Whether a gateway token is let through as well; the route itself then finds out whose it is. */
    readonly gatewayToken?: true;
  }
}

const keys = new WeakMap<FastifyRequest, LiveKey>();

/**
 * Lets a request to a route below `/api/` pass with a live API key that has the route's scope only.
 *
 * Each such route declares `config: { scope }` or `config: { public: true }`; one that declares neither cannot be
 * registered. Answers 401 `unauthenticated`, 403 `insufficient_scope` (RFC 6750 §3.1), 429 `rate_limited`. Source:
 * interface.md, Authentication; contract §8.
 */
export function requireApiKeys(app: FastifyInstance, deps: RouteDependencies): void {
  app.addHook('onRoute', ({ url, config }) => {
    if (!url.startsWith('/api/')) return;
    const [scoped, open] = [config?.scope !== undefined, config?.public === true];
    if (scoped === open)
      throw new Error(`the route ${url} must declare either the scope it needs or that it is public`);
  });
  app.addHook('onRequest', async (request) => {
    const { scope, gatewayToken } = request.routeOptions.config;
    if (scope === undefined) return;
    refuseRepeatedCredential(request);
    const token = bearerToken(request);
    if (gatewayToken === true && isSecretToken(token, 'gwt')) return;
    const key = isSecretToken(token, 'mak') ? await findKey(deps.sql, token) : null;
    if (key === null) {
      await countAgainstAddress(request, deps);
      throw new ProblemError('unauthenticated', 'Send a valid API key: Authorization: Bearer mak_…');
    }
    await countAgainstCredential(request, deps, key.management);
    deps.keyUses.note(key.accountId, key.keyId, key.nowMs);
    if (!key.scopes.includes(scope)) {
      throw new ProblemError('insufficient_scope', `This needs an API key with the scope ${scope}.`);
    }
    keys.set(request, key);
  });
}

/** The API key of a request that passed; throws where none was required. */
export function apiKeyOf(request: FastifyRequest): LiveKey {
  const key = keys.get(request);
  if (key === undefined) throw new Error('this route has no API key');
  return key;
}

/** The same, or null where the route lets a gateway token through and one was shown. */
export function apiKeyOrNull(request: FastifyRequest): LiveKey | null {
  return keys.get(request) ?? null;
}
