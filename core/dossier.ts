import { z } from 'zod';
import { contextDigestField, typeIdField } from './body-fields.ts';
import { bareObject, type JsonValue } from './jcs.ts';
import { isJsonObject, type JsonNode, JsonSyntaxProblem, parseStrictJson } from './json.ts';
import {
  DOSSIER_ENTRIES_MAX,
  DOSSIER_MAX_BYTES,
  DOSSIER_NOTE_MAX_CHARACTERS,
  DOSSIER_PROOF_MAX_HASHES,
  DOSSIER_TIMESTAMP_MAX_CHARACTERS,
  DOSSIER_TIMESTAMPS_MAX,
  JWS_MAX_CHARACTERS,
} from './limits.ts';

/** The version of the dossier's form; another form has another number (docs/design/0016-dossier.md). */
export const DOSSIER_VERSION = 1;

const SHA_256_HEX = /^[0-9a-f]{64}$/;
const sha256 = (description: string) => z.string().regex(SHA_256_HEX).meta({ description });
const seq = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const time = z
  .string()
  .regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/)
  .meta({ description: "The service's database clock: RFC 3339 in UTC, with milliseconds." });

/** A JSON object as plain values; an own member may have any name. */
export type PlainObject = { readonly [name: string]: JsonValue };

const anyObject = (description: string) =>
  z
    .custom<PlainObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value))
    .meta({ type: 'object', description });

const evidenceEntry = z.strictObject({
  account: typeIdField('acc', 'an account'),
  seq,
  id: z.string().regex(/^[a-z]{3}_[0-9a-z]{26}$/),
  kind: z.string().regex(/^[a-z_]+(?:\.[a-z_]+)*$/),
  at: time,
  prev: sha256('The hash of the entry before.'),
  body: anyObject('What happened, exactly as it was hashed.'),
});

/** An entry of the evidence as it was hashed, its hash, and the proof that the tree head covers it. */
export const dossierEntry = z
  .strictObject({
    entry: evidenceEntry,
    hash: sha256('SHA-256(0x00 || JCS(entry)): the RFC 6962 leaf hash.'),
    inclusion: z
      .array(sha256('A sibling on the way from the leaf to the root.'))
      .max(DOSSIER_PROOF_MAX_HASHES)
      .meta({ description: 'The audit path of RFC 6962 §2.1.1 to the root of tree_head.' }),
  })
  .meta({ description: 'An evidence entry with its proof of inclusion.' });
export type DossierEntry = z.infer<typeof dossierEntry>;

const entries = (description: string) => z.array(dossierEntry).max(DOSSIER_ENTRIES_MAX).meta({ description });

/** The document that GET /api/v1/verifications/<receipt_id>/dossier answers (contract §10); no member is optional. */
export const dossierDocument = z
  .strictObject({
    dossier_version: z.literal(DOSSIER_VERSION),
    issuer: z.url({ protocol: /^https?$/ }).meta({ description: 'The service that signed, as its tokens name it.' }),
    receipt: z.strictObject({
      receipt_id: typeIdField('rcp', 'a receipt'),
      account: typeIdField('acc', 'an account'),
      decided_at: time,
      decision: z.enum(['allow', 'deny', 'escalate']),
      ctx: contextDigestField.nullable(),
      evidence: z.strictObject({ seq, hash: sha256('The hash of the decision.') }),
    }),
    action: anyObject('What ctx is the digest of: SHA-256 over the JCS of this object.').nullable(),
    presentation: anyObject("What the agent signed; null on the gateway path, which needs no agent's key.").nullable(),
    decision: dossierEntry,
    mandate: z
      .strictObject({
        terms: dossierEntry.meta({ description: 'The entry that set the terms that were decided under.' }),
        status: dossierEntry.nullable().meta({ description: 'The entry that last moved its status before.' }),
      })
      .nullable(),
    escalations: z
      .array(
        z.strictObject({
          escalation_id: typeIdField('esc', 'an escalation'),
          opened: dossierEntry.nullable().meta({ description: 'The decision that asked; null where it is this one.' }),
          answered: dossierEntry.nullable().meta({ description: 'Who approved or rejected it; null: nobody so far.' }),
        }),
      )
      .max(3),
    consumption: entries('What was booked or released of it, as far as it was known when this was made.'),
    execution: entries('How it went, as far as it was reported when this was made.'),
    tree_head: z.strictObject({
      token: z.string().max(JWS_MAX_CHARACTERS).meta({ description: 'The signed tree head: an ES256 JWS, sth+jwt.' }),
      checkpoint: z
        .string()
        .max(DOSSIER_NOTE_MAX_CHARACTERS)
        .nullable()
        .meta({ description: 'The same head as a C2SP checkpoint, with the cosignatures of witnesses.' }),
      timestamps: z
        .array(z.string().min(1).max(DOSSIER_TIMESTAMP_MAX_CHARACTERS))
        .max(DOSSIER_TIMESTAMPS_MAX)
        .meta({ description: 'RFC 3161 tokens (DER in base64) over the root.' }),
    }),
    mat: z
      .string()
      .max(JWS_MAX_CHARACTERS)
      .nullable()
      .meta({ description: 'The token of the decision; null where a decision has none.' }),
    jwks: anyObject('The keys as the service publishes them. They prove nothing: pin them from elsewhere.'),
    seal: z
      .string()
      .max(JWS_MAX_CHARACTERS)
      .meta({ description: 'dossier+jwt: the digest of all the rest, so that nothing can be left out unseen.' }),
  })
  .meta({ description: 'Everything about one decision that a stranger can check with no network.' });
export type Dossier = z.infer<typeof dossierDocument>;

/** The JSON Schema (2020-12) of a dossier, as it is published. */
export function dossierJsonSchema(): object {
  return {
    $id: `urn:mandate-gateway:dossier:${DOSSIER_VERSION}`,
    title: 'Dispute dossier',
    ...z.toJSONSchema(dossierDocument, { io: 'input', unrepresentable: 'any' }),
  };
}

/** A dossier that was read, or in one sentence why the bytes are none. */
export type DossierReading =
  | { readonly ok: true; readonly dossier: Dossier; readonly jwks: JsonNode }
  | { readonly ok: false; readonly problem: string };

/**
 * Reads a dossier: strict JSON of bounded size, exactly the members of its version and no other. Never throws.
 *
 * Form only; what it says is for `core/dossier-check.ts` to find out.
 */
export function readDossier(bytes: Uint8Array): DossierReading {
  if (bytes.length > DOSSIER_MAX_BYTES) return refused(`The file is larger than ${DOSSIER_MAX_BYTES} bytes.`);
  let node: JsonNode;
  try {
    node = parseStrictJson(bytes);
  } catch (error) {
    if (!(error instanceof JsonSyntaxProblem)) throw error;
    return refused(`The file is not strict JSON: ${error.message.replace(/\.$/, '')} (at ${error.offset}).`);
  }
  const version = isJsonObject(node) ? node.get('dossier_version') : undefined;
  const value = plainValue(node);
  if (version !== undefined && plainValue(version) !== DOSSIER_VERSION) {
    return refused(`The file is no dossier of version ${DOSSIER_VERSION}, which is the one this checker knows.`);
  }
  const parsed = dossierDocument.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return refused(`The file is not a dossier: ${issue?.path.join('.') || 'the document'}: ${issue?.message}.`);
  }
  return { ok: true, dossier: parsed.data, jwks: (isJsonObject(node) ? node.get('jwks') : null) ?? null };
}

function refused(problem: string): DossierReading {
  return { ok: false, problem };
}

/** A strict tree as plain values: its parser lets no number through that a double does not hold. */
export function plainValue(node: JsonNode): JsonValue {
  if (node === null || typeof node === 'boolean' || typeof node === 'string') return node;
  if (Array.isArray(node)) return node.map(plainValue);
  if (!isJsonObject(node)) return Number((node as { readonly text: string }).text);
  // So that `__proto__` is a name like any other.
  const object = bareObject<JsonValue>();
  for (const [name, value] of node) object[name] = plainValue(value);
  return object;
}

/** Every entry of a dossier, each once, the decision first. */
export function entriesOf({ decision, mandate, escalations, consumption, execution }: Dossier): DossierEntry[] {
  const asked = escalations.flatMap(({ opened, answered }) => [opened, answered]);
  const all = [decision, mandate?.terms, mandate?.status, ...asked, ...consumption, ...execution];
  return all.filter((one) => one !== null && one !== undefined);
}
