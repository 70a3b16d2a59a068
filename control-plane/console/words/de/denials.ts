import type { Words } from '../en.ts';

export const denials: Words['denials'] = {
  'MD-101': 'Die Vorlage ist nicht wohlgeformt, oder ihre Signatur stimmt nicht.',
  'MD-102': 'Die Vorlage ist zu alt, zu früh oder zu lange gültig.',
  'MD-103': 'Die Vorlage wurde für eine andere prüfende Organisation gemacht.',
  'MD-104': 'Die Vorlage wurde für eine andere Handlung unterschrieben.',
  'MD-105': 'Die Vorlage wurde schon einmal benutzt.',
  'MD-201': 'Es gibt kein solches Mandat.',
  'MD-202': 'Unterschrieben hat jemand anders als der Agent des Mandats.',
  'MD-203': 'Das Mandat ist ein Entwurf oder ausgesetzt.',
  'MD-204': 'Das Mandat ist abgelaufen, aufgebraucht oder widerrufen.',
  'MD-501': 'Das Werkzeug ist keiner Handlungsart zugeordnet.',
  'MD-502': 'Betrag, Währung oder Gegenpartei konnten aus der Anfrage nicht gelesen werden.',
  'MD-301': 'Das Mandat deckt diese Handlungsart nicht ab.',
  'MD-305': 'Die Währung ist nicht die des Mandats.',
  'MD-304': 'Die Gegenpartei steht nicht auf der Liste des Mandats.',
  'MD-302': 'Der Betrag liegt über der Grenze je Handlung.',
  'MD-303': 'Der Betrag passt nicht in den Rest des Monats.',
  'MD-401': 'Die Anfrage wurde abgelehnt, oder niemand hat sie rechtzeitig genehmigt.',
  'MD-402': 'Das Eskalationstoken ist unbekannt, benutzt oder für eine andere Handlung.',
  'MD-503': 'Die Entscheidung konnte nicht abgeschlossen werden; es wurde nichts getan.',
};
