import type { Words } from './words.ts';

type Key = keyof Words['service'];

/**
 * What the service says of fields and of what is not possible now, as its API says it in English; what is captured is
 * given to the words.
 */
const SAID: Readonly<Record<Key, RegExp>> = {
  empty: /^Too small: expected string to have >=1 characters$|^Invalid input: expected \w+, received undefined$/,
  tooLong: /^Too big: expected string to have <=(\d+) characters$/,
  tooMany: /^Too big: expected (?:array|number) to .*<=(\d+)/,
  notOffered: /^Invalid (?:option|input|value)\b/,
  wholeNumber: /^must be a whole number from (\d+) to (\d+)$/,
  controls: /^must not hold control characters$/,
  address: /^must be a URL such as (\S+)$/,
  addressScheme: /^must begin with (https:\/\/(?: or http:\/\/)?)$/,
  addressQuery: /^must hold no (?:query and no )?fragment$/,
  addressHost: /^must have a plain host/,
  addressPath: /^must have a plain path/,
  addressLength: /^must be at most (\d+) characters$/,
  unknownHost: /^has a host that cannot be resolved$/,
  privateHost: /^must not lead to a loopback, private/,
  headerName: /^must be a header name/,
  headerReserved: /^must not be a header of the connection/,
  headerOurs: /^must not be one of our own headers$/,
  headerValue: /^must be visible ASCII/,
  notChanged: /^must change something$/,
  mail: /^must be an e-mail address$/,
  source: /^must be none, a JSON Pointer/,
  actionType: /^must be 1\.\.128 characters: segments/,
  bytesMost: /^must be at most (\d+) bytes$/,
  toolName: /^A tool's name starts with http\.<method>:\/, the method one of (.+)\.$/,
  toolParam: /^A parameter is a whole segment/,
  toolParamTwice: /^The parameter (\{\w+\}) occurs twice\.$/,
  toolParams: /^A template has at most (\d+) parameters\.$/,
  toolTaken: /^stands for the same requests as another tool: (.+)$|^It stands for the same requests as (.+)\.$/,
  toolOther: /^does not stand for (.+)$/,
  toolShapes: /^An instance can have templates of (\d+) shapes/,
  pathLong: /^The (?:path|query) (?:is longer than|has more than) (\d+) (?:bytes|segments)\.$/,
  pathSegment: /^The path has (?:an empty segment|a segment "\.")/,
  pathCharacter: /^The (?:path|query) holds a (?:percent-encoded slash|control|backslash|semicolon|byte|character)/,
  pathEscape: /^The (?:path|query) (?:holds (?:a "%"|an escape|escapes)|is percent-encoded twice)/,
  queryMethod: /^The query would override the method/,
  noBody: /^cannot be read from the body of a (\w+);/,
  noSuchParam: /^names the path parameter (\{.*\}), which (.+) does not have$/,
  currencyMissing: /^must say where the currency of the amount is/,
  currencyConstant: /^has a constant that is not an ISO 4217 code/,
  partyConstant: /^has a constant that is not a counterparty$/,
  amountConstant: /^has an unusable constant\./,
  outsideScope: /^must be covered by the mandate's scope \((.*)\)$/,
  methodNot: /^This method is not forwarded\.$/,
  documentSwagger: /^The document is Swagger 2\.0/,
  documentOther: /^The document is not OpenAPI 3\.0 or 3\.1\./,
  documentText: /^The document is not (JSON|YAML): (.*)$/s,
  documentOperations: /^The document has more than (\d+) operations/,
  mandateState: /^The mandate is (\w+); (?:it cannot|its terms)/,
  mandateExpired: /^The mandate has expired\.$/,
  mandateVersion: /^The mandate has version (\d+) by now;/,
  wordingOther: /^The wording that was shown is not that of these terms/,
  nothingToStop: /there is nothing to (?:stop|resume)\.$/,
  already: /^The (?:instance|webhook|key) is \w+ already\.$|^The tool is not mapped\.$/,
  mandatesMost: /^The account has (\d+) mandates that are not over/,
  keysMost: /^The account has (\d+) active keys;/,
  webhooksMost: /^An account can have (\d+) webhooks;/,
  webhookDisabled: /^The webhook is disabled;/,
  deliveryWaits: /^The delivery is waiting to be sent already\.$|deliveries wait for this webhook already/,
  underWay: /^This request is still being forwarded/,
  settled: /^The outcome of this receipt is not unknown/,
  contradiction: /^The stored evidence contradicts itself/,
  exporting: /^An export or a replay of this account is under way/,
  signUpTaken: /^There is an account with this e-mail address/,
};

const ALL = Object.entries(SAID) as readonly (readonly [Key, RegExp])[];

/** A text of the service in the words of the console; the text itself where there are none for it. */
export function serviceText({ service }: Words, text: string): string {
  for (const [key, pattern] of ALL) {
    const found = pattern.exec(text);
    if (found === null) continue;
    const said = service[key];
    if (typeof said === 'string') return said;
    const [first = '', second = ''] = found.slice(1).filter((group) => group !== undefined);
    return said(first, second);
  }
  return text;
}
