import { config } from 'zod';

// Before any schema is made: the page's policy forbids code from text, which zod would find out by trying.
config({ jitless: true });
