import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { fromBER, GeneralizedTime, Integer, Null, ObjectIdentifier, OctetString, Sequence } from 'asn1js';

const run = promisify(execFile);

/** Whether there is an `openssl` here that can timestamp; without it these tests are skipped, and say so. */
export function opensslMissing(): string | false {
  try {
    return execFileSync('openssl', ['version'], { encoding: 'utf8' }).startsWith('OpenSSL ') ? false : 'no OpenSSL';
  } catch {
    return 'openssl is not installed';
  }
}

/** A certificate with its key, as files of the authority's directory. */
export interface TestCertificate {
  readonly certificate: string;
  readonly key: string;
}

export interface CertificateOptions {
  readonly extensions?: readonly string[];
  /** `YYYYMMDDHHMMSSZ`. */
  readonly from?: string;
  readonly to?: string;
  readonly keyBits?: number;
  /** An elliptic curve instead of RSA. */
  readonly curve?: string;
  readonly subject?: string;
  readonly issuer?: TestCertificate;
}

/** What a crafted timestamp states; a proper one over `digest` where nothing is said. */
export interface CraftedInfo {
  readonly digest: Uint8Array;
  readonly nonce?: bigint;
  readonly time?: Date;
  readonly version?: number;
}

/** How a crafted one is signed: content type, hash, further arguments of `openssl cms -sign`. */
export interface CraftedHow {
  readonly type?: string;
  readonly md?: string;
  readonly more?: readonly string[];
}

const PROPER = [
  'basicConstraints=critical,CA:false',
  'keyUsage=critical,digitalSignature',
  'extendedKeyUsage=critical,timeStamping',
];
const AUTHORITY = ['basicConstraints=critical,CA:true', 'keyUsage=critical,keyCertSign,cRLSign'];
const SHA_256 = '2.16.840.1.101.3.4.2.1';
const TST_INFO = '1.2.840.113549.1.9.16.1.4';

interface Teardown {
  teardown(fn: () => Promise<void>): void;
}

/** A certificate authority and a timestamping authority made with OpenSSL in a directory that the test removes. */
export class TestTsa {
  readonly directory: string;
  readonly root: TestCertificate;
  readonly signer: TestCertificate;
  #replies: Promise<unknown> = Promise.resolve();

  private constructor(directory: string, root: TestCertificate, signer: TestCertificate) {
    this.directory = directory;
    this.root = root;
    this.signer = signer;
  }

  static async make(t: Teardown): Promise<TestTsa> {
    const directory = await mkdtemp(join(tmpdir(), 'mandate-tsa-'));
    t.teardown(() => rm(directory, { recursive: true, force: true }));
    const root = await issue(directory, { subject: '/CN=Test Root/O=Example', extensions: AUTHORITY });
    const signer = await issue(directory, { issuer: root });
    await writeFile(join(directory, 'serial'), '01\n');
    return new TestTsa(directory, root, signer);
  }

  /** The root's certificate in PEM. */
  rootPem(): Promise<string> {
    return readFile(this.root.certificate, 'utf8');
  }

  issue(options: CertificateOptions): Promise<TestCertificate> {
    return issue(this.directory, { issuer: this.root, ...options });
  }

  issueAuthority(options: CertificateOptions = {}): Promise<TestCertificate> {
    return this.issue({ subject: `/CN=Between ${randomBytes(4).toString('hex')}`, extensions: AUTHORITY, ...options });
  }

  /** The answer of `openssl ts` to a query, one after the other: its file of serial numbers is not for several. */
  reply(query: Uint8Array, options: ReplyOptions = {}): Promise<Buffer> {
    const mine = this.#replies.then(() => this.#reply(query, options));
    this.#replies = mine.catch(() => {});
    return mine;
  }

  async #reply(query: Uint8Array, options: ReplyOptions): Promise<Buffer> {
    const { signer = this.signer, chain = [this.root], digests = 'sha256', hash = 'sha256', ess = 'sha256' } = options;
    const path = (name: string): string => join(this.directory, name);
    const lines = [
      '[tsa]',
      `serial = ${path('serial')}`,
      `signer_digest = ${hash}`,
      'default_policy = 1.2.3.4.1',
      `digests = ${digests}`,
      'accuracy = secs:1, millisecs:500',
      'tsa_name = yes',
      `ess_cert_id_alg = ${ess}`,
    ];
    await writeFile(path('tsa.cnf'), `${lines.join('\n')}\n`);
    await writeFile(path('chain.pem'), (await Promise.all(chain.map((one) => readFile(one.certificate)))).join('\n'));
    await writeFile(path('query'), query);
    const files = ['-queryfile', path('query'), '-out', path('reply'), '-chain', path('chain.pem')];
    const keys = ['-signer', signer.certificate, '-inkey', signer.key];
    await run('openssl', ['ts', '-reply', '-config', path('tsa.cnf'), '-section', 'tsa', ...files, ...keys]);
    return readFile(path('reply'));
  }

  /** A granted answer around what no proper authority would sign. */
  async crafted(
    info: CraftedInfo,
    signer: TestCertificate = this.signer,
    { type = TST_INFO, md = 'sha256', more = [] }: CraftedHow = {},
  ): Promise<Buffer> {
    const name = randomBytes(8).toString('hex');
    const [from, to] = [join(this.directory, `${name}.info`), join(this.directory, `${name}.cms`)];
    await writeFile(from, infoBytes(info));
    const how = ['-binary', '-nodetach', '-cades', '-nosmimecap', '-md', md, '-econtent_type', type];
    const files = ['-in', from, '-outform', 'DER', '-out', to, '-signer', signer.certificate, '-inkey', signer.key];
    await run('openssl', ['cms', '-sign', ...how, ...files, ...more]);
    return grantedAnswer(await readFile(to));
  }

  /** Whether `openssl ts -verify` accepts a token for a digest. */
  async verifies(token: Uint8Array, digest: Uint8Array): Promise<boolean> {
    const file = join(this.directory, `${randomBytes(8).toString('hex')}.token`);
    await writeFile(file, token);
    const what = ['-digest', Buffer.from(digest).toString('hex'), '-in', file, '-token_in'];
    return run('openssl', ['ts', '-verify', ...what, '-CAfile', this.root.certificate]).then(
      ({ stdout }) => stdout.includes('Verification: OK'),
      () => false,
    );
  }

  /** Whether `openssl cms -verify` does: it knows RSA-PSS and key identifiers, which `openssl ts` does not. */
  async verifiesAsCms(token: Uint8Array): Promise<boolean> {
    const file = join(this.directory, `${randomBytes(8).toString('hex')}.token`);
    await writeFile(file, token);
    const how = [
      '-inform',
      'DER',
      '-CAfile',
      this.root.certificate,
      '-purpose',
      'timestampsign',
      '-out',
      `${file}.info`,
    ];
    return run('openssl', ['cms', '-verify', '-binary', '-in', file, ...how]).then(
      () => true,
      () => false,
    );
  }

  /** Serves answers over HTTP on a loopback port; `answer` is `openssl ts` where it is not said. */
  async serve(
    t: Teardown,
    answer: (query: Buffer, response: ServerResponse) => unknown = this.#served,
  ): Promise<string> {
    const server = createServer(async (request, response) => {
      const query = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>));
      await answer(query, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(async () => {
      server.close();
      server.closeAllConnections();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/tsa`;
  }

  readonly #served = async (query: Buffer, response: ServerResponse): Promise<void> => {
    sendReply(response, await this.reply(query));
  };
}

export interface ReplyOptions {
  readonly signer?: TestCertificate;
  readonly chain?: readonly TestCertificate[];
  /** What it accepts to timestamp; another list makes it reject. */
  readonly digests?: string;
  readonly hash?: string;
  readonly ess?: string;
}

/** Answers a timestamp over HTTP. */
export function sendReply(response: ServerResponse, reply: Uint8Array): void {
  response.writeHead(200, { 'content-type': 'application/timestamp-reply' }).end(reply);
}

/** The nonce of a request. */
export function nonceOf(query: Uint8Array): bigint {
  const { result } = fromBER(query);
  const nonce = result instanceof Sequence ? result.valueBlock.value[2] : undefined;
  if (!(nonce instanceof Integer)) throw new Error('the request has no nonce');
  return nonce.toBigInt();
}

/** TimeStampResp with the status "granted" around a token. */
export function grantedAnswer(token: Uint8Array, status = 0): Buffer {
  const info = Buffer.from(new Sequence({ value: [new Integer({ value: status })] }).toBER());
  const length = info.length + token.length;
  return Buffer.concat([Uint8Array.of(0x30, 0x82, length >> 8, length & 0xff), info, token]);
}

function infoBytes({ digest, nonce, time = new Date(), version = 1 }: CraftedInfo): Buffer {
  const algorithm = new Sequence({ value: [new ObjectIdentifier({ value: SHA_256 }), new Null()] });
  const whole = new Date(Math.floor(time.getTime() / 1000) * 1000);
  const info = new Sequence({
    value: [
      new Integer({ value: version }),
      new ObjectIdentifier({ value: '1.2.3.4.1' }),
      new Sequence({ value: [algorithm, new OctetString({ valueHex: Uint8Array.from(digest).buffer })] }),
      new Integer({ value: 7 }),
      new GeneralizedTime({ valueDate: whole }),
      ...(nonce === undefined ? [] : [Integer.fromBigInt(nonce)]),
    ],
  });
  return Buffer.from(info.toBER());
}

async function issue(directory: string, options: CertificateOptions): Promise<TestCertificate> {
  const { extensions = PROPER, keyBits = 2048, subject = '/CN=Test TSA/O=Example', issuer } = options;
  const curve = options.curve ?? (issuer === undefined ? 'P-256' : null);
  const name = randomBytes(8).toString('hex');
  const path = (ending: string): string => join(directory, `${name}.${ending}`);
  const made = { certificate: path('pem'), key: path('key') };
  const key = curve === null ? [`rsa:${keyBits}`] : ['ec', '-pkeyopt', `ec_paramgen_curve:${curve}`];
  await run('openssl', [
    ...['req', '-new', '-newkey', ...key, '-nodes', '-subj', subject, '-keyout', made.key, '-out', path('csr')],
  ]);
  await writeFile(path('ext'), `${extensions.join('\n')}\n`);
  await writeFile(path('index'), '');
  const config = `[ca]\ndefault_ca=c\n[c]\ndatabase=${path('index')}\nrand_serial=yes\ndefault_md=sha256\npolicy=p
new_certs_dir=${directory}\nunique_subject=no\n[p]\ncommonName=supplied\norganizationName=optional\n`;
  await writeFile(path('cnf'), config);
  const { from = '20200101000000Z', to = '20991231000000Z' } = options;
  const by =
    issuer === undefined ? ['-selfsign', '-keyfile', made.key] : ['-cert', issuer.certificate, '-keyfile', issuer.key];
  await run('openssl', [
    ...['ca', '-batch', '-notext', '-config', path('cnf'), '-extfile', path('ext'), '-in', path('csr'), ...by],
    ...['-startdate', from, '-enddate', to, '-out', made.certificate],
  ]);
  return made;
}
