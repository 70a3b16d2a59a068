import type { Words } from '../en.ts';

export const errors: Words['errors'] = {
  heading: 'Das hat nicht geklappt',
  reference: (id) => `Wenn es so bleibt, nennen Sie dem Betreiber dieses Dienstes die Nummer ${id}.`,
  home: 'Zur Übersicht',
  reload: 'Noch einmal versuchen',
  notFound: 'Hier ist nichts',
  notFoundText: 'Diese Seite gibt es nicht, oder das, worum es geht, gehört Ihnen nicht.',
  forbidden: 'Dieses Formular wurde abgelehnt',
  forbiddenText:
    'Es kam nicht von einer Seite dieser Konsole, oder die Seite war zu alt. Gehen Sie zurück, laden Sie die Seite ' +
    'neu und versuchen Sie es noch einmal.',
  malformed: 'Das Formular ließ sich nicht lesen.',
  tooMany: 'Zu viele Anfragen',
  tooManyText: (seconds) => `Warten Sie ${seconds} Sekunden und versuchen Sie es dann noch einmal.`,
  locked: (seconds) => `Zu viele Versuche sind gescheitert. Warten Sie ${seconds} Sekunden bis zum nächsten.`,
  away: 'Der Dienst erreicht seine Datenbank gerade nicht. Nichts wurde geändert; versuchen Sie es bald wieder.',
  tooLarge: 'Was gesendet wurde, ist zu groß.',
  internal: 'Bei uns ist etwas schiefgegangen. Es steht im Protokoll.',
};
