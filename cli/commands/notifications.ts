import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import type { Invocation } from '../invocation.ts';
import { bodyText } from '../json-text.ts';
import { fields } from '../output.ts';
import { commaList } from './arguments.ts';

interface SettingsOptions {
  mail?: string;
  events?: string[];
  recipient?: string[];
  recipients?: false;
  language?: string;
}

/** `mandate notifications …`: what the account is told by e-mail. */
export function registerNotifications(program: Command, invocation: Invocation): void {
  const notifications = program.command('notifications').description('what you are told by e-mail');
  notifications
    .command('show')
    .description('show who is told of what, and the events there are')
    .action(async () => {
      invocation.show(await (await invocation.client()).get('/admin/notifications'), settingsCard);
    });
  notifications
    .command('set')
    .description('change what is given and keep the rest')
    .option('--mail <on|off>', 'whether anybody is told by e-mail at all')
    .option('--events <types>', 'told by e-mail of these, such as escalation.created,limit.reached', commaList)
    .option('--recipient <addresses>', "told besides the account's own address; replaces those before", commaList)
    .option('--no-recipients', "only the account's own address is told")
    .option('--language <language>', 'language of the mails: en or de')
    .action(async (options: SettingsOptions) => {
      const body = bodyOf(options);
      if (Object.values(body).every((value) => value === undefined)) {
        throw usageError('Nothing to change was given.', 'See `mandate notifications set --help`.');
      }
      const answer = await (await invocation.client()).send('PUT', '/admin/notifications', bodyText(body));
      invocation.show(answer, settingsCard);
    });
}

function bodyOf({ mail, events, recipient, recipients, language }: SettingsOptions): Record<string, unknown> {
  if (mail !== undefined && mail !== 'on' && mail !== 'off') throw usageError('--mail is on or off.');
  if (recipient !== undefined && recipients === false) {
    throw usageError('--recipient and --no-recipients exclude each other.');
  }
  return {
    mail: mail === undefined ? undefined : mail === 'on',
    mail_events: events,
    recipients: recipients === false ? [] : recipient,
    language,
  };
}

function settingsCard(settings: JsonRecord): string {
  return fields([
    ['e-mail', settings['mail'] === true ? 'on' : 'off'],
    ['to', settings['email']],
    ['and to', settings['recipients']],
    ['of', settings['mail_events']],
    ['language', settings['language']],
    ['all events', settings['events']],
  ]);
}
