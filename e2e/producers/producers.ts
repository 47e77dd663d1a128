// Sells and publishes with each library, in one transaction: one that commits and one that is rolled back. It says which
// libraries it has used. The databases are those of POSTGRES, MYSQL and SQLITE; each has a table sales(id).
import assert from "node:assert/strict";

import { PrismaBetterSqlite3 } from "@prisma/adapter-better-sqlite3";
import { PrismaPg } from "@prisma/adapter-pg";
import Database from "better-sqlite3";
import { sql } from "drizzle-orm";
import { drizzle as drizzleSqlite } from "drizzle-orm/better-sqlite3";
import { drizzle as drizzleMySQL } from "drizzle-orm/mysql2";
import { drizzle } from "drizzle-orm/node-postgres";
import knex from "knex";
import mysql from "mysql2/promise";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";

import { type OutboxEvent, publish, publishMySQL, publishSQLite } from "../../sdk/typescript/dist/outbox/index.js";
import { PrismaClient } from "./generated/postgres/client.ts";
import { PrismaClient as PrismaSqlite } from "./generated/sqlite/client.ts";

const { POSTGRES, MYSQL, SQLITE } = process.env as Record<string, string>;
const back = new Error("rolled back");

/** The events of a library: one with all fields, and one that is rolled back. */
function sale(library: string, ok: boolean): OutboxEvent {
  const data = { by: library, text: `'"\\ é 💶 ? $1 :x` };
  if (!ok) return { type: "sale.undone", key: library, data };
  return { type: "sale.made", key: library, data, id: library.replaceAll(/[ :]/g, "-"), metadata: { by: "ts" }, occurred_at: new Date(1767323045678) };
}

/** Runs both transactions; one is given what to throw at its end. */
async function both(library: string, one: (event: OutboxEvent, fail: (() => never) | undefined) => unknown): Promise<void> {
  await one(sale(library, true), undefined);
  await assert.rejects(async () => one(sale(library, false), () => { throw back; }), back);
  console.log(library);
}

/** A handle that is no transaction is refused. */
async function refused(call: () => unknown): Promise<void> {
  await assert.rejects(async () => call(), /this is none/);
}

const event = sale("none", false);

// pg
{
  const pool = new pg.Pool({ connectionString: POSTGRES });
  const tx = await pool.connect();
  await refused(() => publish(tx, event));
  await refused(() => publish(pool, event));
  await both("pg postgres", async (event, fail) => {
    await tx.query("begin");
    try {
      await tx.query("insert into sales values ($1)", [event.key]);
      await publish(tx, event);
      fail?.();
      await tx.query("commit");
    } catch (e) {
      await tx.query("rollback");
      throw e;
    }
  });
  // Drizzle, on the same pool
  const db = drizzle({ client: pool });
  await refused(() => publish(db as never, event, sql));
  await both("drizzle postgres", (event, fail) =>
    db.transaction(async (tx) => {
      await tx.execute(sql`insert into sales values (${event.key})`);
      await publish(tx, event, sql);
      fail?.();
    }),
  );
  tx.release();
  await pool.end();
}

// Knex
for (const [name, client, connection] of [["postgres", "pg", { connectionString: POSTGRES }], ["mysql", "mysql2", MYSQL], ["sqlite", "better-sqlite3", { filename: SQLITE }]] as const) {
  const db = knex({ client, connection: connection as string, useNullAsDefault: true });
  const call = { postgres: publish, mysql: publishMySQL, sqlite: publishSQLite as typeof publish }[name];
  await refused(() => call(db, event));
  await both(`knex ${name}`, (event, fail) =>
    db.transaction(async (trx) => {
      await trx("sales").insert({ id: event.key });
      await call(trx, event);
      fail?.();
    }),
  );
  await db.destroy();
}

// Prisma
{
  const db = new PrismaClient({ adapter: new PrismaPg({ connectionString: POSTGRES }) });
  await refused(() => publish(db, event));
  await both("prisma postgres", (event, fail) =>
    db.$transaction(async (tx) => {
      await tx.sale.create({ data: { id: event.key! } });
      await publish(tx, event);
      fail?.();
    }),
  );
  await db.$disconnect();
  const lite = new PrismaSqlite({ adapter: new PrismaBetterSqlite3({ url: `file:${SQLITE}` }) });
  await both("prisma sqlite", (event, fail) =>
    lite.$transaction(async (tx) => {
      await tx.sale.create({ data: { id: event.key! } });
      await publishSQLite(tx, event);
      fail?.();
    }),
  );
  await lite.$disconnect();
}

// mysql2
{
  const pool = mysql.createPool(MYSQL);
  const tx = await pool.getConnection();
  await refused(() => publishMySQL(pool, event));
  await both("mysql2 mysql", async (event, fail) => {
    await tx.beginTransaction();
    try {
      await tx.execute("insert into sales values (?)", [event.key!]);
      await publishMySQL(tx, event);
      fail?.();
      await tx.commit();
    } catch (e) {
      await tx.rollback();
      throw e;
    }
  });
  tx.release();
  const db = drizzleMySQL({ client: pool });
  await both("drizzle mysql", (event, fail) =>
    db.transaction(async (tx) => {
      await tx.execute(sql`insert into sales values (${event.key})`);
      await publishMySQL(tx, event, sql);
      fail?.();
    }),
  );
  await pool.end();
}

// SQLite
{
  const db = new Database(SQLITE);
  await refused(() => publishSQLite(db, event));
  await both("better-sqlite3 sqlite", (event, fail) =>
    db.transaction(() => {
      db.prepare("insert into sales values (?)").run(event.key);
      publishSQLite(db, event);
      fail?.();
    })(),
  );
  const through = drizzleSqlite({ client: db });
  await both("drizzle sqlite", (event, fail) =>
    through.transaction((tx) => {
      tx.run(sql`insert into sales values (${event.key})`);
      publishSQLite(tx, event, sql);
      fail?.();
    }),
  );
  db.close();
  const own = new DatabaseSync(SQLITE, { timeout: 10_000 }); // the relay writes too
  await both("node:sqlite sqlite", (event, fail) => {
    own.exec("begin immediate");
    try {
      own.prepare("insert into sales values (?)").run(event.key!);
      publishSQLite(own, event);
      fail?.();
      own.exec("commit");
    } catch (e) {
      own.exec("rollback");
      throw e;
    }
  });
  own.close();
}
