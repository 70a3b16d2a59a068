import {
  addressList,
  flag,
  host,
  key32,
  mailbox,
  oneOf,
  path,
  port,
  redisUrl,
  type Setting,
  setting,
  sharedSecret,
  smtpUrl,
  text,
  url,
  urlList,
  wholeNumber,
  witnessKeyList,
} from './setting.ts';

const SECRET = { secret: true } as const;
const SECRET_OR_FILE = { secret: true, fromFile: true } as const;
const milliseconds = wholeNumber(1, 3_600_000, 'ms');

/** Every setting there is. README's table is generated from this list; `config/load.ts` reads them. */
export const SETTINGS = {
  databaseUrl: setting(
    'MANDATE_DATABASE_URL',
    url('postgres:', 'postgresql:'),
    null,
    ['up', 'migrate'],
    'PostgreSQL 15 or newer, as the role that owns the schema; without it `mandate up` runs an embedded one.',
    SECRET_OR_FILE,
  ),
  databaseAppUrl: setting(
    'MANDATE_DATABASE_APP_URL',
    url('postgres:', 'postgresql:'),
    null,
    ['up', 'control-plane', 'migrate'],
    'The same database as role `mandate_app`, which the control plane runs as; `mandate migrate` sets its password.',
    SECRET_OR_FILE,
  ),
  dataDir: setting(
    'MANDATE_DATA_DIR',
    path,
    './data',
    ['up'],
    'Where `mandate up` keeps the embedded database and the secrets it generates; created with mode 0700.',
  ),
  proxyHost: setting('MANDATE_PROXY_HOST', host, '127.0.0.1', ['up', 'proxy'], 'Address the proxy listens on.'),
  proxyPort: setting('MANDATE_PROXY_PORT', port, '8080', ['up', 'proxy'], 'Port of the proxy: what agents call.'),
  proxyWorkers: setting(
    'MANDATE_PROXY_WORKERS',
    wholeNumber(1, 64, 'processes'),
    '1',
    ['up', 'proxy'],
    'Worker processes of the proxy; one a CPU core is the most that helps.',
  ),
  publicUrl: setting(
    'MANDATE_PUBLIC_URL',
    url('http:', 'https:'),
    null,
    ['up', 'control-plane', 'cli'],
    'The address agents reach the proxy at, where it is not its own (load balancer, TLS terminator).',
  ),
  controlHost: setting(
    'MANDATE_CONTROL_HOST',
    host,
    '127.0.0.1',
    ['up', 'control-plane'],
    'Address the control plane listens on for its admin API.',
  ),
  controlPort: setting(
    'MANDATE_CONTROL_PORT',
    port,
    '8081',
    ['up', 'control-plane'],
    "Port of the control plane's admin API.",
  ),
  controlUrl: setting(
    'MANDATE_CONTROL_URL',
    url('http:', 'https:'),
    'http://127.0.0.1:8081',
    ['proxy', 'cli'],
    'Where the admin API is: for the CLI, and for what the proxy passes through.',
  ),
  internalHost: setting(
    'MANDATE_INTERNAL_HOST',
    host,
    '127.0.0.1',
    ['control-plane'],
    'Address the control plane listens on for proxies.',
  ),
  internalPort: setting(
    'MANDATE_INTERNAL_PORT',
    port,
    '8082',
    ['control-plane'],
    'Port the control plane listens on for proxies, where MANDATE_CONTROL_SOCKET is not set.',
  ),
  controlSocket: setting(
    'MANDATE_CONTROL_SOCKET',
    path,
    null,
    ['control-plane'],
    'Unix socket the control plane listens on for proxies on the same machine (at most 107 bytes).',
  ),
  controlPlanes: setting(
    'MANDATE_CONTROL_PLANES',
    addressList,
    'http://127.0.0.1:8082',
    ['proxy'],
    'Where the proxy reaches the control planes for decisions.',
  ),
  internalSecret: setting(
    'MANDATE_INTERNAL_SECRET',
    sharedSecret,
    null,
    ['up', 'control-plane', 'proxy'],
    'Authenticates proxies to control planes; `mandate up` generates one.',
    SECRET_OR_FILE,
  ),
  masterKey: setting(
    'MANDATE_MASTER_KEY',
    key32,
    null,
    ['up', 'control-plane'],
    'Encrypts stored secrets; keep a copy, nothing opens them without it. `mandate up` generates one.',
    SECRET_OR_FILE,
  ),
  allowPlaintext: setting(
    'MANDATE_ALLOW_PLAINTEXT',
    flag,
    'false',
    ['up', 'control-plane', 'proxy', 'cli'],
    'Allows addresses beyond loopback without TLS: for networks where something else encrypts (mesh, TLS terminator).',
  ),
  gatewayAllowPrivateTargets: setting(
    'MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS',
    flag,
    'false',
    ['up', 'control-plane', 'proxy'],
    'Allows targets in loopback and private ranges; true under `mandate up` with the embedded database.',
  ),
  rateLimitUrl: setting(
    'MANDATE_RATE_LIMIT_URL',
    redisUrl,
    null,
    ['up', 'control-plane'],
    'Redis or Valkey that holds the rate limits of several control planes; without it each counts for itself.',
    SECRET_OR_FILE,
  ),
  smtpUrl: setting(
    'MANDATE_SMTP_URL',
    smtpUrl,
    null,
    ['up', 'control-plane'],
    'SMTP server that e-mail notifications are sent by; without it nobody is told by e-mail.',
    SECRET_OR_FILE,
  ),
  mailFrom: setting(
    'MANDATE_MAIL_FROM',
    mailbox,
    null,
    ['up', 'control-plane'],
    'The sender of e-mail notifications; needed with MANDATE_SMTP_URL.',
  ),
  controlLanes: setting(
    'MANDATE_CONTROL_LANES',
    wholeNumber(1, 64, 'lanes'),
    '4',
    ['up', 'control-plane'],
    'Transactions a control plane runs at once; an account stays on one lane.',
  ),
  decisionBatchMax: setting(
    'MANDATE_DECISION_BATCH_MAX',
    wholeNumber(1, 1024, 'decisions'),
    '256',
    ['up', 'control-plane', 'proxy'],
    'Decisions one transaction may carry; 1 turns group commit off.',
  ),
  decisionTimeoutMs: setting(
    'MANDATE_DECISION_TIMEOUT_MS',
    milliseconds,
    '2000',
    ['up', 'proxy'],
    'How long the proxy waits for a decision before it answers 503.',
  ),
  targetConnectTimeoutMs: setting(
    'MANDATE_TARGET_CONNECT_TIMEOUT_MS',
    milliseconds,
    '5000',
    ['up', 'proxy'],
    'How long connecting to a target may take before it counts as unreachable.',
  ),
  targetTimeoutMs: setting(
    'MANDATE_TARGET_TIMEOUT_MS',
    milliseconds,
    '60000',
    ['up', 'proxy'],
    "How long a target may take to begin its answer, and to go on with it, before the outcome is 'unknown'.",
  ),
  approvalFactorMs: setting(
    'MANDATE_APPROVAL_FACTOR_MS',
    wholeNumber(0, 43_200_000, 'ms'),
    '300000',
    ['up', 'control-plane'],
    'How old a second factor may be when a person answers an escalation (console or CLI); 0 asks for one each time.',
  ),
  shutdownTimeoutMs: setting(
    'MANDATE_SHUTDOWN_TIMEOUT_MS',
    milliseconds,
    '10000',
    ['up', 'control-plane', 'proxy'],
    'How long a process that was told to stop finishes what it began.',
  ),
  metricsHost: setting(
    'MANDATE_METRICS_HOST',
    host,
    '127.0.0.1',
    ['up', 'control-plane', 'proxy'],
    'Address the metrics of both processes are served on.',
  ),
  proxyMetricsPort: setting(
    'MANDATE_PROXY_METRICS_PORT',
    port,
    '9464',
    ['up', 'proxy'],
    "Port of the proxy's metrics.",
  ),
  controlMetricsPort: setting(
    'MANDATE_CONTROL_METRICS_PORT',
    port,
    '9465',
    ['up', 'control-plane'],
    "Port of the control plane's metrics.",
  ),
  logLevel: setting(
    'MANDATE_LOG_LEVEL',
    oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
    'info',
    ['up', 'control-plane', 'proxy', 'migrate'],
    'The least severe log lines that are written; `mandate up` writes from warn on unless this is set.',
  ),
  tsaUrl: setting(
    'MANDATE_TSA_URL',
    url('http:', 'https:'),
    null,
    ['up', 'control-plane'],
    'Timestamping authority (RFC 3161 over HTTP) that tree heads are timestamped by.',
  ),
  tsaMode: setting(
    'MANDATE_TSA_MODE',
    oneOf(['off', 'best-effort', 'required']),
    null,
    ['up', 'control-plane'],
    'Whether exports fail without the timestamp they ask for; best-effort where MANDATE_TSA_URL is set, else off.',
  ),
  tsaCaFile: setting(
    'MANDATE_TSA_CA_FILE',
    path,
    null,
    ['up', 'control-plane'],
    'PEM file with the certificates that may issue the one of the timestamping authority; without it any may.',
  ),
  tsaTimeoutMs: setting(
    'MANDATE_TSA_TIMEOUT_MS',
    milliseconds,
    '5000',
    ['up', 'control-plane'],
    'How long the timestamping authority or a witness may take to answer.',
  ),
  publishIntervalMs: setting(
    'MANDATE_PUBLISH_INTERVAL_MS',
    wholeNumber(1_000, 86_400_000, 'ms'),
    '600000',
    ['up', 'control-plane'],
    "How often an account's new tree head is timestamped and shown to the witnesses.",
  ),
  witnessUrls: setting(
    'MANDATE_WITNESS_URLS',
    urlList,
    null,
    ['up', 'control-plane'],
    'Submission prefixes of witnesses (C2SP tlog-witness), comma-separated, that cosign tree heads.',
  ),
  witnessKeys: setting(
    'MANDATE_WITNESS_KEYS',
    witnessKeyList,
    null,
    ['up', 'control-plane'],
    'The verifier keys of these witnesses in the same order, comma-separated: `name+id+base64`.',
  ),
  token: setting(
    'MANDATE_TOKEN',
    text,
    null,
    ['cli'],
    'Session token of the CLI; wins over the file that `mandate login` writes.',
    SECRET,
  ),
  url: setting(
    'MANDATE_URL',
    url('http:', 'https:'),
    null,
    ['cli'],
    'The service as this machine reaches it; without it MANDATE_PUBLIC_URL, else the proxy on this machine.',
  ),
  apiKey: setting(
    'MANDATE_API_KEY',
    text,
    null,
    ['cli'],
    'API key for the commands that call the service as an agent or a relying party does.',
    SECRET,
  ),
  home: setting(
    'MANDATE_HOME',
    path,
    null,
    ['cli'],
    "Directory of the CLI's session file, where it is not the usual one.",
  ),
} as const;

export type SettingName = keyof typeof SETTINGS;

type Value<S> = S extends Setting<infer T, infer F> ? (F extends null ? T | null : T) : never;

/** The settings as they were read: numbers in the unit that the table names, times in milliseconds. */
export type Config = { readonly [K in SettingName]: Value<(typeof SETTINGS)[K]> };

/** All settings, with their key in `Config`. */
export function settings(): [SettingName, Setting<unknown, string | null>][] {
  return Object.entries(SETTINGS) as [SettingName, Setting<unknown, string | null>][];
}

/** README's table of settings in Markdown; a test compares the two. */
export function settingsTable(): string {
  const rows = settings().map(([, item]) => {
    const name = item.fromFile ? `\`${item.env}\` or \`${item.env}_FILE\`` : `\`${item.env}\``;
    const fallback = item.fallback === null ? '' : `\`${item.fallback}\``;
    return `| ${name} | ${fallback} | ${item.unit} | ${item.usedBy.join(', ')} | ${item.meaning} |`;
  });
  return ['| variable | default | unit | used by | meaning |', '|---|---|---|---|---|', ...rows].join('\n');
}
