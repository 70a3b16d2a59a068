/**
 * What an API key may be allowed to do; an endpoint needs exactly one of them.
 *
 * Source: interface.md, Authentication 3; contract §8.
 */
export const API_SCOPES = [
  'agents:present',
  'verify',
  'consumptions:write',
  'executions:write',
  'mandates:read',
  'evidence:read',
] as const;
export type ApiScope = (typeof API_SCOPES)[number];
