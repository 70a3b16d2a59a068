import t from 'tap';
import { registerDossierRoutes } from '../../../control-plane/dossiers/routes.ts';
import { checkDossier, type DossierReport } from '../../../core/dossier-check.ts';
import { readPinnedJwks } from '../../../core/dossier-trust.ts';
import { payment, type ServiceFixture, serviceFixture } from '../verify/service-fixture.ts';

/** The service with dossiers. */
function withDossiers(t: Parameters<typeof serviceFixture>[0]) {
  return serviceFixture(t, [registerDossierRoutes]);
}

/** Checks a dossier with the keys that the service publishes pinned. */
async function checked(fixture: ServiceFixture, text: string): Promise<DossierReport> {
  const jwks = readPinnedJwks(Buffer.from(JSON.stringify(fixture.deps.signing.jwks())));
  if (!jwks.ok) throw new Error(jwks.problem);
  return await checkDossier(Buffer.from(text), jwks.trust);
}

const failures = ({ claims }: DossierReport) => claims.filter(({ result }) => result === 'failed');

t.test('a dossier fetched with its MAT is accepted from the keys alone, booked and reported as it was', async (t) => {
  const fixture = await withDossiers(t);
  const mandateId = await fixture.mandate({ agent_did: fixture.did });
  const verified = await fixture.call('/api/v1/verify', {
    presentation: await fixture.present(mandateId, payment(12.5)),
    action: payment(12.5),
  });
  const token = String(verified.json['consumption_token']);
  const mat = String(verified.json['mat_compact']);
  const { receipt_id: receiptId } = verified.json['receipt'] as { readonly receipt_id: string };
  await fixture.call('/api/v1/consumptions', { consumption_token: token, final_amount: 13 });
  await fixture.call('/api/v1/consumptions', { consumption_token: token, final_amount: 10 });
  await fixture.call('/api/v1/executions', { reservation_token: token, outcome: 'erfolgreich', external_ref: '<b>' });
  const answer = await fixture.call(`/api/v1/verifications/${receiptId}/dossier?mat=${mat}`);
  t.equal(answer.status, 200, answer.text);
  const report = await checked(fixture, answer.text);
  t.equal(report.verdict, 'accepted', JSON.stringify(failures(report)));
  const dossier = JSON.parse(answer.text);
  t.equal(dossier.mat, mat);
  t.same(
    dossier.consumption.map(({ entry }: { entry: { kind: string } }) => entry.kind),
    ['consumption.refused', 'consumption.booked'],
  );
  t.equal(dossier.execution.length, 1);
});
