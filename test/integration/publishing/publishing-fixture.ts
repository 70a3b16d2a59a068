import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '../../../config/log.ts';
import { Custody } from '../../../control-plane/custody/custody.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import { HeadPublisher, type Publisher } from '../../../control-plane/publishing/head-publisher.ts';
import { evidenceTreeHeads, type SignedHead, type TreeHeads } from '../../../control-plane/publishing/tree-heads.ts';
import { SigningKeys } from '../../../control-plane/signing/signing-keys.ts';
import { signCheckpoint } from '../../../core/checkpoint.ts';
import { ask, type LaneFixture, laneFixture } from '../decisions/lane-client.ts';

const MASTER_KEY = Buffer.alloc(32, 7);
const INTERVAL_MS = 600_000;
export const ISSUER = 'https://mandate.example';

type TestContext = Parameters<typeof laneFixture>[0];

/** What was logged: the messages in their order. */
export interface Logged {
  readonly log: Logger;
  readonly lines: string[];
}

export interface PublishingFixture extends LaneFixture {
  readonly appSql: Sql;
  readonly heads: TreeHeads;
  readonly signing: SigningKeys;
  readonly logged: Logged;
  /** So many more entries in the account's chain; the clock goes on, so that the next head is a new one. */
  grow(entries: number): Promise<SignedHead>;
  /** A head that the service's key signed over something else. */
  forged(size: number, root: string): SignedHead;
  moveTime(seconds: number): Promise<void>;
  /** A publisher as a process of its own would have it. */
  publisher(one: Publisher, heads?: TreeHeads): HeadPublisher;
}

export async function publishingFixture(t: TestContext): Promise<PublishingFixture> {
  const fixture = await laneFixture(t);
  const { account, lanes, sql } = fixture;
  const appSql = connect(fixture.databaseUrl, { applicationName: 'test publishing', max: 4 });
  t.teardown(() => appSql.end());
  const signing = await SigningKeys.open(appSql, new Custody(MASTER_KEY), (error) => fixture.errors.push(error));
  t.teardown(async () => signing.close());
  const heads = evidenceTreeHeads({ sql: appSql, signing, issuer: ISSUER });
  const logged = recordingLog();
  let moved = 0;
  const moveTime = async (seconds: number): Promise<void> => {
    moved += seconds;
    await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile
      parallel safe as $$ select date_trunc('milliseconds', clock_timestamp() + interval '${moved} seconds') $$`);
  };
  return {
    ...fixture,
    appSql,
    heads,
    signing,
    logged,
    moveTime,
    grow: async (entries) => {
      for (let n = 0; n < entries; n++) await ask(lanes, account);
      await moveTime(2);
      return heads.current(account.accountId);
    },
    forged: (size, root) => {
      const key = heads.logKey(account.accountId);
      const checkpoint = signCheckpoint({ size, root }, key, (message) => signing.log.sign(message));
      return { accountId: account.accountId, size, root, checkpoint };
    },
    publisher: (one, of = heads) => {
      return new HeadPublisher({ sql: appSql, heads: of, publisher: one, intervalMs: INTERVAL_MS, log: logged.log });
    },
  };
}

function recordingLog(): Logged {
  const lines: string[] = [];
  const note = (_about: unknown, message: string): unknown => lines.push(message);
  return { lines, log: { error: note, warn: note, info: note } as unknown as Logger };
}

/** Serves anything over HTTP on a loopback port. */
export async function serve(
  t: TestContext,
  answer: (body: string, response: ServerResponse, request: IncomingMessage) => unknown,
): Promise<string> {
  const server = createServer(async (request, response) => {
    const parts = await Array.fromAsync(request as AsyncIterable<Buffer>);
    await answer(Buffer.concat(parts).toString('utf8'), response, request);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A directory that the test removes. */
export async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'mandate-publishing-'));
  t.teardown(() => rm(path, { recursive: true, force: true }));
  return path;
}
