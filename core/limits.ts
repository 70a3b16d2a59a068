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

// Rate limits that several control planes share.
/** A store on the same network answers within a millisecond; who waits much longer is better told to come back. */
export const RATE_LIMIT_TIMEOUT_MS = 250;
/** Operations that may wait for the store: two full messages of every proxy link; beyond it, refused. */
export const RATE_LIMIT_WAITING_MAX = 16_384;
/** Operations of one call of the script, which nothing else in the store runs beside: about a millisecond. */
export const RATE_LIMIT_CALL_OPERATIONS = 256;
/** The longest pause before the next attempt to connect to the store. */
export const RATE_LIMIT_RECONNECT_MAX_MS = 500;
/** How long the limits of a credential that rests are remembered in the store, so that it is known to have worked. */
export const RATE_LIMIT_KNOWN_MS = 60 * 60_000;
/** A starting control plane waits this long for the store, so that its first requests find it. */
export const RATE_LIMIT_START_MS = 1_000;
/** Times an ask is charged anew because its limits changed meanwhile. */
export const RATE_LIMIT_ROUNDS_MAX = 3;

// The proxy and the gateway path.
/** Asks in one message to the control plane. */
export const BATCH_ASKS_MAX = 256;
/** Outcomes and charges in one message. */
export const BATCH_OTHERS_MAX = 1_024;
/** Messages to one control plane while all goes well: one is decided while the next is made up. */
export const BATCHES_AT_ONCE = 2;
/** Presentations that are verified before messages and answers have their turn again. */
export const VERIFICATIONS_A_TURN = 16;
/** Asks that must wait (and half as many as are in flight) before a further message starts: small ones gain nothing. */
export const BATCH_AHEAD_MIN = 24;
/** Connections of a worker to the control plane for what is passed on: each page that is kept up to date holds one. */
export const PASS_THROUGH_CONNECTIONS_MAX = 2_048;
/** The largest form of the console: a pasted document of 1 MiB, whose punctuation a form writes in three characters. */
export const CONSOLE_FORM_MAX_BYTES = 3 * 1024 * 1024;
/** A further message may start when the one in flight is this old, so that one stuck account stops no others. */
export const BATCH_STALLED_MS = 20;
/** Messages in flight to one control plane at most. */
export const BATCHES_IN_FLIGHT_MAX = 8;
/** How long a late answer of the control plane is still listened to, in milliseconds. */
export const LATE_ANSWER_MS = 30_000;
/** An outcome alone waits this long for a decision to travel with. */
export const OUTCOME_LINGER_MS = 5;
/** Outcomes waiting to be told; beyond it the oldest are left to the control plane's sweep (they stay counted). */
export const OUTCOMES_WAITING_MAX = 20_000;
/** Times an outcome is told before it is left to the sweep: ten minutes of a control plane that is away. */
export const OUTCOME_ATTEMPTS_MAX = 600;
/** Pause between attempts, in milliseconds; grows to ten times that. */
export const OUTCOME_RETRY_MS = 100;
/** How long an answer is held for its outcome to be committed, in milliseconds. */
export const OUTCOME_HOLD_MS = 3_000;
/** Requests in flight in one worker, and of one token: one busy agent must leave room for the others. */
export const IN_FLIGHT_MAX = 10_000;
export const IN_FLIGHT_PER_TOKEN_MAX = 2_000;
/** Requests held for a human in one worker. */
export const WAITING_REQUESTS_MAX = 1_000;
/** Rounds of "read it again by this mapping" before giving up. */
export const MAPPING_ROUNDS_MAX = 4;
/** Instances whose mappings a worker remembers, and mappings of one instance. */
export const MAPPED_INSTANCES_MAX = 5_000;
export const MAPPINGS_PER_INSTANCE_MAX = 2_000;
/** Origins a worker keeps connections to. */
export const TARGET_POOLS_MAX = 500;
/** Connections to one origin. */
export const TARGET_CONNECTIONS_MAX = 256;
/** An idle connection to a target is closed after this, in milliseconds. */
export const TARGET_KEEP_ALIVE_MS = 4_000;
/** Answers up to this size are passed on in one piece. */
export const SMALL_ANSWER_BYTES = 64 * 1024;
/** Bodies up to this size are copied behind their head, which costs less than a gathered write. */
export const ONE_WRITE_MAX_BYTES = 8 * 1024;
/** Largest body kept for an idempotency key (contract §7). */
export const STORED_ANSWER_MAX_BYTES = 256 * 1024;
/** Largest body sent along for an approver's card. */
export const CARD_BODY_MAX_BYTES = 64 * 1024;
/** A credential shorter than this is not searched for in answers: it would be found by chance. */
export const CREDENTIAL_SCAN_MIN_BYTES = 8;
/** Request heads, in bytes. */
export const HEAD_MAX_BYTES = 16 * 1024;
/** How long a client may take for its headers, and for a whole request, in milliseconds. */
export const CLIENT_HEADERS_TIMEOUT_MS = 10_000;
export const CLIENT_REQUEST_TIMEOUT_MS = 300_000;
/** An idle client connection is closed after this, in milliseconds. */
export const CLIENT_KEEP_ALIVE_MS = 65_000;
/** An agent that reads nothing of its answer for this long is let go, and the target with it, in milliseconds. */
export const AGENT_STALL_MS = 120_000;
/** Bytes of refused or unread bodies that are read and forgotten, so that their sender sees the answer. */
export const DISCARDED_BODY_MAX_BYTES = 16 * 1024 * 1024;
/** Bytes of request bodies that one worker holds in memory, and of one token: room for others stays. */
export const BUFFERED_BODIES_MAX_BYTES = 64 * 1024 * 1024;
export const BUFFERED_BODIES_PER_TOKEN_MAX_BYTES = 16 * 1024 * 1024;
/** What is read for a token that nobody vouched for yet; payments are smaller, and have memory of their own. */
export const SMALL_BODY_MAX_BYTES = 16 * 1024;
export const BUFFERED_SMALL_BODIES_MAX_BYTES = 16 * 1024 * 1024;
/** The longest `Prefer: wait` (contract §7), in seconds. */
export const PREFER_WAIT_MAX_SECONDS = 600;
/** Messages of a control plane, in bytes. */
export const CONTROL_ANSWER_MAX_BYTES = 96 * 1024 * 1024;

// Escalations and what runs by the clock.
/** Requests held for a human in one control plane; beyond it they are told at once how the escalation stands. */
export const ESCALATION_WAITERS_MAX = 10_000;
/** How often all waiters together look for answers given at another control plane; an agent does not notice it. */
export const ESCALATION_POLL_MS = 250;
/** What a job takes at a time: enough to keep up, few enough to hold an account's lock for milliseconds. */
export const JOB_BATCH = 500;

// Presentations, verifications and tokens.
/** Characters of a token that the service signed; the largest holds an action and digests. */
export const JWS_MAX_CHARACTERS = 16_384;
/** Characters of a mandate's credential: a hundred scope entries and a thousand counterparties, escaped. */
export const CREDENTIAL_MAX_CHARACTERS = 4 * 1024 * 1024;
/** How often a control plane reads the signing keys again: a rotation is in use everywhere soon after it. */
export const SIGNING_KEYS_REFRESH_MS = 5_000;
/** How long a key is published before anything is signed with it: every control plane has read it twice by then. */
export const SIGNING_KEY_PUBLISHED_MS = 2 * SIGNING_KEYS_REFRESH_MS;
/** A presentation, an action and an escalation token have less than 3 KiB. */
export const VERIFY_BODY_MAX_BYTES = 64 * 1024;
/** Validated keys that a process remembers: a few megabytes, and checking one anew costs half a millisecond. */
export const AGENT_KEYS_MAX = 10_000;
/** Agents' keys that one worker checks anew, a second and at once: each takes it half a millisecond. */
export const NEW_AGENT_KEYS_PER_SECOND = 200;
export const NEW_AGENT_KEYS_BURST = 500;
/** Characters of a nonce, which is base64url or anything of its alphabet: 22 hold 16 random bytes (contract §3). */
export const NONCE_MIN_CHARACTERS = 22;
/** Nonces are stored and indexed; 128 characters hold 64 bytes in hex. */
export const NONCE_MAX_CHARACTERS = 128;
// Mandates.
/** Mandates of one account that are not over: a stop moves all of them in one transaction, and forms list them. */
export const LIVING_MANDATES_MAX = 1_000;
// API keys.
/** Active keys of one account: one for each piece of software, with room; each is a row that lists show. */
export const API_KEYS_ACTIVE_MAX = 1_000;
/** Keys whose last use waits to be written by one process: seconds of all the keys a large installation has. */
export const API_KEY_USES_WAITING_MAX = 100_000;
// The log of an account.
/** Signatures of a note; verifiers must take 16 at least (C2SP signed-note), and each may cost a check. */
export const NOTE_SIGNATURES_MAX = 64;
/** Characters of a note: a checkpoint and as many signature lines as it may have, also post-quantum ones of 4 KiB. */
export const NOTE_MAX_CHARACTERS = 512 * 1024;
// The sandbox.
/** How long a sandbox mandate lives (contract §8: 24 h). */
export const SANDBOX_LIFE_MS = 24 * 60 * 60_000;
/** Sandbox mandates that are not swept yet, of everybody together: enough for an event, and all that can lie around. */
export const SANDBOX_MANDATES_MAX = 2_000;
/** Allows under one sandbox mandate; with the bound above, what the sweep has to look through. */
export const SANDBOX_USES_MAX = 100;
/** Sandbox mandates made from one address in an hour, all at once if need be; sharing an address must be possible. */
export const SANDBOX_MANDATES_PER_HOUR = 20;
/** What a sandbox request may hold: a scope of a hundred entries, or an action. */
export const SANDBOX_BODY_MAX_BYTES = 16 * 1024;
/** What the echo answers is held in memory twice. */
export const SANDBOX_ECHO_MAX_BYTES = 64 * 1024;
/** Mandates swept at a time: each is looked for among all that the sandbox allowed, under its account's lock. */
export const SANDBOX_SWEEP_BATCH = 5;
// Dossiers.
/** A dossier has some twenty entries; an entry's body has 64 KiB at most, and few come near it. */
export const DOSSIER_MAX_BYTES = 8 * 1024 * 1024;
/** Entries of one part of a dossier: a hundred reports of an execution, with room. */
export const DOSSIER_ENTRIES_MAX = 128;
/** Refused bookings and reports of one receipt that a dossier holds: whoever has the token can make more. */
export const DOSSIER_REFUSALS_MAX = 16;
/** A checkpoint has a few hundred characters, and some hundred for each witness. */
export const DOSSIER_NOTE_MAX_CHARACTERS = 64 * 1024;
/** Timestamps over one tree head: one for each authority that somebody may ask for. */
export const DOSSIER_TIMESTAMPS_MAX = 8;
/** Base64 of the longest timestamp token. */
export const DOSSIER_TIMESTAMP_MAX_CHARACTERS = 88 * 1024;
/** Hashes of an audit path: a tree of 2^53 leaves has no longer one. */
export const DOSSIER_PROOF_MAX_HASHES = 53;
/** A sentence about a claim; what it repeats of a file is cut there. */
export const DOSSIER_SENTENCE_MAX_CHARACTERS = 500;
/** Keys and authorities of a trust file. */
export const TRUST_FILE_MAX_BYTES = 1024 * 1024;
/** Keys of one kind in a trust file: a log has one, a set of witnesses a dozen. */
export const TRUST_KEYS_MAX = 64;
/** An outcome told so long after its decision is found through the table of late ones; others lie close behind it. */
export const OUTCOME_LATE_MS = 1_000;
// Notifications.
/** Endpoints of one account: each costs a delivery an event. */
export const WEBHOOK_ENDPOINTS_MAX = 10;
/** Recipients of e-mail besides the account's own address; the table has the same bound. */
export const MAIL_RECIPIENTS_MAX = 5;
/** Events that are spread to those who want them at a time: enough to keep up, few enough for one transaction. */
export const SPREAD_BATCH = 100;
/** Deliveries that may wait for one endpoint; an account that makes more events than that has other worries. */
export const DELIVERIES_WAITING_MAX = 10_000;
/** E-mails to one address in an hour, and those of them that are about escalations, which a human must answer. */
export const MAILS_PER_HOUR = 30;
export const ESCALATION_MAILS_PER_HOUR = 120;
/** Webhooks and e-mails that one control plane sends at once, those of one account, and those to one receiver. */
export const WEBHOOKS_IN_FLIGHT_MAX = 64;
export const MAILS_IN_FLIGHT_MAX = 8;
export const IN_FLIGHT_PER_ACCOUNT_MAX = 8;
export const IN_FLIGHT_PER_RECEIVER_MAX = 2;
/** One in so many of what may be sent at once is kept for accounts that have nothing on its way. */
export const IN_FLIGHT_RESERVED_SHARE = 4;
/** What is due is looked through so far; where more is, each account's first ones instead. */
export const DUE_LOOK_MAX = 500;
export const DUE_LOOK_PER_ACCOUNT_MAX = 16;
/** Accounts that are looked through then, each in some 20 us: more have never waited at once. */
export const DUE_ACCOUNTS_MAX = 10_000;
/** Accounts whose receivers took longer than this lately come after the others, in milliseconds. */
export const SLOW_DELIVERY_MS = 1_000;
export const SLOW_ACCOUNTS_MAX = 1_000;
/** For so long after its last slow delivery an account is remembered by it, in milliseconds. */
export const SLOW_REMEMBERED_MS = 10 * 60_000;
/** How long connecting to a receiver, and the whole exchange, may take, in milliseconds. */
export const WEBHOOK_CONNECT_TIMEOUT_MS = 5_000;
export const WEBHOOK_TIMEOUT_MS = 15_000;
/** Bytes of a receiver's answer that are read (and forgotten) so that its connection can be used again. */
export const WEBHOOK_ANSWER_MAX_BYTES = 16 * 1024;
/** How long an SMTP server may take for each step, and a mail may take in all, in milliseconds. */
export const SMTP_STEP_TIMEOUT_MS = 10_000;
export const SMTP_TIMEOUT_MS = 30_000;
/** For so long a delivery belongs to who claimed it, in milliseconds: twice what the longest sending may take. */
export const DELIVERY_CLAIM_MS = 60_000;
/** Attempts of one delivery, and the pauses between them: 5 s, tripled each time up to 20 h, over three days in all. */
export const DELIVERY_ATTEMPTS_MAX = 13;
export const DELIVERY_RETRY_FIRST_MS = 5_000;
export const DELIVERY_RETRY_FACTOR = 3;
export const DELIVERY_RETRY_MAX_MS = 20 * 60 * 60_000;
/** How much longer or shorter a pause may be, so that retries do not come all at once. */
export const DELIVERY_RETRY_JITTER = 0.2;
/** An endpoint is disabled where a delivery is given up and nothing arrived for so long, in milliseconds. */
export const WEBHOOK_FAILING_MAX_MS = 48 * 60 * 60_000;
/** Attempts that a delivery remembers. */
export const DELIVERY_LOG_MAX = 24;
/** How long the secret before a rotation signs along, in milliseconds: a day to change it at the receiver. */
export const WEBHOOK_SECRET_OVERLAP_MS = 24 * 60 * 60_000;
/** How long events and their deliveries are kept, in days: beyond a month, which is told of once. */
export const NOTIFICATIONS_KEPT_DAYS = 45;

// Exports and replays.
/** Chains that one control plane reads from end to end at a time: each takes it about half a core. */
export const LONG_READS_MAX = 4;
/** Those that are under way, also waiting for their readers: each holds two pages, 1 MiB as a rule and 33 at worst. */
export const LONG_READS_OPEN_MAX = 8;
/** An export whose reader was waited for so long in all makes room for another where there is none, in milliseconds. */
export const READER_PATIENCE_MS = 30_000;
/** Entries of a replayed period: some 20 seconds, and half a year of one busy account. */
export const REPLAY_ENTRIES_MAX = 1_000_000;
// Timestamps.
/** A timestamp token with the certificates of a long path and a large RSA key has 10 KiB. */
export const TIMESTAMP_TOKEN_MAX_BYTES = 64 * 1024;
/** Nesting of DER: a token has about fifteen levels. */
export const DER_DEPTH_MAX = 40;
/** Values in one DER document: a token with a whole path has some hundreds. */
export const DER_NODES_MAX = 5_000;
/** A certificate of two to four KiB is usual. */
export const CERTIFICATE_MAX_BYTES = 16 * 1024;
/** Certificates that come with a token; a path needs three or four. */
export const TOKEN_CERTIFICATES_MAX = 16;
/** Certificates of one path, both ends included. */
export const CERTIFICATE_PATH_MAX = 8;
/** Signatures that are checked to find a path: certificates of a stranger may issue each other in circles. */
export const CERTIFICATE_SIGNATURES_MAX = 32;
/** Certificates of a trust file: all authorities a court may ask for, and few enough to look through. */
export const TRUST_ANCHORS_MAX = 64;
/** Shorter RSA keys are not accepted for what must hold for years; longer ones only cost time. */
export const RSA_MODULUS_MIN_BITS = 2048;
export const RSA_MODULUS_MAX_BITS = 8192;
/** How far the time of a timestamp or cosignature may be from the clock here when it comes: clocks differ. */
export const TIMESTAMP_CLOCK_TOLERANCE_MS = 5 * 60_000;
/** Timestamps that one control plane asks for at once. */
export const TIMESTAMP_CONNECTIONS_MAX = 8;
// Publishing tree heads.
/** Accounts that are looked at together for a head that moved; then the next ones. */
export const PUBLISH_ACCOUNTS = 500;
/** Heads published at once to one publisher; a process that stops waits for them. */
export const PUBLISH_AT_ONCE = 4;
/** How much longer than the exchanges may take nobody else publishes what one control plane began to. */
export const PUBLISH_CLAIM_MARGIN_MS = 60_000;
/** The pause after a failure: somebody else's service is not to be pressed. */
export const PUBLISH_RETRY_MS = 60_000;
/** Connections to one witness: as many as heads are published at once. */
export const WITNESS_CONNECTIONS_MAX = PUBLISH_AT_ONCE;
/** An answer of a witness: a few signature lines, post-quantum ones included. */
export const WITNESS_ANSWER_MAX_BYTES = 64 * 1024;
/** Hashes of a consistency proof (C2SP tlog-witness). */
export const CONSISTENCY_PROOF_MAX = 63;
/** Bytes of one line of an exported file: an entry's body has 64 KiB, a trailer a timestamp token in base64. */
export const EXPORT_LINE_MAX_BYTES = 256 * 1024;
/**
 * Entries that an export reads at a time, and the bytes that the next page should have by the one before. It holds two
 * pages: 0.5 MiB as a rule, 33 where entries of 64 KiB follow upon small ones.
 */
export const EXPORT_PAGE_ENTRIES = 512;
export const EXPORT_PAGE_TARGET_BYTES = 256 * 1024;
/** Whoever reads nothing of an export for so long is let go, in milliseconds: others wait for the turn. */
export const EXPORT_STALL_MS = 60_000;
/** How long one question to a name server waits for its answer, in milliseconds, and how often it is asked. */
export const NAME_TIMEOUT_MS = 1_500;
export const NAME_TRIES = 2;
/** How long IPv6 addresses are waited for once those of IPv4 are there (RFC 8305 §3), in milliseconds. */
export const NAME_ADDRESSES_WAIT_MS = 50;
/** Names that one process resolves at once: each is a socket and a few kilobytes. */
export const NAMES_AT_ONCE_MAX = 512;
