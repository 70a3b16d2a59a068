import type { FastifyInstance } from 'fastify';
import { DENIAL_CODE_VERSION, DENIAL_CODES } from '../../core/denial-codes.ts';

/** The table of denial codes in check order, as it is published. */
export const DENIAL_CODE_TABLE = {
  denial_code_version: DENIAL_CODE_VERSION,
  codes: DENIAL_CODES.map(([code, name, description], i) => ({ code, name, order: i + 1, description })),
} as const;

/** GET /api/v1/denial-codes, for anybody; the table changes with its version only (contract §4). */
export function registerDenialCodeRoutes(app: FastifyInstance): void {
  app.get('/api/v1/denial-codes', { config: { public: true } }, async () => DENIAL_CODE_TABLE);
}
