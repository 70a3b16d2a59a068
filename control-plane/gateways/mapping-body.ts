import { z } from 'zod';
import { DecimalText } from '../../core/body-value.ts';
import { toolMappingInput } from '../../core/tool-mapping.ts';

/** The mapping's one number arrives as its digits, like every number of a body. */
const plainNumbers = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, one]) => [
    name,
    one instanceof DecimalText ? Number(one.text) : one,
  ]);
  return Object.fromEntries(entries);
};

/** Zod: a mapping in a body of the admin API. */
export const mappingBody = z.preprocess(plainNumbers, toolMappingInput);
