import { column, emptyState, heading } from '../parts/page-parts.ts';
import { type ConsoleRoute, get, page } from '../visit.ts';

const SECTIONS = ['approvals', 'gateways', 'reconcile', 'settings'] as const;

/** The entries of the navigation whose pages are still to come; each goes from here when its pages are there. */
export const unbuiltPages: readonly ConsoleRoute[] = SECTIONS.map((section) =>
  get(`/${section}`, async ({ words }) => {
    const title = words.shell.sections[section];
    const { unbuilt } = words.shell;
    return page(section, title, column(heading(title), emptyState(unbuilt.title, unbuilt.text)));
  }),
);
