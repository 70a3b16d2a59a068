/*
 * Tokens that the examples show: signed once over the facts of example-facts.ts with a key that was then forgotten. An
 * ECDSA signature is another one each time, and a description of the API should not be. A test checks them.
 */

export const EXAMPLE_JWK = {
  kty: 'EC',
  crv: 'P-256',
  x: 'V5Wm4YJ2SHKYaHzsEI1vThF0tDk04mr3xtoBvVtB2zA',
  y: '3wV7TfTyoxqvrzA45PxD-M5-EoAvWCLGlE0DTTXMbmc',
  kid: 'op7KrANczJfBevZDV8tZI0H5nk8s2vdbeYKGEAzUpGE',
  alg: 'ES256',
  use: 'sig',
} as const;

export const EXAMPLE_MAT =
  'eyJhbGciOiJFUzI1NiIsImtpZCI6Im9wN0tyQU5jekpmQmV2WkRWOHRaSTBINW5rOHMydmRiZVlLR0VBelVwR0UiLCJ0eXAiOiJt' +
  'YXQrand0In0.eyJpc3MiOiJodHRwczovL21hbmRhdGUuZXhhbXBsZSIsInN1YiI6Im1kdF8wMW0zbjhoM2gwZjJyOWE2YzRkOGsx' +
  'bTVweiIsImF1ZCI6ImFjY18wMW0zbjhoM2gwZTlodDRnMWsycTV2N3gzYyIsImp0aSI6InJjcF8wMW0zbjhoM2gwZnkwczd3NWIz' +
  'bjl0Mmo2ZSIsImlhdCI6MTgwMzg5MzQwMCwiZXhwIjoxODAzODk0MDAwLCJkZWNpc2lvbiI6ImFsbG93IiwiY3R4Ijoic2hhLTI1' +
  'NjowZTMxZTU2MDljYjcxOGQ1OTEyZmI1MDMyNGM1NjEzNWQ5MTAxMmNkOWMyZjZhMjJhMTE0ZjkzMGE0NmU5OGM2IiwiYWN0aW9u' +
  'Ijp7ImFtb3VudCI6eyJjdXJyZW5jeSI6IkVVUiIsInZhbHVlIjo0OS41fSwiY291bnRlcnBhcnR5IjoiYWNtZS1zdXBwbGllcyIs' +
  'InR5cGUiOiJwYXltZW50cy5jcmVhdGUifSwibWFuZGF0ZV9kaWdlc3QiOiJzaGEtMjU2OjRhNzQ2NTk1ZmRhNmIzNzNlM2I2MGEy' +
  'YTVhNDdmYmYzNjM3MWEyNGYwM2Q5MTBmZjJlYTJhY2Y1NDI2NDhlODUiLCJldmlkZW5jZSI6eyJzZXEiOjQyLCJoYXNoIjoiYzBm' +
  'ZmVlYzBmZmVlYzBmZmVlYzBmZmVlYzBmZmVlYzBmZmVlYzBmZmVlYzBmZmVlYzBmZmVlYzBmZmVlMDAwMCJ9LCJhc3N1cmFuY2Vf' +
  'bGV2ZWwiOjF9.-75__QzuvsOZUKYnvWh-n2emBelC1KVax6GjqjXY-FAjaBRcSZd2AYF9BjoV9T6alQbtQUfsRDmBlM0_Zdb57A';

export const EXAMPLE_CREDENTIAL =
  'eyJhbGciOiJFUzI1NiIsImN0eSI6InZjIiwia2lkIjoib3A3S3JBTmN6SmZCZXZaRFY4dFpJMEg1bms4czJ2ZGJlWUtHRUF6VXBH' +
  'RSIsInR5cCI6InZjK2p3dCJ9.eyJAY29udGV4dCI6WyJodHRwczovL3d3dy53My5vcmcvbnMvY3JlZGVudGlhbHMvdjIiLHsiQHZ' +
  'vY2FiIjoidXJuOm1hbmRhdGUtZ2F0ZXdheTpjcmVkZW50aWFsIyJ9XSwiY3JlZGVudGlhbFN1YmplY3QiOnsibWFuZGF0ZSI6eyJ' +
  'hbW91bnRfbGltaXRfcGVyX2FjdGlvbiI6MTAwLCJhbW91bnRfbGltaXRfcGVyX21vbnRoIjoxMDAwLCJjb3VudGVycGFydGllcyI' +
  '6WyJhY21lLXN1cHBsaWVzIl0sImN1cnJlbmN5IjoiRVVSIiwiZXNjYWxhdGlvbl90aHJlc2hvbGQiOjUwLCJtYW5kYXRlX2RpZ2V' +
  'zdCI6InNoYS0yNTY6NGE3NDY1OTVmZGE2YjM3M2UzYjYwYTJhNWE0N2ZiZjM2MzcxYTI0ZjAzZDkxMGZmMmVhMmFjZjU0MjY0OGU' +
  '4NSIsIm1hbmRhdGVfaWQiOiJtZHRfMDFtM244aDNoMGYycjlhNmM0ZDhrMW01cHoiLCJzY29wZSI6WyJwYXltZW50cy4qIl0sInN' +
  '0YXR1c191cmwiOiJodHRwczovL21hbmRhdGUuZXhhbXBsZS9hcGkvdjEvbWFuZGF0ZXMvbWR0XzAxbTNuOGgzaDBmMnI5YTZjNGQ' +
  '4azFtNXB6L3N0YXR1cyIsInRpbWVfem9uZSI6IkV1cm9wZS9CZXJsaW4iLCJ2ZXJzaW9uIjoxfSwicHJpbmNpcGFsIjp7ImFjY29' +
  '1bnRfaWQiOiJhY2NfMDFtM244aDNoMGU5aHQ0ZzFrMnE1djd4M2MiLCJhc3N1cmFuY2VfbGV2ZWwiOjEsImlkZW50aXR5Ijoic2V' +
  'sZi1kZWNsYXJlZCJ9fSwiaXNzdWVyIjoiaHR0cHM6Ly9tYW5kYXRlLmV4YW1wbGUiLCJ0eXBlIjpbIlZlcmlmaWFibGVDcmVkZW5' +
  '0aWFsIiwiTWFuZGF0ZUNyZWRlbnRpYWwiXSwidmFsaWRGcm9tIjoiMjAyNy0wMy0wMVQwOTozMDowMC4wMDBaIiwidmFsaWRVbnR' +
  'pbCI6IjIwMjctMDMtMDJUMDk6MzA6MDAuMDAwWiJ9.GbEeS9neI9ueZw0mLqrtGMoVnjwe8EDi_RlydYgOGALN7wHAwAqK51dms_' +
  'QmJEi2WiOcUS85CIfctF_eGPWpQA';

/** The key that came after it, which signed the tree head. */
export const EXAMPLE_NEXT_JWK = {
  kty: 'EC',
  crv: 'P-256',
  x: 'NkkaZJbskQqnvuCibW94ztUhGLXTAwlnL38McXtKx1Y',
  y: 'hWuE-yer05TWUCSSj9rsFkdU9RrCgaPPjSTnurCeIBI',
  kid: 'iQyTzhOjecWPkH5w86o1iytyynNDc2zhr7k_MsAV7oI',
  alg: 'ES256',
  use: 'sig',
} as const;

export const EXAMPLE_TREE_HEAD_RECEIPT =
  'eyJhbGciOiJFUzI1NiIsImtpZCI6ImlReVR6aE9qZWNXUGtINXc4Nm8xaXl0eXluTkRjMnpocjdrX01zQVY3b0kiLCJ0eXAiOiJz' +
  'dGgrand0In0.eyJpc3MiOiJodHRwczovL21hbmRhdGUuZXhhbXBsZSIsInN1YiI6ImFjY18wMW0zbjhoM2gwZTlodDRnMWsycTV2' +
  'N3gzYyIsImlhdCI6MTgwMzg5MzQ2MCwic2l6ZSI6NDMsInJvb3QiOiJkZWNhZGVkZWNhZGVkZWNhZGVkZWNhZGVkZWNhZGVkZWNh' +
  'ZGVkZWNhZGVkZWNhZGVkZWNhZGVkZWNhZGUwMDAwIiwiYXQiOiIyMDI3LTAzLTAxVDA5OjMxOjAwLjAwMFoifQ.sTM96AJtvLmXB' +
  'IcZEBrtUVZQ66aCWJxlCjZiJMg5Jcs09R9JVnkP6QnyvW-WLYIDzm-tdKi6dzMpic2jYgpshA';
