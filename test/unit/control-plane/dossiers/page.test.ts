import t from 'tap';
import { dossierPage } from '../../../../control-plane/dossiers/page.ts';
import { sampleDossier } from '../../core/dossier-sample.ts';

t.test('nothing of a dossier reorders a printed line or hides in it, and nothing of it is markup', async (t) => {
  const { dossier } = sampleDossier();
  const action = { ...dossier.action, counterparty: 'acme\u202eemca\u200b\u2028<img src=x>\u{e0041}' };
  const html = dossierPage({ ...dossier, action });
  t.match(html, 'acme\\u{202e}emca\\u{200b}\\u{2028}&lt;img src=x&gt;\\u{e0041}');
  t.notMatch(html, /[\u202e\u200b\u2028]|<img/u);
  t.match(html, '\n  &quot;type&quot;', 'lines stay lines');
});
