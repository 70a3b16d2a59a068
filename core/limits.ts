/**
 * Every bound of the system: a name with its unit, and why it is this value. Settings that an operator may change are
 * in config/schema.ts; these are not settings.
 */

// Database connections and migrations.
/** A statement that runs longer is a bug or an overload; both must fail closed well before a client gives up. */
export const STATEMENT_TIMEOUT_MS = 10_000;
/** The head lock is held for milliseconds; whoever waits this long is behind a stuck transaction. */
export const LOCK_TIMEOUT_MS = 5_000;
/** A transaction that its client forgot must not keep an account's head locked. */
export const IDLE_IN_TRANSACTION_TIMEOUT_MS = 10_000;
/** A database that does not accept a connection by then counts as away. */
export const DATABASE_CONNECT_TIMEOUT_S = 5;
/** The longest pause before the next attempt to reach a database that went away. */
export const DATABASE_RECONNECT_MAX_S = 1;
/** Connections of one pool where its owner does not say otherwise. */
export const DATABASE_POOL_CONNECTIONS = 10;
/** One migration may rewrite a large table; replicas that start together wait this long for the one that migrates. */
export const MIGRATION_TIMEOUT_MS = 30 * 60_000;
/** Roles belong to the whole server, so migrations of two databases can meet in them; they meet rarely. */
export const MIGRATION_ROLE_ATTEMPTS = 20;

// Embedded PostgreSQL.
/** Pools of a few control planes on one machine; each connection costs PostgreSQL a process. */
export const EMBEDDED_MAX_CONNECTIONS = 100;
/** How often a starting or stopping server is looked at. */
export const EMBEDDED_POLL_MS = 25;
/** Crash recovery replays at most the WAL since the last checkpoint; far beyond that the server is stuck. */
export const EMBEDDED_START_TIMEOUT_MS = 10 * 60_000;
/** Somebody may take a free port between our choosing and PostgreSQL's binding it. */
export const EMBEDDED_PORT_ATTEMPTS = 5;
/** A fast shutdown writes a checkpoint; slow disks need their time. */
export const EMBEDDED_FAST_SHUTDOWN_MS = 60_000;
/** Server processes notice the loss of their postmaster at once unless they are busy. */
export const EMBEDDED_BACKEND_EXIT_MS = 5_000;
/** An immediate shutdown writes nothing. */
export const EMBEDDED_IMMEDIATE_SHUTDOWN_MS = 10_000;
/** The server's log starts anew above this size, the one before is kept. */
export const EMBEDDED_LOG_MAX_BYTES = 8 * 1024 * 1024;
/** How often the size of the server's log is looked at. */
export const EMBEDDED_LOG_CHECK_MS = 60_000;
/** `sockaddr_un` holds 108 bytes on Linux and 104 on macOS, `/.s.PGSQL.65535` and the final NUL included. */
export const EMBEDDED_SOCKET_DIRECTORY_MAX_BYTES = 87;

// Reading requests.
/** Nesting of JSON arrays and objects (contract §7); deeper documents exist only to exhaust stacks. */
export const JSON_DEPTH_MAX = 64;
/** Characters of a member or field name that a message repeats; the rest of a body is never repeated. */
export const NAME_ECHO_MAX_CHARACTERS = 64;
/** Fields of a form; common servers silently drop what comes after the thousandth. */
export const FORM_FIELDS_MAX = 1000;
/** Bracketed parts of one field's name (`a[b][c]` has two); real APIs have a few, and each one is checked. */
export const FORM_NAME_PARTS_MAX = 16;
/** Minor units of one amount (contract §1): exact in a double and in a bigint, and beyond any payment. */
export const MONEY_MINOR_MAX = 1_000_000_000_000_000;
/** A tool's path in bytes; longer ones are data, not names, and tool names are stored. */
export const TOOL_PATH_MAX_BYTES = 2048;
/** Segments of a tool's path; bounds the work of matching templates. */
export const TOOL_PATH_SEGMENTS_MAX = 32;
/** A forwarded query in bytes; half of what Node accepts as a request's whole head. */
export const TOOL_QUERY_MAX_BYTES = 8192;
/** Parameters of one path template. */
export const TEMPLATE_PARAMS_MAX = 8;
/** A mapping's value source, in characters: a pointer, a name or a constant. */
export const VALUE_SOURCE_MAX_CHARACTERS = 512;
/** Body bytes that are read for a decision where the tool does not say otherwise (contract §7: 1 MiB). */
export const BODY_LIMIT_DEFAULT_BYTES = 1024 * 1024;
/** The most that one tool may be set to: bodies that are read are held in memory. */
export const BODY_LIMIT_MAX_BYTES = 16 * 1024 * 1024;
/** An action type, and the part of a scope entry before its `.*`, in characters (contract §2). */
export const ACTION_TYPE_MAX_CHARACTERS = 128;
/** A counterparty after NFC, in code points (contract §2). */
export const COUNTERPARTY_MAX_CHARACTERS = 256;
