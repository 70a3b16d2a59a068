import { canonicalize } from './jcs.ts';
import { type MandateTerms, mandateDigest } from './mandate.ts';
import { decimalOf } from './money.ts';

/** The type of a mandate credential's header (W3C Securing Verifiable Credentials using JOSE and COSE, §3.1.1). */
export const CREDENTIAL_TYPE = 'vc+jwt';

/** How long a credential is valid at most, in milliseconds: it states terms that may be taken back any time. */
export const CREDENTIAL_TTL_MS = 24 * 60 * 60_000;

const CONTEXT_VC_2 = 'https://www.w3.org/ns/credentials/v2';
/** Gives our members a meaning of their own in JSON-LD without a document that somebody would have to serve. */
const OUR_TERMS = { '@vocab': 'urn:mandate-gateway:credential#' };

/** What a credential states; `issuedAtMs` is the database's clock, in Unix milliseconds. */
export interface CredentialFacts {
  readonly accountId: string;
  readonly terms: MandateTerms;
  readonly issuedAtMs: number;
}

/**
 * The JSON text (JCS) of a mandate's credential: what the agent may do, and how sure it is who allowed it.
 *
 * The payload is the credential itself, without JWT claims around it. Its subject is the agent (`id` is its did:key; on
 * path 1, where the service holds the key, there is none). Amounts are exact decimals in major units; an absent
 * `escalation_threshold` or `max_uses` is no limit, an empty `counterparties` any. The principal's identity is
 * self-declared, assurance level 1. It is valid for a day at most, and states the terms of one version, not that the
 * mandate is active still: that is asked live at `mandate.status_url`. Source: W3C VC Data Model 2.0 §4, contract §9.
 *
 * @throws RangeError where an amount of the terms is none
 */
export function mandateCredential(issuer: string, { accountId, terms, issuedAtMs }: CredentialFacts): string {
  const { valid_until: end, agent_did: agent } = terms;
  const endsMs = end === null ? Number.POSITIVE_INFINITY : Date.parse(end);
  return canonicalize({
    '@context': [CONTEXT_VC_2, OUR_TERMS],
    type: ['VerifiableCredential', 'MandateCredential'],
    issuer,
    validFrom: new Date(issuedAtMs).toISOString(),
    validUntil: new Date(Math.min(issuedAtMs + CREDENTIAL_TTL_MS, endsMs)).toISOString(),
    credentialSubject: {
      ...(agent === '' ? {} : { id: agent }),
      mandate: {
        ...limitsOf(terms),
        mandate_id: terms.mandate_id,
        version: terms.version,
        mandate_digest: mandateDigest(terms),
        status_url: `${issuer}/api/v1/mandates/${terms.mandate_id}/status`,
      },
      principal: { account_id: accountId, identity: 'self-declared', assurance_level: 1 },
    },
  });
}

function limitsOf(terms: MandateTerms) {
  const { currency, escalation_threshold: threshold, max_uses: maxUses } = terms;
  return {
    scope: terms.scope,
    currency,
    amount_limit_per_action: decimalOf(terms.per_action, currency),
    amount_limit_per_month: decimalOf(terms.per_month, currency),
    ...(threshold === null ? {} : { escalation_threshold: decimalOf(threshold, currency) }),
    counterparties: terms.counterparties,
    time_zone: terms.time_zone,
    ...(maxUses === null ? {} : { max_uses: maxUses }),
  };
}
