import { z } from 'zod';
import {
  consumptionAnswer,
  denialCodesAnswer,
  echoAnswer,
  escalationAnswer,
  evidenceExportAnswer,
  executionAnswer,
  gatewayDeny,
  gatewayEscalate,
  gatewayRefusal,
  jwksAnswer,
  mandateStatusAnswer,
  presentAnswer,
  presentationAnswer,
  problemAnswer,
  sandboxApproval,
  sandboxMandateAnswer,
  sandboxRejection,
  treeHeadAnswer,
  verifyAllow,
  verifyAnswer,
  verifyDeny,
  verifyEscalate,
} from '../../core/api-answers.ts';
import { dossierDocument } from '../../core/dossier.ts';
import { actionInput, verifyBody } from '../../core/verify-request.ts';
import { consumptionBody } from '../consumptions/routes.ts';
import { presentBody } from '../custody/routes.ts';
import { exportBody } from '../evidence/export-routes.ts';
import { executionBody } from '../executions/routes.ts';
import { sandboxAnswerInput, sandboxMandateInput, sandboxPresentationInput } from '../sandbox/input.ts';

/**
 * Every schema of the public API by its name in the document.
 *
 * Requests are the very schemas that the server validates with. Only the presentation of a verification is told more of
 * than its schema checks: one that is malformed is no error of the request but a deny (MD-101).
 */
export const DOCUMENT_SCHEMAS = {
  Action: actionInput,
  Presentation: presentationAnswer,
  PresentRequest: presentBody,
  PresentAnswer: presentAnswer,
  VerifyRequest: verifyBody.extend({ presentation: presentationAnswer }),
  VerifyAnswer: verifyAnswer,
  VerifyAllow: verifyAllow,
  VerifyDeny: verifyDeny,
  VerifyEscalate: verifyEscalate,
  ConsumptionRequest: consumptionBody,
  ConsumptionAnswer: consumptionAnswer,
  ExecutionRequest: executionBody,
  ExecutionAnswer: executionAnswer,
  MandateStatus: mandateStatusAnswer,
  Dossier: dossierDocument,
  TreeHead: treeHeadAnswer,
  EvidenceExportRequest: exportBody,
  EvidenceExport: evidenceExportAnswer,
  Escalation: escalationAnswer,
  DenialCodes: denialCodesAnswer,
  SandboxMandateRequest: sandboxMandateInput,
  SandboxMandate: sandboxMandateAnswer,
  SandboxPresentationRequest: sandboxPresentationInput,
  SandboxAnswerRequest: sandboxAnswerInput,
  SandboxApproval: sandboxApproval,
  SandboxRejection: sandboxRejection,
  Echo: echoAnswer,
  GatewayRefusal: gatewayRefusal,
  GatewayDeny: gatewayDeny,
  GatewayEscalate: gatewayEscalate,
  Jwks: jwksAnswer,
  Problem: problemAnswer,
} as const satisfies Record<string, z.ZodType>;
export type SchemaName = keyof typeof DOCUMENT_SCHEMAS;

/** A JSON Schema (2020-12), as far as the document needs to look into one. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** The schemas as JSON Schemas, as whoever sends them sees them; what one shares with another is a `$ref`. */
export function jsonSchemas(): Record<SchemaName, JsonSchema> {
  const named = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(DOCUMENT_SCHEMAS)) named.add(schema, { id });
  const { schemas } = z.toJSONSchema(named, {
    io: 'input',
    unrepresentable: 'any',
    uri: (id) => `#/components/schemas/${id}`,
  });
  const entries = Object.entries(schemas).map(([name, { $schema, $id, ...schema }]) => [name, schema]);
  return Object.fromEntries(entries) as Record<SchemaName, JsonSchema>;
}
