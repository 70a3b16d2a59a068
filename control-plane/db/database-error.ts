/** The closed list of what can go wrong around the database before a single query of ours runs. */
export type DatabaseErrorCode =
  | 'unsupported_platform'
  | 'binaries_unusable'
  | 'no_unprivileged_user'
  | 'data_directory_in_use'
  | 'data_directory_unusable'
  | 'database_missing'
  | 'database_version'
  | 'port_in_use'
  | 'disk_full'
  | 'permission_denied'
  | 'did_not_start'
  | 'did_not_stop'
  | 'migrations_invalid'
  | 'migration_changed'
  | 'migration_failed'
  | 'database_newer'
  | 'database_older'
  | 'app_role_unusable';

/**
 * A database that cannot be started, reached or migrated. `message` is one sentence for the operator that says what
 * to do next and holds no secret; `cause` is for the log.
 */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly code: DatabaseErrorCode;

  constructor(code: DatabaseErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.code = code;
  }
}

/** Reads the `code` member that Node's system errors and PostgreSQL's errors carry; '' where there is none. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}
