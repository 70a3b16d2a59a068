import { Html } from '../html.ts';

/** The icons there are: strokes on a grid of 24, drawn in the colour of the text around them. */
const ICONS = {
  brand: '<path d="M12 2.5 4 5.5v6c0 5 3.4 8.4 8 10 4.6-1.6 8-5 8-10v-6z"/><path d="m8.5 12 2.4 2.4 4.6-4.8"/>',
  overview: '<path d="M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z"/>',
  approvals: '<path d="M12 8v4l2.5 2.5"/><circle cx="12" cy="12" r="8.5"/>',
  mandates: '<path d="M7 3.5h7l4 4v13H7z"/><path d="M14 3.5v4h4M10 12h5M10 16h5"/>',
  gateways: '<path d="M3.5 8h12M12.5 5l3 3-3 3M20.5 16h-12M11.5 13l-3 3 3 3"/>',
  keys: '<circle cx="8" cy="15" r="4"/><path d="m11 12 8.5-8.5M16 7l3 3"/>',
  evidence:
    '<path d="M9.5 14.5 14.5 9.5M11 6.5l1.5-1.5a4.2 4.2 0 0 1 6 6L17 12.5M13 17.5 11.5 19a4.2 4.2 0 0 1-6-6L7 11.5"/>',
  reconcile: '<path d="M4 12a8 8 0 0 1 14-5.300L20 9M20 4v5h-5M20 12a8 8 0 0 1-14 5.300L4 15M4 20v-5h5"/>',
  settings: '<path d="M4 7h9M17 7h3M4 17h3M11 17h9"/><circle cx="15" cy="7" r="2"/><circle cx="9" cy="17" r="2"/>',
  person: '<circle cx="12" cy="8" r="4"/><path d="M4.5 20.500a7.5 7.5 0 0 1 15 0"/>',
  menu: '<path d="M4 7h16M4 12h16M4 17h16"/>',
  good: '<circle cx="12" cy="12" r="9"/><path d="m8.5 12.2 2.4 2.3 4.6-4.8"/>',
  warn: '<path d="M12 4 2.8 20h18.400zM12 10v4M12 17v.1"/>',
  bad: '<circle cx="12" cy="12" r="9"/><path d="m9 9 6 6M15 9l-6 6"/>',
  info: '<circle cx="12" cy="12" r="9"/><path d="M12 11v5M12 8v.1"/>',
} as const;
export type IconName = keyof typeof ICONS;

const FRAME =
  'viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" ' +
  'stroke-linejoin="round" aria-hidden="true" focusable="false"';

/** An icon beside a text that says the same. */
export function icon(name: IconName): Html {
  return new Html(`<svg ${FRAME}>${ICONS[name]}</svg>`);
}
