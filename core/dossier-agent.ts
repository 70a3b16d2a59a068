import { parseDidKey } from './did-key.ts';
import type { PlainObject } from './dossier.ts';
import { type Claims, entryName } from './dossier-claims.ts';
import { type DecisionCase, isSame } from './dossier-decision.ts';
import type { ReadPublicKey } from './ed25519-rule.ts';
import { type Presentation, parsePresentation } from './presentation.ts';

/** Checks the presentation's signature by the key that it names, and whose key that is. */
export async function checkPresentation(given: DecisionCase, readKey: ReadPublicKey, claims: Claims): Promise<void> {
  const { dossier, body } = given;
  const name = entryName(dossier.decision);
  if (body.path === 'gateway') {
    const problem = dossier.presentation === null ? null : `${name} has no presentation, and the file shows one.`;
    claims.either('presentation', problem, 'The request came through the gateway itself: nothing had to be presented.');
    return;
  }
  const recorded = (body.presentation.document ?? null) as PlainObject | null;
  if (!isSame(dossier.presentation, recorded)) {
    claims.failed('presentation', `The presentation is not the one that ${name} holds.`);
    return;
  }
  if (recorded === null) {
    claims.skipped('presentation', `What was presented was malformed, and ${name} holds only why.`);
    return;
  }
  const presentation = parsePresentation(recorded);
  if (presentation.problem !== null) {
    claims.failed('presentation', `The presentation in ${name} is malformed: ${presentation.problem}`);
    return;
  }
  if (body.mandate !== undefined && presentation.mandate_id !== body.mandate.id) {
    claims.failed('presentation', `The presentation is for another mandate than ${name} was decided under.`);
    return;
  }
  const found = await signatureProblem(presentation, readKey);
  const { problem } = body.presentation;
  if (found === null && problem === undefined) {
    claims.ok('presentation', `The presentation is signed by ${presentation.signer}.`);
    if (presentation.ctx === null && body.ctx !== undefined) {
      claims.skipped('presentation', `It names no action, so that the agent wanted that of ${name} is not proven.`);
    }
    checkAgent(given, presentation, claims);
  } else if (found === problem) {
    claims.ok('presentation', `The presentation's signature is not valid, and ${name} says so.`);
  } else {
    const said = problem === undefined ? 'valid' : 'not valid';
    claims.failed('presentation', `${name} calls the presentation's signature ${said}; checked here, it is not so.`);
  }
}

async function signatureProblem(
  { signer, hash_data, signature }: Presentation,
  readKey: ReadPublicKey,
): Promise<string | null> {
  const bytes = parseDidKey(signer);
  const key = bytes === null ? null : readKey(bytes);
  if (key === null) return "The signer's key is not an acceptable Ed25519 key.";
  return (await key.verify(hash_data, signature)) ? null : 'The signature does not verify.';
}

function checkAgent({ dossier, body, terms }: DecisionCase, { signer }: Presentation, claims: Claims): void {
  if (body.path === 'gateway' || terms === null) return;
  const { expected_signer: expected } = body.presentation;
  const name = entryName(dossier.decision);
  if (terms.agent_did !== '' && expected !== terms.agent_did) {
    claims.failed('agent', `${name} expected another agent than its mandate names.`);
  } else if (expected === signer) {
    const held = terms.agent_did === '';
    const whose = held ? 'the one that the service holds for this mandate, as it recorded' : "the mandate's agent";
    claims.ok('agent', `The signer is ${whose}.`);
  } else {
    const problem = body.decision === 'deny' ? null : `${name} was not denied, though another key signed.`;
    claims.either('agent', problem, "Another key than that of the mandate's agent signed, and it was denied.");
  }
}
