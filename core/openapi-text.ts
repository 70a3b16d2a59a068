/** Characters of an OpenAPI document: the largest public ones have some twelve million. */
export const OPENAPI_MAX_CHARACTERS = 16 * 1024 * 1024;
/** Anchors in YAML that are used again: more of them make a small file a huge document. */
const YAML_ALIASES_MAX = 100;

/** A document that is no OpenAPI document, or not one that can be read here; the message says what to do. */
export class OpenApiProblem extends Error {
  override readonly name = 'OpenApiProblem';
}

/** Parses the text of a document, JSON where it begins with a brace and YAML otherwise; throws OpenApiProblem. */
export type OpenApiParser = (text: string) => unknown;

/** Makes the parser; what reads YAML is loaded with it, because most processes never need it. */
export async function openApiParser(): Promise<OpenApiParser> {
  const { parse } = await import('yaml');
  return (text) => parseText(text, (yaml) => parse(yaml, { maxAliasCount: YAML_ALIASES_MAX, logLevel: 'error' }));
}

function parseText(text: string, parseYaml: OpenApiParser): unknown {
  if (text.length > OPENAPI_MAX_CHARACTERS) {
    throw new OpenApiProblem(`The document has more than ${OPENAPI_MAX_CHARACTERS} characters: split it.`);
  }
  const json = text.trimStart().startsWith('{');
  try {
    return json ? JSON.parse(text) : parseYaml(text);
  } catch (error) {
    // A parser's message repeats the document; its first line says where.
    const [line = ''] = error instanceof Error ? error.message.split('\n') : [];
    const what = error instanceof RangeError ? 'It is nested too deeply.' : line.slice(0, 200);
    throw new OpenApiProblem(`The document is not ${json ? 'JSON' : 'YAML'}: ${what}`);
  }
}
