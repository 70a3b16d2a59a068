/**
 * The currencies of ISO 4217 list one in which something can be paid, and the digits of their minor units.
 *
 * As in force on ISO_4217_DATE (amendments up to the euro in Bulgaria and the Caribbean guilder). Left out on purpose,
 * and so refused: codes for tests and for none (XTS, XXX), metals (XAG, XAU, XPD, XPT), units of account (XAD, XBA to
 * XBD, XDR, XSU, XUA) and fund codes (BOV, CHE, CHW, CLF, COU, MXV, USN, UYI, UYW).
 */
export const ISO_4217_DATE = '2026-01-01';

const CODES_BY_DIGITS: readonly (readonly [digits: number, codes: string])[] = [
  [0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'],
  [3, 'BHD IQD JOD KWD LYD OMR TND'],
  [
    2,
    'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP ' +
      'CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD ' +
      'KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN ' +
      'NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC ' +
      'SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG',
  ],
];

/** Minor digits by upper-case code. */
export const MINOR_DIGITS: ReadonlyMap<string, number> = new Map(
  CODES_BY_DIGITS.flatMap(([digits, codes]) => codes.split(' ').map((code): [string, number] => [code, digits])),
);
