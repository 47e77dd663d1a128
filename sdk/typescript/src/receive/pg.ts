// PostgreSQL through the package pg.
import { SqlStore, type Driver } from "./sql.js";
import { LockTimeout, type Queryable } from "./store.js";

/** A client of a pool, as the package pg has it. */
export interface PgClient extends Queryable {
  release(destroy?: boolean | Error): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool, as the package pg has it. */
export interface PgPool<C extends PgClient = PgClient> extends Queryable {
  connect(): Promise<C>;
}

/** The store in a PostgreSQL. Handlers of the mode transaction get a client of the pool, in its transaction. */
export function pgStore<C extends PgClient>(pool: PgPool<C>): SqlStore<C> {
  const driver: Driver<C> = {
    postgres: true,
    query: (text, values) => pool.query(text, values),
    async begin(wait, run, limited = true) {
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
    },
  };
  return new SqlStore(driver);
}

const isLockTimeout = (e: unknown) => (e as { code?: unknown }).code === "55P03";
