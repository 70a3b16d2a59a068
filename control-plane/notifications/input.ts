import { z } from 'zod';
import { MAIL_RECIPIENTS_MAX } from '../../core/limits.ts';
import { wholeQuery } from '../http/query.ts';
import { EVENT_TYPES } from './event-types.ts';

const NAME_MAX_CHARACTERS = 200;
const LIST_MAX = 200;
const LIST_DEFAULT = 50;
const ADDRESS_MAX_CHARACTERS = 254;

const name = z
  .string()
  .min(1)
  .max(NAME_MAX_CHARACTERS)
  .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), 'must not hold control characters');

const eventList = z.array(z.enum(EVENT_TYPES)).transform((given) => EVENT_TYPES.filter((type) => given.includes(type)));

/** An address without anything that a mail header gives a meaning to. */
export const mailAddress = z
  .string()
  .max(ADDRESS_MAX_CHARACTERS)
  .regex(/^[A-Za-z0-9!#$%&'*+/=?^_{|}~.-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$/, 'must be an e-mail address')
  .transform((address) => address.toLowerCase());

export const endpointInput = z.strictObject({
  url: z.string(),
  events: eventList.refine((events) => events.length > 0, 'must name at least one event').optional(),
  name: name.default('Unnamed webhook'),
});
export type EndpointInput = z.infer<typeof endpointInput>;

export const settingsInput = z
  .strictObject({
    mail: z.boolean().optional(),
    mail_events: eventList.optional(),
    recipients: z
      .array(mailAddress)
      .max(MAIL_RECIPIENTS_MAX)
      .transform((given) => [...new Set(given)])
      .optional(),
    language: z.enum(['en', 'de']).optional(),
  })
  .refine((change) => Object.values(change).some((value) => value !== undefined), 'must change something');
export type SettingsInput = z.infer<typeof settingsInput>;

export const deliveriesQuery = z.strictObject({
  state: z.enum(['pending', 'delivered', 'dead']).optional(),
  after: z
    .string()
    .regex(/^dlv_[0-9a-z]{26}$/, 'must be a delivery_id (dlv_…)')
    .optional(),
  limit: wholeQuery(1, LIST_MAX).default(LIST_DEFAULT),
});
