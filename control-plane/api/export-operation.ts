import type { Operation } from './operation.ts';

/** Exports of evidence (contract §10). */
export const EXPORT: Operation = {
  methods: ['post'],
  path: '/api/v1/evidence/export',
  id: 'exportEvidence',
  tag: 'Evidence',
  summary: 'Export evidence as a file that checks alone',
  description:
    'Streams the entries of a range, each as the very text that was hashed, between a header and a signed receipt ' +
    'with the root over everything up to the last of them. The export is itself an entry: without to_seq, the ' +
    "file's last. A file without its last line was cut off. One export or replay of an account runs at a time.",
  access: { kind: 'key', scope: 'evidence:read', gatewayToken: false },
  body: {
    type: 'application/json',
    schema: 'EvidenceExportRequest',
    examples: { all: {}, range: { from_seq: 1_000, to_seq: 1_999, format: 'ndjson', timestamp: true } },
  },
  answers: [
    {
      status: '200',
      description: 'The file; as NDJSON a line each for the header, the entries, and the trailer with the receipt.',
      content: { type: 'application/json', schema: 'EvidenceExport', examples: {} },
      also: { type: 'application/x-ndjson', schema: 'text' },
    },
  ],
  problems: [
    ...([
      'malformed_request',
      'ambiguous_path',
      'repeated_header',
      'rate_limited',
      'internal',
      'not_decidable',
    ] as const),
    ...(['unauthenticated', 'insufficient_scope', 'malformed_json', 'payload_too_large'] as const),
    ...(['unsupported_media_type', 'invalid', 'conflict', 'overloaded', 'timestamp_unavailable'] as const),
  ],
};
