import { ProblemError } from '../../core/errors.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import { type EventType, MAIL_EVENTS_DEFAULT } from './event-types.ts';
import type { SettingsInput } from './input.ts';

export const LANGUAGES = ['en', 'de'] as const;
export type Language = (typeof LANGUAGES)[number];

/** What an account wants by e-mail; `email` is its own address, which is always told. */
export interface NotificationSettings {
  readonly email: string;
  readonly mail: boolean;
  readonly mail_events: readonly EventType[];
  readonly recipients: readonly string[];
  readonly language: Language;
}

interface SettingsRow {
  readonly account_id: string;
  readonly email: string;
  readonly mail: boolean | null;
  readonly mail_events: EventType[] | null;
  readonly recipients: string[] | null;
  readonly language: Language | null;
}

/** The settings of these accounts, by account; where an account said nothing, what holds then. */
export async function readSettings(
  sql: Sql,
  accountIds: readonly string[],
): Promise<Map<string, NotificationSettings>> {
  const rows = await sql<SettingsRow[]>`
    select a.account_id, a.email, s.mail, s.mail_events, s.recipients, s.language
    from accounts a left join notification_settings s on s.account_id = a.account_id
    where a.account_id = any (${[...accountIds]}::text[])`;
  return new Map(
    rows.map((row) => [
      row.account_id,
      {
        email: row.email,
        mail: row.mail ?? true,
        mail_events: row.mail_events ?? MAIL_EVENTS_DEFAULT,
        recipients: row.recipients ?? [],
        language: row.language ?? 'en',
      },
    ]),
  );
}

/** The settings of one account; @throws ProblemError 404 */
export async function readSettingsOf(sql: Sql, accountId: string): Promise<NotificationSettings> {
  const found = (await readSettings(sql, [accountId])).get(accountId);
  if (found === undefined) throw new ProblemError('not_found', 'There is no such account.');
  return found;
}

/** Changes what is given and keeps the rest. */
export async function changeSettings(context: CommandContext, change: SettingsInput): Promise<NotificationSettings> {
  const { sql, accountId, now } = context;
  const before = await readSettingsOf(sql, accountId);
  const after: NotificationSettings = {
    email: before.email,
    mail: change.mail ?? before.mail,
    mail_events: change.mail_events ?? before.mail_events,
    // Its own address is told anyway, and must not be told twice.
    recipients: (change.recipients ?? before.recipients).filter((address) => address !== before.email),
    language: change.language ?? before.language,
  };
  await sql`
    insert into notification_settings (account_id, mail, mail_events, recipients, language, changed_at)
    values (${accountId}, ${after.mail}, ${[...after.mail_events]}, ${[...after.recipients]}, ${after.language}, ${now})
    on conflict (account_id) do update set mail = excluded.mail, mail_events = excluded.mail_events,
      recipients = excluded.recipients, language = excluded.language, changed_at = excluded.changed_at`;
  const { mail, mail_events, recipients, language } = after;
  context.append('notifications.changed', {
    mail,
    mail_events: [...mail_events],
    recipients: [...recipients],
    language,
  });
  return after;
}
