import type { Words } from '../en.ts';

export const overview: Words['overview'] = {
  title: 'Übersicht',
  lead: 'Was Ihre Agenten dürfen und was Sie braucht.',
  start: 'Erste Schritte',
  startLead: 'Vier Schritte bis zur ersten Anfrage, die erlaubt ist, weil Sie es gesagt haben.',
  steps: {
    secondFactor: 'Zweiter Faktor',
    secondFactorText: 'Niemand handelt für Sie mit Ihrem Passwort allein.',
    mandate: 'Ein Mandat schreiben',
    mandateText: 'Was ein Agent darf, bis zu welchem Betrag, mit wem.',
    mandateAction: 'Neues Mandat',
    gateway: 'Ein Gateway vor eine API stellen',
    gatewayText: 'Der Agent ruft das Gateway statt der API auf und sieht Ihre Zugangsdaten nie.',
    gatewayAction: 'Neues Gateway',
    request: 'Die erste Anfrage sehen',
    requestText: 'Erlaubt, abgelehnt oder wartend: Jede steht in den Nachweisen.',
    requestAction: 'Nachweise',
  },
  waiting: 'Wartet auf Sie',
  waitingText: (count) =>
    count === 1 ? 'Eine Anfrage wartet auf Ihre Antwort.' : `${count} Anfragen warten auf Ihre Antwort.`,
  waitingNone: 'Keine Anfrage wartet auf Ihre Antwort.',
  waitingAction: 'Antworten',
};
