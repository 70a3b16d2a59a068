import { TEMPLATE_PARAMS_MAX } from './limits.ts';
import { isIdentifier } from './mapping-suggestion.ts';
import { mergeShapes, type RequestShape } from './request-shape.ts';
import { parseToolPattern } from './tool-name.ts';

/** A tool that was discovered: its name, and what its requests looked like. */
export interface DiscoveredTool {
  readonly name: string;
  readonly shape: RequestShape | null;
}

/** A path template that stands for several discovered tools. */
export interface TemplateSuggestion {
  readonly name: string;
  /** The tools it stands for, in the order in which they were given. */
  readonly tools: readonly string[];
  readonly shape: RequestShape | null;
  readonly reason: string;
}

/**
 * Path templates for tools that differ only in identifiers (`/orders/81/refund`, `/orders/82/refund`) and whose
 * requests have one form. Words are never merged: /orders/81/refund and /orders/81/cancel are two things to do.
 *
 * Every template is one that parseToolPattern takes, matches all its tools, and stands for at least two.
 */
export function suggestTemplates(tools: readonly DiscoveredTool[]): TemplateSuggestion[] {
  const groups = new Map<string, { template: string; tools: DiscoveredTool[] }>();
  for (const tool of tools) {
    const template = templateOf(tool.name);
    if (template === null) continue;
    const key = `${template} ${formOf(tool.shape)}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { template, tools: [tool] });
    else group.tools.push(tool);
  }
  const seen = new Set<string>();
  // Of two forms of one template, the one that more tools have.
  const sorted = [...groups.values()].sort((a, b) => b.tools.length - a.tools.length);
  return sorted.flatMap(({ template, tools: own }) => {
    if (own.length < 2 || seen.has(template)) return [];
    seen.add(template);
    const shape = own.reduce<RequestShape | null>((all, one) => {
      return all === null || one.shape === null ? (all ?? one.shape) : mergeShapes(all, one.shape);
    }, null);
    const reason = `${own.length} tools differ only in what looks like an identifier; their requests have one form.`;
    return [{ name: template, tools: own.map(({ name }) => name), shape, reason }];
  });
}

/** The name with a parameter for each segment that is an identifier; null where none is, or it is no template. */
function templateOf(name: string): string | null {
  const start = name.indexOf(':/') + 2;
  if (start < 2) return null;
  const parts = name.slice(start).split('/');
  const taken = new Set<string>();
  const erased = parts.map((part, at) => {
    if (!isIdentifier(part)) return part;
    const parameter = freeName(taken, parts[at - 1]);
    taken.add(parameter);
    return `{${parameter}}`;
  });
  if (taken.size === 0 || taken.size > TEMPLATE_PARAMS_MAX) return null;
  const template = name.slice(0, start) + erased.join('/');
  return parseToolPattern(template).ok ? template : null;
}

/** `orders` in front of it makes `order_id`. */
function freeName(taken: ReadonlySet<string>, before: string | undefined): string {
  const noun = /^[a-z][a-z0-9_]{0,31}$/.test(before ?? '') && !isIdentifier(before ?? '') ? (before ?? '') : '';
  const base = noun === '' ? 'id' : `${noun.replace(/ies$/, 'y').replace(/(?<!s)s$/, '')}_id`;
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base}_${number}`;
    if (!taken.has(name)) return name;
  }
}

/** What tools must share: the kind of the body and the fields at its top, whose absence would change the mapping. */
function formOf(shape: RequestShape | null): string {
  if (shape === null) return '';
  const top = shape.fields.filter(({ at }) => !at.slice(1).includes('/')).map(({ at }) => at);
  return JSON.stringify([shape.body, top.sort()]);
}
