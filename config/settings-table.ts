import { settingsTable } from './schema.ts';

// `npm run -s docs:settings`: prints README's table of settings.
process.stdout.write(`${settingsTable()}\n`);
