import type { FastifyInstance } from 'fastify';
import type { RouteDependencies } from '../http/dependencies.ts';
import { DOCS_POLICY, docsPage } from './docs-page.ts';
import { openApiDocument } from './openapi-document.ts';

/** GET /api/openapi.json and GET /api/docs: the description of the public API, for anybody (contract §8). */
export function registerOpenApiRoutes(app: FastifyInstance, { issuer }: Pick<RouteDependencies, 'issuer'>): void {
  // Made for the first who asks: making it takes more memory than a control plane that nobody asks should hold.
  let made: { readonly text: string; readonly page: string } | null = null;
  const description = () => {
    if (made !== null) return made;
    const document = openApiDocument(issuer);
    made = { text: JSON.stringify(document), page: docsPage(document) };
    return made;
  };
  app.get('/api/openapi.json', { config: { public: true } }, async (_request, reply) => {
    return reply
      .header('x-content-type-options', 'nosniff')
      .type('application/json; charset=utf-8')
      .send(description().text);
  });
  app.get('/api/docs', { config: { public: true } }, async (_request, reply) => {
    reply.headers({
      'content-security-policy': DOCS_POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    });
    return reply.type('text/html; charset=utf-8').send(description().page);
  });
}
