import { type AccountFacts, type EscalationStatus, type MandateState, monthKey } from './account-facts.ts';

/** A row of facts, as `json_build_array` wrote it. */
export type Json = string | number | boolean | null | readonly Json[];
export type Row = readonly Json[];

/** Facts by account. */
export type BatchFacts = Map<string, AccountFacts>;

/**
 * Where summer time ends at one o'clock on the first of a month (America/Havana), its midnight comes twice: PostgreSQL
 * names the second one, and the month has begun with the first.
 */
const REPEATED_MS = 3_600_000;

/** One object a mandate, however many ways a batch comes to it: its asks see each other's effects there. */
export function addMandate(facts: AccountFacts, row: Row): MandateState {
  const [mandateId, version, status, uses, month, reserved, booked, stored, monthEndsAtMs] = row;
  const known = facts.mandates.get(String(mandateId));
  if (known !== undefined && known !== null) return known;
  const mandate: MandateState = {
    accountId: facts.head.accountId,
    mandateId: String(mandateId),
    version: Number(version),
    status: String(status),
    uses: Number(uses),
    month: { month: String(month), stored: Boolean(stored), reserved: Number(reserved), booked: Number(booked) },
    monthSureUntilMs: Number(monthEndsAtMs) - REPEATED_MS,
  };
  facts.mandates.set(mandate.mandateId, mandate);
  facts.months.set(monthKey(mandate.mandateId, mandate.month.month), mandate.month);
  return mandate;
}

/** Adds an escalation that still bears on decisions; several ways of a batch may bring the same one. */
export function addEscalation(batch: BatchFacts, row: Row): void {
  const facts = batch.get(String(row[0]));
  const escalationId = String(row[1]);
  if (facts === undefined || facts.escalations.some((known) => known.escalationId === escalationId)) return;
  facts.escalations.push({
    escalationId,
    mandateId: String(row[2]),
    subjectId: String(row[3]),
    ctx: String(row[4]),
    status: row[5] as EscalationStatus,
    createdAtMs: Number(row[6]),
    expiresAtMs: Number(row[7]),
    closesAtMs: Number(row[8]),
  });
}
