import type { Words } from '../en.ts';

export const keys: Words['keys'] = {
  title: 'API-Schlüssel',
  lead: 'Für Ihre eigene Software: was sie von diesem Dienst in Ihrem Namen verlangen darf.',
  create: 'Neuer Schlüssel',
  createTitle: 'Neuer API-Schlüssel',
  createLead: 'Der Schlüssel wird einmal gezeigt, gleich nachdem er gemacht ist.',
  name: 'Name',
  nameHint: 'Welche Software ihn benutzt.',
  nameProblem: 'Geben Sie ihm einen Namen mit 1 bis 200 Zeichen.',
  scopes: 'Was er darf',
  scopesHint: 'Ein Schlüssel kann nur, was angekreuzt ist, und das ändert sich nie.',
  scopesProblem: 'Kreuzen Sie mindestens eines an.',
  scopeTexts: {
    'agents:present': 'Vorlagen für Agenten machen, deren Schlüssel hier verwahrt werden',
    verify: 'Handlungen entscheiden lassen (POST /api/v1/verify)',
    'consumptions:write': 'Buchen, was von einer Erlaubnis verbraucht wurde',
    'executions:write': 'Melden, was aus einer Handlung wurde',
    'mandates:read': 'Mandate und ihren Stand lesen',
    'evidence:read': 'Die Nachweise lesen',
  },
  createSubmit: 'Schlüssel machen',
  madeTitle: 'Der Schlüssel ist gemacht',
  madeLead: 'Kopieren Sie ihn jetzt. Gespeichert ist nur sein Fingerabdruck; er kann nicht noch einmal gezeigt werden.',
  done: 'Ich habe ihn kopiert',
  status: 'Stand',
  statuses: { active: 'Aktiv', revoked: 'Widerrufen' },
  created: 'Gemacht',
  lastUsed: 'Zuletzt benutzt',
  never: 'Nie',
  revoke: 'Widerrufen',
  revokeTitle: (name) => `${name} widerrufen?`,
  revokeText:
    'Software, die diesen Schlüssel benutzt, wird ab ihrer nächsten Anfrage abgewiesen. Das lässt sich nicht ' +
    'rückgängig machen.',
  revokeSubmit: 'Schlüssel widerrufen',
  emptyTitle: 'Noch kein Schlüssel',
  emptyText:
    'Mit einem Schlüssel kann Ihre eigene Software Mandate vorlegen, Handlungen prüfen lassen oder die Nachweise ' +
    'lesen. Agenten hinter einem Gateway brauchen keinen: Sie haben das Token ihres Gateways.',
  flash: { revoked: 'Der Schlüssel ist widerrufen. Er öffnet nichts mehr.' },
};
