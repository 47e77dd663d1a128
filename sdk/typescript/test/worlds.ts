// The stores that tests use, each with a database for effects.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import pg from "pg";
import {
  memoryStore,
  pgStore,
  redisStore,
  sqliteStore,
  SqliteTransaction,
  type InboxStore,
  type Queryable,
  type Store,
  type TransactionStore,
} from "grapnel/receive";

export interface World {
  store: Store & TransactionStore<any> & InboxStore;
  /** Runs in a transaction of the database that has the effects. */
  effects<T>(run: (tx: Queryable) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const effectTables = [
  `create table if not exists ledger(event text not null, source text not null, invoice text not null, amount text not null,
    idempotency_key text unique)`,
  `create table if not exists invoices(invoice text primary key, version bigint not null default 0, status text not null default '',
    at bigint not null default 0, at_event text not null default '', event text not null default '', amount text not null default '')`,
  "create table if not exists seen(id text primary key)",
];

/** A database of better-sqlite3, or of node:sqlite where that is asked for. */
export async function sqlite(file: string, builtin = false): Promise<any> {
  if (builtin) {
    const { DatabaseSync } = (await import("node:sqlite" as string)) as any;
    return new DatabaseSync(file);
  }
  const { default: Database } = await import("better-sqlite3");
  return new Database(file);
}

/** Effects in SQLite; each transaction of them waits for the one before. */
function sqliteEffects(database: any): World["effects"] {
  let last: Promise<unknown> = Promise.resolve();
  database.exec("pragma busy_timeout = 0");
  database.exec("pragma synchronous = full"); // as durable as the kit's commits, which mode bare is compared with
  for (const table of effectTables) database.exec(table);
  return (run) => {
    const next = last.then(async () => {
      for (;;) {
        try {
          database.exec("begin immediate");
          break;
        } catch (e) {
          if (!/locked|busy/i.test(String(e))) throw e;
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
      }
      try {
        const result = await run(new SqliteTransaction(database));
        database.exec("commit");
        return result;
      } catch (e) {
        database.exec("rollback");
        throw e;
      }
    });
    last = next.catch(() => {});
    return next;
  };
}

export async function open(store: string, dsn: string): Promise<World> {
  switch (store) {
    case "memory": {
      const effects = await sqlite(":memory:");
      return { store: memoryStore({ test: true }) as never, effects: sqliteEffects(effects), close: async () => effects.close() };
    }
    case "sqlite":
    case "node:sqlite": {
      const [database, effects] = [await sqlite(dsn, store !== "sqlite"), await sqlite(dsn, store !== "sqlite")];
      database.exec("pragma journal_mode = wal");
      const close = async () => {
        effects.close();
        database.close();
      };
      return { store: sqliteStore(database), effects: sqliteEffects(effects), close };
    }
    case "postgres": {
      const pool = new pg.Pool({ connectionString: dsn, max: 20 });
      pool.on("error", () => {});
      const kit = pgStore(pool);
      await kit.setup();
      const effects: World["effects"] = async (run) => {
        const client = await pool.connect();
        try {
          await client.query("begin");
          const result = await run(client);
          await client.query("commit");
          return result;
        } catch (e) {
          await client.query("rollback");
          throw e;
        } finally {
          client.release();
        }
      };
      await effects(async (tx) => {
        await tx.query("select pg_advisory_xact_lock(1)");
        for (const table of effectTables) await tx.query(table);
      });
      return { store: kit, effects, close: () => pool.end() };
    }
    case "redis": {
      const redis = new Redis(dsn, { maxRetriesPerRequest: 1 });
      redis.on("error", () => {});
      // The effects are in a file that the Redis names, so that another process finds them.
      await redis.setnx("effects", join(mkdtempSync(join(tmpdir(), "grapnel-effects-")), "effects.db"));
      const effects = await sqlite((await redis.get("effects"))!);
      const close = async () => {
        effects.close();
        await redis.quit();
      };
      return { store: redisStore(redis) as never, effects: sqliteEffects(effects), close };
    }
  }
  throw new Error(`STORE ${store}: use memory, sqlite, node:sqlite, postgres or redis`);
}
