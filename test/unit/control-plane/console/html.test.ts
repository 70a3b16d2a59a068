import fc from 'fast-check';
import t from 'tap';
import { attributes, Html, html, joined, safeUrl } from '../../../../control-plane/console/html.ts';
import { escaped } from '../../../../core/html-text.ts';

/** What people write into names, counterparties and bodies to run something in somebody else's browser. */
const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  '</title><svg/onload=alert(1)>',
  '</textarea><script>alert(1)</script>',
  '<!--<img src="--><img src=x onerror=alert(1)//">',
  '`{{alert(1)}}`',
  '\u0000<script>',
  '&lt;script&gt;',
  '<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>',
  ']]><script>alert(1)</script>',
  '\u202e<script>',
  '<a href="javascript:alert(1)">x</a>',
];

t.test('a hostile text stays text, between elements and in attributes', async (t) => {
  for (const text of HOSTILE) {
    const shown = String(html`<p title="${text}">${text}</p>`);
    t.match(shown, /^<p title="[^"<>]*">[^<>]*<\/p>$/, text);
    const given = String(html`<input ${attributes({ value: text, 'data-x': text })}>`);
    t.match(given, /^<input value="[^"<>]*" data-x="[^"<>]*">$/, text);
    t.match(
      String(html`<textarea>${text}</textarea><title>${text}</title>`),
      /^<textarea>[^<]*<\/textarea><title>[^<]*<\//,
    );
    t.match(String(html`<a href="/console/x/${text}?q=${text}">x</a>`), /^<a href="\/console\/x\/[\w%!'()*.~?=-]*">/);
  }
});

t.test('no text ends its place, whatever it is', async (t) => {
  const property = fc.property(fc.string({ unit: 'binary' }), (text) => {
    const shown = String(html`<p title="${text}">${text}</p>`);
    return /^<p title="[^"<>]*">[^<>]*<\/p>$/.test(shown) && !/[<>"']/.test(escaped(text));
  });
  t.doesNotThrow(() => fc.assert(property));
});

t.test('an address leads to this site or to a web server, or nowhere', async (t) => {
  const good = [
    '/console',
    '/console/x?a=b#c',
    '#content',
    '?after=x',
    'https://example.com/x',
    'http://127.0.0.1:8080',
  ];
  for (const url of good) t.equal(safeUrl(url), url);
  const bad = [
    'javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    ' javascript:alert(1)',
    'java\tscript:alert(1)',
    '\u0001javascript:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'vbscript:x',
    'blob:x',
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    'https:evil.example',
    'https:///evil.example',
    'evil',
    '',
  ];
  for (const url of bad) {
    t.equal(safeUrl(url), '#', url);
    t.equal(String(html`<a href="${url}">x</a>`), '<a href="#">x</a>');
    t.equal(String(html`<a ${attributes({ href: url })}>x</a>`), '<a href="#">x</a>');
  }
});

t.test('a template with a value where no value is safe fails, whatever the value is', async (t) => {
  const templates: (() => Html)[] = [
    () => html`<a href=${'x'}>`,
    () => html`<${'p'}>`,
    () => html`</${'p'}>`,
    () => html`<a ${'x'}>`,
    () => html`<a onclick="${'x'}">`,
    () => html`<a ONCLICK="${'x'}">`,
    () => html`<p style="${'x'}">`,
    () => html`<iframe srcdoc="${'x'}">`,
    () => html`<img srcset="${'x'}">`,
    () => html`<a xlink:href="${'x'}">`,
    () => html`<p title='${'x'}'>`,
    () => html`<script>${'x'}</script>`,
    () => html`<style>${'x'}</style>`,
    () => html`<!-- ${'x'} -->`,
    () => html`<p title="${'x'}`,
    () => html`<a ${attributes({ onclick: 'x' })}>`,
    () => html`<a ${attributes({ style: 'x' })}>`,
    () => html`<a ${attributes({ 'x y': 'x' })}>`,
    () => html`<p title="${html`<b>`}">`,
    () => html`<p>${attributes({ title: 'x' }) as unknown as string}</p>`,
  ];
  for (const template of templates) t.throws(template, TypeError, template.toString());
});

t.test('what is HTML already stays as it is; nothing is nothing', async (t) => {
  t.equal(
    String(html`<p>${html`<b>${'<'}</b>`}${null}${undefined}${false}${0}${['a', html`<i></i>`]}</p>`),
    '<p><b>&lt;</b>0a<i></i></p>',
  );
  t.equal(String(joined(['a', 'b<'], html`<br>`)), 'a<br>b&lt;');
  t.equal(
    String(html`<input ${attributes({ checked: true, disabled: false, value: null, max: 3 })}>`),
    '<input checked max="3">',
  );
  t.equal(JSON.stringify({ page: new Html('x') }), '{"page":{}}', 'and is not mistaken for text');
});
