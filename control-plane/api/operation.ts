import type { ApiScope } from '../../core/api-scopes.ts';
import type { ProblemCode } from '../../core/errors.ts';
import type { SchemaName } from './document-schemas.ts';

/** The methods that a path of the document may have, in the order in which it names them. */
export const DOCUMENT_METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const;
export type DocumentMethod = (typeof DOCUMENT_METHODS)[number];

/** Examples by what they show. */
export type Examples = Readonly<Record<string, unknown>>;

/** What a parameter is: in a path, a query or a header, and a text as `schema` says. */
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly example: string;
}

/** The headers that an answer may have besides those of every answer. */
export type HeaderName =
  | 'X-Idempotent-Replay'
  | 'Retry-After'
  | 'WWW-Authenticate'
  | 'X-Service-Decision'
  | 'X-Service-Receipt';

/** An answer that is no problem document; `content` null: it is not described here what it holds. */
export interface OperationAnswer {
  readonly status: `${number}` | 'default';
  readonly description: string;
  readonly content: {
    readonly type: string;
    readonly schema: SchemaName | 'any' | 'text' | 'bytes';
    readonly examples: Examples;
  } | null;
  /** Another form of the same, where the request asks for it. */
  readonly also?: { readonly type: string; readonly schema: 'text' };
  readonly headers?: readonly HeaderName[];
}

/** Who may ask: anybody, a gateway's agent, or who has an API key with a scope (where it says so, an agent as well). */
export type Access =
  | { readonly kind: 'public' }
  | { readonly kind: 'gateway' }
  | { readonly kind: 'key'; readonly scope: ApiScope; readonly gatewayToken: boolean };

/** One operation of the API, as the document describes it. */
export interface Operation {
  /** More than one: the path answers them all alike. */
  readonly methods: readonly DocumentMethod[];
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly access: Access;
  readonly parameters?: readonly Parameter[];
  readonly body?: { readonly type: string; readonly schema: SchemaName | 'any'; readonly examples: Examples };
  readonly answers: readonly OperationAnswer[];
  readonly problems: readonly ProblemCode[];
}
