import { hash } from 'node:crypto';
import { escaped } from '../../core/html-text.ts';
import { DOCS_STYLE } from './docs-style.ts';
import type { JsonMember, OpenApiDocument } from './openapi-document.ts';
import { DOCUMENT_METHODS } from './operation.ts';

/** What the page may load: its own style and nothing else, no script at all (CSP level 3). */
export const DOCS_POLICY =
  `default-src 'none'; style-src 'sha256-${hash('sha256', DOCS_STYLE, 'base64')}'; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The parts of an operation that the page shows; the document is made here, so their form is known. */
interface ShownOperation {
  readonly path: string;
  /** As they are shown: one method, or any. */
  readonly method: string;
  readonly operation: JsonMember;
  readonly parameters: readonly JsonMember[];
}

/**
 * The document as a page: HTML without scripts, readable on a phone and with a keyboard alone.
 *
 * Everything of the document is escaped. Responses fold; references lead to the schema.
 */
export function docsPage(document: OpenApiDocument): string {
  const shown = operationsOf(document);
  const [server] = document.servers;
  const groups = document.tags.map(({ name, description }) => {
    const members = shown.filter(({ operation }) => (operation['tags'] as readonly string[]).includes(name));
    const sections = members.map((one) => operationSection(document, one)).join('');
    return `<section aria-labelledby="tag-${slug(name)}"><h2 id="tag-${slug(name)}">${escaped(name)}</h2>
<p>${escaped(description)}</p>${sections}</section>`;
  });
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => {
    return `<article id="schema-${slug(name)}"><h3>${escaped(name)}</h3>${schemaHtml(schema as JsonMember)}</article>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(document.info.title)} API</title><style>${DOCS_STYLE}</style></head><body>
<a class="skip" href="#content">To the operations</a>
<header><h1>${escaped(document.info.title)} API</h1>${paragraphs(document.info.description)}
<p><code>${escaped(server?.url ?? '')}</code> · <a href="/api/openapi.json">OpenAPI ${escaped(document.openapi)}</a></p>
</header>
<nav aria-label="Operations"><ul>${shown.map(navigationItem).join('')}<li><a href="#schemas">Schemas</a></li></ul></nav>
<main id="content" tabindex="-1">${groups.join('')}
<section aria-labelledby="schemas"><h2 id="schemas">Schemas</h2>${schemas.join('')}</section></main>
</body></html>
`;
}

/** Operations in the order of the document; those of one path that are alike for many methods are shown once. */
function operationsOf(document: OpenApiDocument): ShownOperation[] {
  return Object.entries(document.paths).flatMap(([path, item]) => {
    const methods = DOCUMENT_METHODS.filter((method) => method in item);
    const shown = methods.length > 1 ? ['post'] : methods;
    return shown.map((method) => {
      const operation = item[method] as JsonMember;
      const parameters = [...list(item['parameters']), ...list(operation['parameters'])];
      return { path, method: methods.length > 1 ? 'any' : method, operation, parameters };
    });
  });
}

function navigationItem({ path, method, operation }: ShownOperation): string {
  const target = slug(text(operation, 'operationId'));
  return `<li><a href="#${target}">${methodHtml(method)} <span>${escaped(path)}</span></a></li>`;
}

function methodHtml(method: string): string {
  return `<b class="method ${slug(method)}">${escaped(method.toUpperCase())}</b>`;
}

function operationSection(document: OpenApiDocument, { path, method, operation, parameters }: ShownOperation): string {
  const body = operation['requestBody'] as JsonMember | undefined;
  const responses = Object.entries(operation['responses'] as Readonly<Record<string, JsonMember>>);
  return `<article id="${slug(text(operation, 'operationId'))}"><h3>${escaped(text(operation, 'summary'))}</h3>
<p class="path">${methodHtml(method)} <code>${escaped(path)}</code></p>
<p>${escaped(text(operation, 'description'))}</p><p>${accessHtml(operation)}</p>
${parameters.length === 0 ? '' : `<h4>Parameters</h4><dl>${parameters.map(parameterHtml).join('')}</dl>`}
${body === undefined ? '' : `<h4>Request</h4>${contentHtml(body)}`}
<h4>Answers</h4>${responses.map(([status, given]) => responseHtml(document, status, given)).join('')}</article>`;
}

function accessHtml(operation: JsonMember): string {
  const accepted = list(operation['security']).flatMap((one) => {
    return Object.entries(one).map(([scheme, scopes]) => {
      const names = (scopes as readonly string[]).map((scope) => `<code>${escaped(scope)}</code>`).join(', ');
      return scheme === 'apiKey' ? `API key with ${names}` : 'Gateway token';
    });
  });
  return accepted.length === 0 ? 'No credential' : `Credential: ${accepted.join(', or ')}`;
}

function parameterHtml(parameter: JsonMember): string {
  const must = parameter['required'] === true ? 'required' : 'optional';
  const [name, place] = [escaped(text(parameter, 'name')), escaped(text(parameter, 'in'))];
  return `<dt><code>${name}</code> <small>${place}, ${must}</small></dt>
<dd>${escaped(text(parameter, 'description'))} For example <code>${escaped(text(parameter, 'example'))}</code></dd>`;
}

function responseHtml(document: OpenApiDocument, status: string, given: JsonMember): string {
  const name = typeof given['$ref'] === 'string' ? given['$ref'].split('/').at(-1) : undefined;
  const response = name === undefined ? given : (document.components.responses[name] ?? {});
  const headers = Object.keys(response['headers'] as JsonMember).map((header) => `<code>${escaped(header)}</code>`);
  const fold = status.startsWith('2') ? ' open' : '';
  return `<details${fold}><summary><b>${escaped(status)}</b> ${escaped(text(response, 'description'))}</summary>
<p class="headers">Headers: ${headers.join(' ')}</p>${contentHtml(response)}</details>`;
}

function contentHtml(part: JsonMember): string {
  const content = Object.entries((part['content'] ?? {}) as Readonly<Record<string, JsonMember>>);
  return content
    .map(([type, media]) => {
      const examples = Object.entries((media['examples'] ?? {}) as Readonly<Record<string, JsonMember>>);
      const shown = examples.map(([name, { value }]) => {
        const source = escaped(JSON.stringify(value, null, 2));
        return `<figure><figcaption>${escaped(name)}</figcaption><pre tabindex="0">${source}</pre></figure>`;
      });
      return `<p><code>${escaped(type)}</code> ${referenceHtml(media['schema'] as JsonMember)}</p>${shown.join('')}`;
    })
    .join('');
}

function referenceHtml(schema: JsonMember): string {
  const reference = schema['$ref'];
  if (typeof reference !== 'string') return '';
  const name = reference.split('/').at(-1) ?? '';
  return `<a href="#schema-${slug(name)}">${escaped(name)}</a>`;
}

/** A schema as a list of its members, those of objects within it below them. */
function schemaHtml(schema: JsonMember): string {
  const members = Object.entries((schema['properties'] ?? {}) as Readonly<Record<string, JsonMember>>);
  const required = new Set((schema['required'] ?? []) as readonly string[]);
  const own = typeof schema['description'] === 'string' ? `<p>${escaped(schema['description'])}</p>` : '';
  if (members.length === 0) return `${own}<p>${kindHtml(schema)}</p>`;
  const rows = members.map(([name, member]) => {
    const must = required.has(name) ? '' : ' <small>optional</small>';
    return `<dt><code>${escaped(name)}</code> ${kindHtml(member)}${must}</dt><dd>${memberHtml(member)}</dd>`;
  });
  return `${own}<dl>${rows.join('')}</dl>`;
}

function memberHtml(member: JsonMember): string {
  if (member['properties'] !== undefined) return schemaHtml(member);
  const items = member['items'] as JsonMember | undefined;
  const described = typeof member['description'] === 'string' ? escaped(member['description']) : '';
  return items?.['properties'] === undefined ? described : `${described}${schemaHtml(items)}`;
}

/** What a value is, in a few words. */
function kindHtml(schema: JsonMember): string {
  if (schema['$ref'] !== undefined) return referenceHtml(schema);
  const choices = list(schema['oneOf'] ?? schema['anyOf']);
  if (choices.length > 0) return choices.map(kindHtml).join(' or ');
  if (schema['const'] !== undefined) return `<code>${escaped(JSON.stringify(schema['const']))}</code>`;
  if (Array.isArray(schema['enum'])) {
    return schema['enum'].map((value) => `<code>${escaped(String(value))}</code>`).join(' ');
  }
  const items = schema['items'] as JsonMember | undefined;
  if (items !== undefined) return `list of ${kindHtml(items)}`;
  const pattern = typeof schema['pattern'] === 'string' ? ` <code>${escaped(schema['pattern'])}</code>` : '';
  return `<small>${escaped(String(schema['type'] ?? 'any'))}</small>${pattern}`;
}

function paragraphs(source: string): string {
  return source
    .split('\n\n')
    .map((part) => `<p>${escaped(part)}</p>`)
    .join('');
}

function list(value: unknown): readonly JsonMember[] {
  return Array.isArray(value) ? value : [];
}

function text(member: JsonMember, name: string): string {
  const value = member[name];
  return typeof value === 'string' ? value : '';
}

/** A text as an identifier of the page. */
function slug(source: string): string {
  return source.replaceAll(/[^A-Za-z0-9]+/g, '-');
}
