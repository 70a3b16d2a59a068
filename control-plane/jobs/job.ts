import type { Logger } from '../../config/log.ts';
import type { Sql } from '../db/client.ts';
import type { Lanes } from '../decisions/lanes.ts';
import type { ToolSightings } from '../gateways/sightings.ts';
import type { KeyUses } from '../keys/uses.ts';

/** What jobs work with. */
export interface JobsCore {
  readonly sql: Sql;
  readonly lanes: Lanes;
  readonly keyUses: KeyUses;
  /** Where lanes note what was seen of tools; absent where they note nothing. */
  readonly sightings?: ToolSightings;
  readonly log: Logger;
}

/** One round of a job: acts on a bounded number of rows and returns whether there may be more of them. */
export type Job = (core: JobsCore) => Promise<boolean>;
