// SQLite through better-sqlite3, node:sqlite or bun:sqlite.
import { SqlStore, type Driver } from "./sql.js";
import { LockTimeout, type Queryable } from "./store.js";

/** A prepared statement, as these three have it. */
interface Statement {
  all(...values: any[]): unknown[];
  run(...values: any[]): { changes: number | bigint };
  /** better-sqlite3, bun:sqlite: it returns rows. */
  readonly reader?: boolean;
  /** node:sqlite: its columns. */
  columns?(): unknown[];
}

export interface SqliteDatabase {
  prepare(sql: string): Statement;
  exec(sql: string): unknown;
}

/** A transaction of SQLite: statements have $1, $2, … like those of PostgreSQL. */
export class SqliteTransaction implements Queryable {
  private over = false;
  constructor(private readonly database: SqliteDatabase) {}

  async query(text: string, values: unknown[] = []) {
    if (this.over) throw new Error("the transaction is over");
    return run(this.database, text, values);
  }

  /** Later statements fail instead of running outside of the transaction. */
  end(): void {
    this.over = true;
  }
}

const firstPause = 2;
const longestPause = 50;

/**
 * The store in an SQLite file. Give it a connection of its own: statements that others run on it while a handler runs become part of
 * the handler's transaction. The pragma busy_timeout is set to 0, because a wait inside of SQLite would stop the whole process. The pragma
 * synchronous becomes FULL unless it is EXTRA: better-sqlite3 lowers it to NORMAL in WAL mode, where a power failure takes back commits
 * that were answered already.
 */
export function sqliteStore(database: SqliteDatabase): SqlStore<SqliteTransaction> {
  database.exec("pragma busy_timeout = 0");
  const [level] = database.prepare("pragma synchronous").all() as { synchronous: number }[];
  if (level!.synchronous < 3) database.exec("pragma synchronous = full"); // also if it is FULL: better-sqlite3 lowers it later
  // One connection has one transaction at a time: each waits for the one before it.
  let taken = false;
  const queue: (() => void)[] = [];
  const turn = (wait: number) =>
    new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        queue.splice(queue.indexOf(next), 1);
        reject(new LockTimeout("the database is busy"));
      }, wait);
      queue.push(next);
    });
  const alone = async <T>(wait: number, f: () => Promise<T>): Promise<T> => {
    if (taken) await turn(wait);
    taken = true;
    try {
      return await f();
    } finally {
      const next = queue.shift();
      if (next) next();
      else taken = false;
    }
  };
  const unlocked = <T>(wait: number, f: () => T, pause = firstPause, until = performance.now() + wait): T | Promise<T> => {
    try {
      return f();
    } catch (e) {
      if (!isBusy(e)) throw e;
      if (performance.now() >= until) throw new LockTimeout("the database is locked", { cause: e });
      const paused = new Promise((resolve) => setTimeout(resolve, pause * Math.random()));
      return paused.then(() => unlocked(wait, f, Math.min(2 * pause, longestPause), until));
    }
  };
  const driver: Driver<SqliteTransaction> = {
    postgres: false,
    first: (tx, text, values) => tx.query(text, values),
    query: (text, values = []) => alone(5_000, async () => unlocked(5_000, () => run(database, text, values))),
    begin: (wait, body) =>
      alone(wait, async () => {
        await unlocked(wait, () => run(database, "begin immediate", []));
        const tx = new SqliteTransaction(database);
        try {
          const result = await body(tx);
          tx.end();
          await unlocked(5_000, () => run(database, "commit", []));
          return result;
        } catch (e) {
          tx.end();
          try {
            database.exec("rollback");
          } catch {
            // SQLite has rolled back by itself.
          }
          throw e;
        }
      }),
  };
  return new SqlStore(driver);
}

/** Statements of a connection that are ready to run: to compile one costs more than to run it. */
const ready = new WeakMap<SqliteDatabase, Map<string, Ready>>();
const mostReady = 100;

interface Ready {
  statement: Statement;
  /** Positions of the values. */
  order: number[];
  reads: boolean;
}

function prepared(database: SqliteDatabase, text: string): Ready {
  let all = ready.get(database);
  if (!all) ready.set(database, (all = new Map()));
  let found = all.get(text);
  if (!found) {
    const order: number[] = [];
    const sql = text.replace(/'[^']*'|\$([0-9]+)/g, (all, n: string | undefined) =>
      n === undefined ? all : (order.push(Number(n) - 1), "?"),
    );
    const statement = database.prepare(sql);
    found = { statement, order, reads: statement.reader ?? statement.columns!().length > 0 };
    if (all.size >= mostReady) all.clear();
    all.set(text, found);
  }
  return found;
}

function run(database: SqliteDatabase, text: string, values: unknown[]) {
  const { statement, order, reads } = prepared(database, text);
  const bound = order.map((n) => values[n]);
  if (reads) {
    const rows = statement.all(...bound) as Record<string, any>[];
    return { rows, rowCount: rows.length };
  }
  return { rows: [], rowCount: Number(statement.run(...bound).changes) };
}

function isBusy(e: unknown): boolean {
  const { code, errcode } = e as { code?: unknown; errcode?: unknown };
  return (
    (typeof code === "string" && /^SQLITE_(BUSY|LOCKED)/.test(code)) || (typeof errcode === "number" && [5, 6].includes(errcode & 255))
  );
}
