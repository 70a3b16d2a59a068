import { typeIdPattern } from '../../core/body-fields.ts';
import type { ProblemCode } from '../../core/errors.ts';
import { IDS } from './example-facts.ts';
import type { Operation } from './operation.ts';

/** The operations of dossiers; what may go wrong with any request, and with any that needs a key, is given. */
export function dossierOperations(passedOn: readonly ProblemCode[], needsKey: readonly ProblemCode[]): Operation[] {
  return [
    {
      methods: ['get'],
      path: '/api/v1/verifications/{id}/dossier',
      id: 'dossier',
      tag: 'Evidence',
      summary: 'Get the dossier of a decision',
      description:
        'Everything about one decision that a stranger can check offline, sealed by the service. It needs the ' +
        'mat_compact of that very decision, which may have expired. With `Accept: text/html` it is a page to print. ' +
        'A decision without a MAT has its dossier in the console and with `mandate dossier get`.',
      access: { kind: 'key', scope: 'evidence:read', gatewayToken: false },
      parameters: [
        {
          ...{ name: 'id', in: 'path', required: true, example: IDS.receipt },
          description: 'The receipt of the decision.',
          schema: { type: 'string', pattern: typeIdPattern('rcp') },
        },
        {
          ...{ name: 'mat', in: 'query', required: true, example: 'eyJhbGciOiJFUzI1NiIs…' },
          description: 'The mat_compact of the verify answer.',
          schema: { type: 'string', minLength: 1 },
        },
      ],
      answers: [
        {
          status: '200',
          description: 'The dossier.',
          content: { type: 'application/json', schema: 'Dossier', examples: {} },
        },
      ],
      problems: [...passedOn, ...needsKey, 'forbidden', 'not_found', 'invalid'],
    },
    {
      methods: ['get'],
      path: '/api/v1/dossier-schema',
      id: 'dossierSchema',
      tag: 'Evidence',
      summary: 'Get the JSON Schema of a dossier',
      description: 'Of its version 1, which never changes.',
      access: { kind: 'public' },
      answers: [
        {
          status: '200',
          description: 'The schema.',
          content: { type: 'application/schema+json', schema: 'any', examples: {} },
        },
      ],
      problems: passedOn,
    },
  ];
}
