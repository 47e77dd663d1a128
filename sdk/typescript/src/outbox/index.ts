/**
 * Publishes events inside the application's own transaction: they arrive if and only if it commits. Nothing here calls
 * Grapnel. The database has its outbox by `grapnel outbox install`, and a source of the server reads it.
 *
 * A library's transaction is recognised by its methods, so no library is imported.
 */

/** An event, with the names that it has in the API. */
export interface OutboxEvent {
  type: string;
  /** Becomes JSON. */
  data: unknown;
  /** Events of one key arrive in the order in which their transactions commit. */
  key?: string | undefined;
  /** The event's own id, the same one for the same event; a new one if none is given. */
  id?: string | undefined;
  metadata?: Record<string, string> | undefined;
  /** Now, if it is not given. */
  occurred_at?: Date | string | undefined;
}

/** The client of a callback of Prisma's `$transaction`. */
export interface PrismaTransaction {
  $executeRawUnsafe(query: string, ...values: never[]): PromiseLike<unknown>;
}

/** The argument of a callback of Knex' `transaction`. */
export interface KnexTransaction {
  isTransaction?: boolean;
  raw(query: string, bindings: never): PromiseLike<unknown>;
}

/** A client of the package pg, or a connection of mysql2/promise, after BEGIN. */
export interface QueryTransaction {
  query(query: string, values: never[]): PromiseLike<unknown>;
}

/** The argument of a callback of Drizzle's `transaction`. */
export interface DrizzleTransaction {
  rollback(): never;
  execute?(query: never): PromiseLike<unknown>;
  run?(query: never): unknown;
}

/** A database of better-sqlite3 or node:sqlite, after BEGIN. */
export interface SqliteTransaction {
  prepare(query: string): { run(...values: never[]): unknown };
}

/** Drizzle's `sql`. */
export type DrizzleSql = (parts: TemplateStringsArray, ...values: never[]) => unknown;

type Value = string | number | null;

/** A statement in the parts between its values. */
interface Statement {
  parts: string[];
  values: Value[];
  numbered?: boolean; // $1 and not ?
  sqlite?: boolean;
}

const list = (before: string, types: string[]): string[] => [before, ...types.map((type, i) => type + (i < types.length - 1 ? ", " : ")"))];

/** Publishes an event in a transaction of PostgreSQL; with Drizzle its `sql` is the third argument. */
export function publish(tx: PrismaTransaction | KnexTransaction | QueryTransaction, event: OutboxEvent): Promise<void>;
export function publish(tx: DrizzleTransaction, event: OutboxEvent, sql: DrizzleSql): Promise<void>;
export function publish(tx: object, event: OutboxEvent, sql?: DrizzleSql): Promise<void> {
  const types = ["::text", "::text", "::text", "::text", "::text", "::timestamptz"];
  const at = event.occurred_at === undefined ? null : new Date(event.occurred_at).toISOString();
  const statement = { parts: list("select grapnel.grapnel_publish(", types), values: [...fields(event), at], numbered: true };
  return run(tx, statement, sql) as Promise<void>;
}

/** Publishes an event in a transaction of MySQL or MariaDB, whose call locks the key until the transaction ends. */
export function publishMySQL(tx: PrismaTransaction | KnexTransaction | QueryTransaction, event: OutboxEvent): Promise<void>;
export function publishMySQL(tx: DrizzleTransaction, event: OutboxEvent, sql: DrizzleSql): Promise<void>;
export function publishMySQL(tx: object, event: OutboxEvent, sql?: DrizzleSql): Promise<void> {
  const at = event.occurred_at === undefined ? null : new Date(event.occurred_at).toISOString().replace("T", " ").replace("Z", "");
  const statement = { parts: list("call grapnel_publish(", ["", "", "", "", "", ""]), values: [...fields(event), at] };
  return run(tx, statement, sql) as Promise<void>;
}

/**
 * Publishes an event in a transaction of SQLite. With a driver that does not wait, such as better-sqlite3, neither does
 * this: the event is in the transaction when it returns.
 */
export function publishSQLite(tx: SqliteTransaction, event: OutboxEvent): void;
export function publishSQLite(tx: PrismaTransaction | KnexTransaction, event: OutboxEvent): Promise<void>;
export function publishSQLite(tx: DrizzleTransaction, event: OutboxEvent, sql: DrizzleSql): void | Promise<void>;
export function publishSQLite(tx: object, event: OutboxEvent, sql?: DrizzleSql): void | Promise<void> {
  const now = Date.now();
  const [type, data, key, id, metadata] = fields(event);
  const at = new Date(event.occurred_at ?? now).toISOString();
  const own = `evt_${now.toString(16).padStart(12, "0")}7${crypto.randomUUID().replaceAll("-", "").slice(13)}`;
  const columns = "insert into grapnel_outbox (type, key, event_id, data, metadata, occurred_at, published_at) values (";
  const values = [type!, key!, id ?? own, data!, metadata!, at, now];
  return run(tx, { parts: list(columns, values.map(() => "")), values, sqlite: true }, sql);
}

/** Type, data, key, id and metadata as the outbox takes them. */
function fields(event: OutboxEvent): Value[] {
  const data = JSON.stringify(event.data);
  if (data === undefined) throw new TypeError("grapnel: data is missing, or cannot be JSON");
  const metadata = event.metadata === undefined ? null : JSON.stringify(event.metadata);
  return [event.type, data, event.key ?? null, event.id ?? null, metadata];
}

/** What of a library's transaction is looked at. */
type Any = Partial<Record<"$executeRawUnsafe" | "$connect" | "raw" | "query" | "prepare" | "execute" | "run" | "rollback", unknown>> & {
  isTransaction?: boolean;
  inTransaction?: boolean;
  totalCount?: number;
  getConnection?: unknown;
  getTransactionStatus?: () => string | null;
};

function run(tx: object, { parts, values, numbered, sqlite }: Statement, sql: DrizzleSql | undefined): void | Promise<void> {
  const any = tx as Any;
  const text = (numbers = numbered) => parts.map((part, i) => (i === 0 ? part : (numbers ? `$${i}` : "?") + part)).join("");
  const call = (name: string, ...args: unknown[]) => (tx as Record<string, (...args: unknown[]) => unknown>)[name]!(...args);
  const has = (name: keyof Any) => typeof any[name] === "function";
  if (has("$executeRawUnsafe")) {
    within(!has("$connect"));
    return settled(call("$executeRawUnsafe", text(), ...values));
  }
  if (sql !== undefined) {
    within(has("rollback"));
    return settled(call(has("execute") ? "execute" : "run", sql(parts as unknown as TemplateStringsArray, ...(values as never[]))));
  }
  if (has("raw")) {
    within(any.isTransaction === true);
    return settled(call("raw", text(false), values));
  }
  if (sqlite && has("prepare")) {
    within(any.inTransaction !== false && any.isTransaction !== false);
    (tx as SqliteTransaction).prepare(text()).run(...(values as never[]));
    return;
  }
  if (!sqlite && has("query")) {
    within(any.totalCount === undefined && !has("getConnection") && any.getTransactionStatus?.() !== "I");
    // mysql2 has both, and quotes values itself in query, by rules that a server may have switched off
    return settled(call(has("execute") ? "execute" : "query", text(), values));
  }
  throw new TypeError("grapnel: this is no transaction of Prisma, Drizzle (which needs its sql), Knex, pg, mysql2 or SQLite");
}

/** Refuses a database or a pool in the place of a transaction: the event would stay when the transaction is rolled back. */
function within(transaction: boolean): void {
  if (!transaction) throw new TypeError("grapnel: an event is published in a transaction, and this is none");
}

function settled(result: unknown): void | Promise<void> {
  if (typeof (result as PromiseLike<unknown> | undefined)?.then !== "function") return;
  return Promise.resolve(result as PromiseLike<unknown>).then(() => {});
}
