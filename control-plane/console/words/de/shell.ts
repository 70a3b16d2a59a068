import type { Words } from '../en.ts';

export const shell: Words['shell'] = {
  product: 'Mandate Gateway',
  skip: 'Zum Inhalt',
  menu: 'Menü',
  navigation: 'Bereiche',
  accountMenu: 'Kontomenü',
  account: 'Konto und Sicherheit',
  logout: 'Abmelden',
  language: 'Sprache',
  theme: 'Farben',
  themes: { system: 'System', light: 'Hell', dark: 'Dunkel' },
  waiting: 'offen',
  copy: 'Kopieren',
  copied: 'Kopiert',
  print: 'Drucken',
  cancel: 'Abbrechen',
  back: 'Zurück',
  sections: {
    overview: 'Übersicht',
    approvals: 'Freigaben',
    mandates: 'Mandate',
    gateways: 'Gateways',
    keys: 'API-Schlüssel',
    evidence: 'Nachweise',
    reconcile: 'Abgleich',
    settings: 'Einstellungen',
  },
  unbuilt: {
    title: 'Hier gibt es noch nichts zu sehen',
    text: 'Diese Seite gehört noch nicht zur Konsole. Die Kommandozeile kann dasselbe: mandate --help.',
  },
};
