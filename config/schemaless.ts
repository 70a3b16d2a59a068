/**
 * Fastify's `schemaController` where no route has a schema of its kind: requests are read by strict parsers of ours,
 * and its compilers, which it would load at the start, take 9 MiB in each process.
 */
export const SCHEMALESS = { compilersFactory: { buildValidator: () => unused, buildSerializer: () => unused } };

function unused(): never {
  throw new Error('a route has a schema of fastify: read its request with a parser of ours');
}
