import type { Words } from '../en.ts';

export const stop: Words['stop'] = {
  menu: 'Alles anhalten',
  title: 'Alles anhalten',
  lead: 'Für den Augenblick, in dem etwas nicht stimmt und Sie Zeit brauchen, um nachzusehen.',
  what: 'Was geschieht',
  effects: {
    suspended: (count) =>
      count === 1
        ? 'Das eine Mandat, das aktiv ist, wird ausgesetzt.'
        : `Alle ${count} Mandate, die aktiv sind, werden ausgesetzt.`,
    denied: 'Jede Anfrage jedes Agenten wird ab jetzt abgelehnt, auf jedem Weg: MD-203.',
    approvals: 'Auch was Sie genehmigt haben und was noch nicht getan ist, wird abgelehnt.',
    running: 'Was schon erlaubt war, läuft zu Ende und wird gebucht.',
    back: 'Sie können alle mit einem Schritt wieder aufnehmen. Mandate, die schon ausgesetzt waren, bleiben es.',
  },
  none: 'Kein Mandat ist aktiv: Es gibt nichts anzuhalten.',
  submit: 'Jetzt alles anhalten',
  listActive: 'Diese werden ausgesetzt',
  stopped: 'Ihr Konto ist angehalten',
  stoppedText: (count) =>
    count === 1
      ? 'Ein Mandat ist dadurch ausgesetzt. Darunter wird nichts erlaubt.'
      : `${count} Mandate sind dadurch ausgesetzt. Darunter wird nichts erlaubt.`,
  resumeTitle: 'Wieder aufnehmen',
  resumeText:
    'Die Mandate, die dadurch ausgesetzt wurden, sind wieder aktiv, mit den Grenzen, die sie hatten. Was diesen ' +
    'Monat verbraucht wurde, zählt weiter. Mandate, die Sie einzeln ausgesetzt haben, bleiben ausgesetzt.',
  resumeSubmit: 'Wieder aufnehmen',
  listStopped: 'Diese werden wieder aufgenommen',
  nothingStopped: 'Kein Mandat ist dadurch ausgesetzt: Es gibt nichts wieder aufzunehmen.',
  look: 'Ansehen',
  flash: {
    stopped: 'Alles ist angehalten. Kein Agent darf etwas tun.',
    resumed: 'Die Mandate sind wieder aktiv.',
    nothing: 'Es wurde nichts geändert: Jemand war vor Ihnen da.',
  },
};
