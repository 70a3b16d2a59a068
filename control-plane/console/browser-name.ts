/** Browsers by what they say about themselves, the more particular first: most also say that they are others. */
const BROWSERS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['Edge', /Edg(?:e|A|iOS)?\/(\d+)/],
  ['Opera', /OPR\/(\d+)/],
  ['Firefox', /(?:Firefox|FxiOS)\/(\d+)/],
  ['Chrome', /(?:Chrome|CriOS|HeadlessChrome)\/(\d+)/],
  ['Safari', /Version\/(\d+)[^ ]* (?:Mobile\/\S+ )?Safari/],
];
const SYSTEMS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['iPhone', /iPhone/],
  ['iPad', /iPad/],
  ['Android', /Android/],
  ['Windows', /Windows/],
  ['ChromeOS', /CrOS/],
  ['macOS', /Macintosh/],
  ['Linux', /Linux/],
];

/** A `User-Agent` for people (`Chrome 140, Windows`); the text itself where it is none that is known; null for null. */
export function browserName(userAgent: string | null): string | null {
  if (userAgent === null) return null;
  const system = SYSTEMS.find(([, pattern]) => pattern.test(userAgent))?.[0];
  for (const [name, pattern] of BROWSERS) {
    const version = pattern.exec(userAgent)?.[1];
    if (version !== undefined) return system === undefined ? `${name} ${version}` : `${name} ${version}, ${system}`;
  }
  return userAgent;
}
