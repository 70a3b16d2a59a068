import type { RegisterRoutes } from '../server.ts';
import type { SigningKeys } from './signing-keys.ts';

/** `GET /.well-known/jwks.json`: every public key, for anybody (contract §8). */
export function jwksRoute(signing: Pick<SigningKeys, 'jwks'>): RegisterRoutes {
  return (app) => {
    app.get('/.well-known/jwks.json', async (_request, reply) => {
      reply.type('application/jwk-set+json').serializer((body: unknown) => JSON.stringify(body));
      return signing.jwks();
    });
  };
}
