import type { FastifyInstance } from 'fastify';
import { DENIAL_CODE_VERSION, DENIAL_CODES } from '../../core/denial-codes.ts';

/** The table of denial codes in check order, for anybody; it changes with its version only (contract §4). */
export function registerDenialCodeRoutes(app: FastifyInstance): void {
  const table = {
    denial_code_version: DENIAL_CODE_VERSION,
    codes: DENIAL_CODES.map(([code, name, description], i) => ({ code, name, order: i + 1, description })),
  };
  app.get('/api/v1/denial-codes', { config: { public: true } }, async () => table);
}
