import type { Words } from '../en.ts';

export const overview: Words['overview'] = {
  title: 'Übersicht',
  lead: 'Was Ihre Agenten getan haben und was Sie braucht.',
  start: 'Erste Schritte',
  startLead: 'Fünf Schritte bis zur ersten Anfrage, die erlaubt ist, weil Sie es gesagt haben.',
  steps: {
    mandate: 'Ein Mandat schreiben und aktivieren',
    mandateText: 'Was ein Agent darf, bis zu welchem Betrag, mit wem.',
    mandateAction: 'Neues Mandat',
    gateway: 'Ein Gateway vor eine API stellen',
    gatewayText: 'Der Agent ruft das Gateway statt der API auf und sieht Ihre Zugangsdaten nie.',
    gatewayAction: 'Neues Gateway',
    seen: 'Die erste Anfrage schicken',
    seenText:
      'Geben Sie dem Agenten Adresse und Token des Gateways. Seine erste Anfrage wird abgelehnt, und sie wird gesehen.',
    seenAction: 'Wie man es aufruft',
    mapped: 'Sagen, was die Anfrage ist',
    mappedText: 'Ordnen Sie das gesehene Werkzeug zu: welche Handlung es ist und wo der Betrag steht.',
    mappedAction: 'Werkzeug zuordnen',
    allowed: 'Noch einmal schicken',
    allowedText: 'Jetzt entscheidet das Mandat. Erlaubtes erreicht die API; alles steht in den Nachweisen.',
    allowedAction: 'Nachweise ansehen',
  },
  today: 'Heute',
  todayLead: 'Jedes Mandat zählt nach dem Kalender seiner eigenen Zeitzone.',
  todayNone: 'Heute wurde noch nichts verlangt.',
  latency: (half, most, count) =>
    `Die Ziele antworteten in der Hälfte der Fälle binnen ${half} ms, in 95 % binnen ${most} ms: von der ` +
    `Entscheidung bis zur verzeichneten Antwort, die letzten ${count} weitergeleiteten Anfragen.`,
  days: 'Die letzten zwei Wochen',
  daysCaption: 'Entscheidungen je Tag',
  day: 'Tag',
  waiting: 'Was Sie braucht',
  waitingNone: 'Nichts. Keine Anfrage wartet, und nichts ist unklar.',
  waitingText: (count, one) =>
    one ? 'Eine Anfrage wartet auf Ihre Antwort.' : `${count} Anfragen warten auf Ihre Antwort.`,
  waitingAction: 'Antworten',
  unknownText: (count, one) =>
    one
      ? 'Von einer Anfrage weiß niemand, was aus ihr wurde.'
      : `Von ${count} Anfragen weiß niemand, was aus ihnen wurde.`,
  unknownAction: 'Klären',
  idleText: (name) => `${name}: Kein Werkzeug ist zugeordnet, darum wird jede Anfrage abgelehnt.`,
  unmappedText: (name, count, one) =>
    one
      ? `${name}: Ein Werkzeug wurde gesehen und ist nicht zugeordnet.`
      : `${name}: ${count} Werkzeuge wurden gesehen und sind nicht zugeordnet.`,
  gatewayAction: 'Zuordnen',
  endingText: (name) => `${name} endet bald:`,
  endingAction: 'Ansehen',
  spend: 'In diesem Monat ausgegeben',
  spendLead: 'Die Mandate, die am meisten von ihrer Grenze verbraucht haben.',
  spendNone: 'Es gibt kein aktives Mandat.',
  spendOf: (used, limit) => `${used} von ${limit}`,
  unknown: (amount) => `${amount} ungeklärt`,
  allMandates: 'Alle Mandate',
  denials: 'Ablehnungen nach Grund',
  denialsCaption: 'Ablehnungen der letzten zwei Wochen, nach Grund',
  denialsNone: 'In den letzten zwei Wochen wurde nichts abgelehnt.',
  recent: 'Letzte Entscheidungen',
  recentNone: 'Noch wurde über nichts entschieden.',
  recentAll: 'Alle Entscheidungen',
  health: 'Nachweise',
  healthEntries: 'Einträge',
  healthHead: 'Letzter Baumkopf',
  healthHeadNone: 'Noch ist keiner unterschrieben; der erste wird es, sobald jemand nachsieht.',
  healthStamp: 'Letzter Zeitstempel',
  healthStampNone: 'Keiner',
  healthAction: 'Zustand des Logs',
};
