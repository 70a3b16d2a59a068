import type postgres from 'postgres';
import type { Sql } from './client.ts';

/** A statement that is sent when it is executed or awaited. */
type Statement = postgres.PendingQuery<postgres.Row[]>;

/**
 * The statements of a connection that were executed and have not ended.
 *
 * The driver keeps statements back while a connection is full (behind one that is prepared first, behind a hundred
 * others, while the socket is slow), and sends them on the next connection when that one closes: outside the
 * transaction that they were written for, where each takes effect by itself.
 */
export class Unsettled {
  readonly #statements = new Set<Statement>();

  /** The same `sql`, whose statements are kept in mind from when they are executed until they have ended. */
  watching(sql: Sql): Sql {
    return new Proxy(sql, {
      apply: (target, self, args) => this.#watched(Reflect.apply(target, self, args)),
      get: (target, name) => {
        if (name !== 'unsafe') return Reflect.get(target, name, target);
        return (...args: Parameters<Sql['unsafe']>) => this.#watched(target.unsafe(...args));
      },
    });
  }

  /** Fails what the driver kept back; to be called as the connection closes, when all that was sent has failed. */
  cancel(): void {
    for (const statement of this.#statements) statement.cancel();
    this.#statements.clear();
  }

  // A fragment within another statement is made and never executed: watched is what executes.
  #watched<T>(made: T): T {
    if (!isStatement(made)) return made;
    return new Proxy(made, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (!EXECUTING.has(name) || typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          this.#began(target);
          return Reflect.apply(value, target, args);
        };
      },
    });
  }

  #began(statement: Statement): void {
    if (this.#statements.has(statement)) return;
    this.#statements.add(statement);
    const ended = () => this.#statements.delete(statement);
    statement.then(ended, ended);
  }
}

/** What executes a statement of the driver, which does nothing before. */
const EXECUTING: ReadonlySet<string | symbol> = new Set(['execute', 'then', 'catch', 'finally']);

function isStatement<T>(made: T): made is T & Statement {
  return made instanceof Promise && 'cancel' in made;
}
