import type { Language } from './settings.ts';

type Fact = (name: string) => string;
type Saying = (fact: Fact) => string;

interface Message {
  readonly subject: Saying;
  readonly sentence: Saying;
}

/** All that mails say in one language. */
export interface Words {
  /** The words for an event; a type that has none gets its own name. */
  of(type: string, fact: Fact): { readonly subject: string; readonly sentence: string };
  readonly facts: Readonly<Record<FactName, string>>;
  readonly link: string;
  readonly footer: string;
}

const FACT_NAMES = [
  ...(['mandate', 'mandate_id', 'instance', 'action', 'amount', 'counterparty', 'request', 'month', 'used'] as const),
  ...(['limit', 'count', 'receipts', 'expires', 'reason', 'endpoint'] as const),
] as const;
type FactName = (typeof FACT_NAMES)[number];

const quoted = (fact: Fact): string => `"${fact('mandate_name') || fact('mandate_id')}"`;
const quotedDe = (fact: Fact): string => `„${fact('mandate_name') || fact('mandate_id')}“`;

const ENGLISH: Readonly<Record<string, Message>> = {
  'escalation.created': {
    subject: (fact) => `Your decision is needed: mandate ${quoted(fact)}`,
    sentence: (fact) =>
      `An agent wants to do something that needs your yes. Without an answer by ${fact('expires_at')} it is denied.`,
  },
  'escalation.approved': {
    subject: (fact) => `Approved: mandate ${quoted(fact)}`,
    sentence: () => 'A request that waited for a decision was approved, once.',
  },
  'escalation.rejected': {
    subject: (fact) => `Rejected: mandate ${quoted(fact)}`,
    sentence: () => 'A request that waited for a decision was rejected.',
  },
  'escalation.expired': {
    subject: (fact) => `Nobody answered in time: mandate ${quoted(fact)}`,
    sentence: () => 'A request that waited for a decision was denied, because nobody answered in time.',
  },
  'limit.warning': {
    subject: (fact) => `80 % of the month's limit is used: mandate ${quoted(fact)}`,
    sentence: () => 'A mandate has used 80 % of what it allows in this month; what is reserved counts.',
  },
  'limit.reached': {
    subject: (fact) => `The month's limit is used up: mandate ${quoted(fact)}`,
    sentence: () => 'A mandate has used all that it allows in this month: further amounts are denied until the next.',
  },
  'outcome.unknown': {
    subject: (fact) => `Not known whether it was done: mandate ${quoted(fact)}`,
    sentence: () =>
      'Requests were let through, and it is not known what became of them. They count in full until it is known.',
  },
  'mandate.activated': {
    subject: (fact) => `Mandate ${quoted(fact)} is active`,
    sentence: () => 'A mandate was activated: its agent may act within its limits.',
  },
  'mandate.suspended': {
    subject: (fact) => `Mandate ${quoted(fact)} is suspended`,
    sentence: () => 'A mandate was suspended: nothing is allowed under it until it is resumed.',
  },
  'mandate.resumed': {
    subject: (fact) => `Mandate ${quoted(fact)} is active again`,
    sentence: () => 'A suspended mandate was resumed: its agent may act within its limits again.',
  },
  'mandate.expired': {
    subject: (fact) => `Mandate ${quoted(fact)} has expired`,
    sentence: () => 'The time of a mandate is over: nothing is allowed under it any more.',
  },
  'mandate.consumed': {
    subject: (fact) => `Mandate ${quoted(fact)} is used up`,
    sentence: () => 'A mandate was used as often as it allowed: nothing is allowed under it any more.',
  },
  'mandate.revoked': {
    subject: (fact) => `Mandate ${quoted(fact)} is revoked`,
    sentence: () => 'A mandate was revoked for good: nothing is allowed under it any more.',
  },
  'account.passkey_added': {
    subject: () => 'A passkey was added to your account',
    sentence: () =>
      'Whoever has this passkey can sign in to your account with it alone. If that was not you, sign in, change ' +
      'your password and have all passkeys and recovery codes removed with it.',
  },
  'webhook.disabled': {
    subject: () => 'A webhook was disabled',
    sentence: () =>
      'A webhook endpoint took no message for a long time, or said that it is gone, and was disabled. Mend it, ' +
      'enable it again and replay what it missed.',
  },
};

const GERMAN: Readonly<Record<string, Message>> = {
  'escalation.created': {
    subject: (fact) => `Ihre Entscheidung ist gefragt: Mandat ${quotedDe(fact)}`,
    sentence: (fact) =>
      `Ein Agent möchte etwas tun, das Ihr Ja braucht. Ohne Antwort bis ${fact('expires_at')} wird es abgelehnt.`,
  },
  'escalation.approved': {
    subject: (fact) => `Genehmigt: Mandat ${quotedDe(fact)}`,
    sentence: () => 'Eine Anfrage, die auf eine Entscheidung wartete, wurde einmalig genehmigt.',
  },
  'escalation.rejected': {
    subject: (fact) => `Abgelehnt: Mandat ${quotedDe(fact)}`,
    sentence: () => 'Eine Anfrage, die auf eine Entscheidung wartete, wurde abgelehnt.',
  },
  'escalation.expired': {
    subject: (fact) => `Nicht rechtzeitig beantwortet: Mandat ${quotedDe(fact)}`,
    sentence: () => 'Eine Anfrage wurde abgelehnt, weil niemand rechtzeitig geantwortet hat.',
  },
  'limit.warning': {
    subject: (fact) => `80 % des Monatslimits sind verbraucht: Mandat ${quotedDe(fact)}`,
    sentence: () => 'Ein Mandat hat 80 % dessen verbraucht, was es in diesem Monat erlaubt; Reserviertes zählt mit.',
  },
  'limit.reached': {
    subject: (fact) => `Das Monatslimit ist ausgeschöpft: Mandat ${quotedDe(fact)}`,
    sentence: () => 'Ein Mandat hat sein Monatslimit ausgeschöpft: Weitere Beträge werden bis zum nächsten abgelehnt.',
  },
  'outcome.unknown': {
    subject: (fact) => `Unklar, ob es ausgeführt wurde: Mandat ${quotedDe(fact)}`,
    sentence: () =>
      'Anfragen wurden durchgelassen, und es ist nicht bekannt, was aus ihnen wurde. Bis dahin zählen sie voll.',
  },
  'mandate.activated': {
    subject: (fact) => `Mandat ${quotedDe(fact)} ist aktiv`,
    sentence: () => 'Ein Mandat wurde aktiviert: Sein Agent darf innerhalb der Grenzen handeln.',
  },
  'mandate.suspended': {
    subject: (fact) => `Mandat ${quotedDe(fact)} ist ausgesetzt`,
    sentence: () => 'Ein Mandat wurde ausgesetzt: Bis es fortgesetzt wird, ist darunter nichts erlaubt.',
  },
  'mandate.resumed': {
    subject: (fact) => `Mandat ${quotedDe(fact)} ist wieder aktiv`,
    sentence: () => 'Ein ausgesetztes Mandat wurde fortgesetzt: Sein Agent darf wieder innerhalb der Grenzen handeln.',
  },
  'mandate.expired': {
    subject: (fact) => `Mandat ${quotedDe(fact)} ist abgelaufen`,
    sentence: () => 'Die Zeit eines Mandats ist um: Darunter ist nichts mehr erlaubt.',
  },
  'mandate.consumed': {
    subject: (fact) => `Mandat ${quotedDe(fact)} ist aufgebraucht`,
    sentence: () => 'Ein Mandat wurde so oft genutzt, wie es erlaubte: Darunter ist nichts mehr erlaubt.',
  },
  'mandate.revoked': {
    subject: (fact) => `Mandat ${quotedDe(fact)} ist widerrufen`,
    sentence: () => 'Ein Mandat wurde endgültig widerrufen: Darunter ist nichts mehr erlaubt.',
  },
  'account.passkey_added': {
    subject: () => 'Ihrem Konto wurde ein Passkey hinzugefügt',
    sentence: () =>
      'Wer diesen Passkey hat, kann sich damit allein anmelden. Waren Sie das nicht, melden Sie sich an, ändern Sie ' +
      'Ihr Passwort und lassen Sie dabei alle Passkeys und Wiederherstellungscodes entfernen.',
  },
  'webhook.disabled': {
    subject: () => 'Ein Webhook wurde abgeschaltet',
    sentence: () =>
      'Ein Webhook-Empfänger nahm lange keine Nachricht an oder meldete sich ab und wurde abgeschaltet. Beheben Sie ' +
      'die Ursache, schalten Sie ihn ein und wiederholen Sie, was ihm fehlt.',
  },
};

function words(messages: Readonly<Record<string, Message>>, rest: Omit<Words, 'of'>): Words {
  return {
    ...rest,
    of: (type, fact) => {
      const { subject, sentence } = messages[type] ?? { subject: () => type, sentence: () => type };
      return { subject: subject(fact), sentence: sentence(fact) };
    },
  };
}

/** All words of mails, by language. */
export const WORDS: Readonly<Record<Language, Words>> = {
  en: words(ENGLISH, {
    facts: {
      ...{ mandate: 'Mandate', mandate_id: 'Mandate id', instance: 'Gateway', action: 'Action', amount: 'Amount' },
      ...{ counterparty: 'Counterparty', request: 'Request', month: 'Month', used: 'Used', limit: 'Limit' },
      ...{ count: 'Requests', receipts: 'Receipts', expires: 'Answer until', reason: 'Reason', endpoint: 'Endpoint' },
    },
    link: 'Open it here',
    footer:
      'You get this because of the notification settings of your account; change them with: mandate notifications',
  }),
  de: words(GERMAN, {
    facts: {
      ...{ mandate: 'Mandat', mandate_id: 'Mandats-ID', instance: 'Gateway', action: 'Aktion', amount: 'Betrag' },
      ...{ counterparty: 'Gegenpartei', request: 'Anfrage', month: 'Monat', used: 'Verbraucht', limit: 'Limit' },
      ...{ count: 'Anfragen', receipts: 'Belege', expires: 'Antwort bis', reason: 'Grund', endpoint: 'Empfänger' },
    },
    link: 'Hier öffnen',
    footer: 'Sie erhalten dies wegen der Benachrichtigungen Ihres Kontos; ändern mit: mandate notifications',
  }),
};
