// PostgreSQL through the package pg.
import { sha256 } from "./secrets.js";
import { SqlStore, type Driver } from "./sql.js";
import { LockTimeout, type Queryable } from "./store.js";

type Result = ReturnType<Queryable["query"]>;

/** A client of a pool, as the package pg has it. */
export interface PgClient extends Queryable {
  query(text: string, values?: unknown[]): Result;
  query(statement: { name: string; text: string; values: unknown[] }): Result;
  release(destroy?: boolean | Error): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool, as the package pg has it. */
export interface PgPool<C extends PgClient = PgClient> extends Queryable {
  connect(): Promise<C>;
}

/**
 * The store in a PostgreSQL. Handlers of the mode transaction get a client of the pool, in its transaction.
 *
 * `prepare` (true): each connection prepares the statement that claims a key once, under a name. A pooler that shares connections by
 * transactions, and does not know prepared statements, answers with an error; then the statement is sent whole from there on. Set it to
 * false for a pooler that reserves a connection for a client with prepared statements.
 */
export function pgStore<C extends PgClient>(pool: PgPool<C>, { prepare = true }: { prepare?: boolean } = {}): SqlStore<C> {
  let named = prepare;
  const begin: Driver<C>["begin"] = async (wait, run, limited = true) => {
    const client = await pool.connect();
    // A connection that breaks while no statement runs emits an error, which would end the process without a listener.
    const ignore = () => {};
    client.on("error", ignore);
    let broken = true;
    try {
      await client.query(limited ? `begin; set local lock_timeout = ${Math.ceil(wait)}` : "begin");
      const result = await run(client);
      // Where there is no transaction any more, or one whose statement failed, a savepoint fails; a commit alone would say success.
      await client.query("savepoint webhook_claim; commit");
      broken = false;
      return result;
    } catch (e) {
      // A handler that outlived its time may still use the client: then it is closed, which rolls back, and not returned to the pool.
      if (!(e instanceof Error && e.name === "TimeoutError"))
        await client.query("rollback").then(
          () => (broken = false),
          () => {},
        );
      throw isLockTimeout(e) ? new LockTimeout("another transaction has the key", { cause: e }) : e;
    } finally {
      client.off("error", ignore);
      client.release(broken);
    }
  };
  return new SqlStore({
    postgres: true,
    query: (text, values) => pool.query(text, values),
    begin: (wait, run, limited) =>
      begin(wait, run, limited).catch((e: unknown) => {
        if (e instanceof NotPrepared) return begin(wait, run, limited);
        throw e;
      }),
    async first(client, text, values) {
      if (!named) return client.query(text, values);
      try {
        return await client.query({ name: nameOf(text), text, values });
      } catch (e) {
        if (!isOfAnotherConnection(e)) throw e;
        named = false;
        throw new NotPrepared("a pooler does not know prepared statements", { cause: e });
      }
    },
  });
}

/** Nothing was done yet: the first statement of a transaction has failed. */
class NotPrepared extends Error {}

/** The hash keeps versions of this package apart that share connections of a pooler. */
const nameOf = (text: string) => `webhook_${(names[text] ??= sha256(text).slice(0, 16))}`;
const names: Record<string, string> = {};

const codeOf = (e: unknown) => (e as { code?: unknown }).code;
const isLockTimeout = (e: unknown) => codeOf(e) === "55P03";
/** The name is missing on the connection, or another client of the pooler has taken it. */
const isOfAnotherConnection = (e: unknown) => codeOf(e) === "26000" || codeOf(e) === "42P05";
