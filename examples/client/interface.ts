import type { Action, Presentation } from './presentation.ts';

// Requests and answers of /api/v1 as far as an agent or a relying party uses them; answers may carry more.

export interface PresentRequest {
  readonly mandate_id: string;
  readonly action: Action;
}

/** A presentation that the service signed (path 1). */
export interface Custodial {
  readonly presentation: Presentation;
  readonly custody: 'custodial';
  readonly note: string;
}

export interface VerifyRequest {
  readonly presentation: Presentation;
  /** Identical to the one that was presented. */
  readonly action: Action;
  /** After an escalation was approved. */
  readonly escalation_token?: string;
}

/** What the service recorded of a decision. */
export interface Receipt {
  readonly receipt_id: string;
  readonly decided_at: string;
  readonly ctx: string | null;
  readonly evidence: { readonly seq: number; readonly hash: string };
}

export interface Allow {
  readonly decision: 'allow';
  readonly consumption_token: string;
  readonly receipt: Receipt;
  readonly mat_compact: string;
}

export interface Deny {
  readonly decision: 'deny';
  /** One code, `MD-101` to `MD-503`. */
  readonly reasons: readonly string[];
  readonly reason_text: string;
  readonly receipt: Receipt;
}

export interface Escalate {
  readonly decision: 'escalate';
  readonly escalation: { readonly id: string; readonly expires_at: string };
}

export type Decision = Allow | Deny | Escalate;
export type VerifyResult = Decision & { readonly replayed: boolean };

export interface ConsumptionRequest {
  readonly consumption_token: string;
  readonly final_amount?: number;
  readonly currency?: string;
  readonly action_type?: string;
  readonly counterparty?: string;
  readonly context_digest?: string;
}

export interface Consumption {
  readonly consumption_id: string;
  readonly mandate_id: string;
  readonly booked: { readonly value: number; readonly currency: string };
  readonly remaining: { readonly value: number; readonly currency: string; readonly period: unknown };
  readonly receipt: unknown;
}

export interface ExecutionRequest {
  /** The `consumption_token` of the allow. */
  readonly reservation_token: string;
  readonly outcome: 'erfolgreich' | 'fehlgeschlagen' | 'teilweise' | 'abgebrochen';
  readonly executed_amount: number;
  readonly executed_currency: string;
  readonly external_ref: string;
}

export interface Execution {
  readonly execution_id: string;
  readonly receipt_id: string;
  readonly status: string;
}

export interface MandateStatus {
  readonly limits: Readonly<Record<string, unknown>>;
  /** Empty on path 1. */
  readonly agent_did: string | null;
  readonly presentation_verifier: string;
  readonly [member: string]: unknown;
}

export interface Escalation {
  readonly id: string;
  readonly status: 'pending' | 'approved' | 'rejected' | 'expired' | 'used';
  readonly expires_at: string;
  readonly escalation_token?: string;
}

export interface DenialCodes {
  readonly denial_code_version: number;
  readonly [member: string]: unknown;
}
