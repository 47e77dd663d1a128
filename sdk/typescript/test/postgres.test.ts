import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { pgStore, type Queryable } from "grapnel/receive";
import { receiver, send } from "./senders.js";
import { postgres } from "./servers.js";
import { storeSuite } from "./suite.js";
import { open } from "./worlds.js";

storeSuite(async () => {
  const server = await postgres();
  const world = await open("postgres", server.url);
  const close = async () => {
    await world.close();
    await server.stop();
  };
  return { ...world, close };
});

// From no row, and from one that is no longer retained.
test("postgres: a claim restores the handler's own time to wait for locks", async () => {
  const server = await postgres();
  const world = await open("postgres", `${server.url}&options=-c%20lock_timeout%3D17s`);
  try {
    let now = Date.now();
    const waits: string[] = [];
    const hooks = receiver(world, { now: () => now }).transaction(async (_, tx: Queryable) => {
      waits.push((await tx.query("show lock_timeout")).rows[0]!.lock_timeout);
    });
    assert.equal(await send(hooks, "e1", undefined, now), "200 processed");
    now += 9 * 24 * 3600 * 1000;
    assert.equal(await send(hooks, "e1", undefined, now), "200 processed");
    assert.deepEqual(waits, ["17s", "17s"]);
  } finally {
    await world.close();
    await server.stop();
  }
});

// A pooler that shares connections by transactions, and knows no prepared statements: the connection that runs a claim does not have its
// statement, or another client has taken the name.
test("postgres: a pooler without prepared statements costs one claim a second attempt", async () => {
  const server = await postgres();
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  try {
    const names = async () => (await pool.query("select name from pg_prepared_statements")).rows.map((r) => r.name as string);
    const run = async (prepare?: boolean) => {
      const store = pgStore(pool, { prepare });
      await store.setup();
      let runs = 0;
      const hooks = receiver({ store } as never).transaction(() => void runs++);
      return async (id: string) => [await send(hooks, id), runs];
    };
    const whole = await run(false);
    assert.deepEqual([await whole("e1"), await names()], [["200 processed", 1], []]);
    const missing = await run();
    assert.deepEqual(await missing("e1"), ["200 processed", 1]);
    const [name] = await names();
    assert.match(name!, /^webhook_[0-9a-f]{16}$/);
    await pool.query("deallocate all"); // the package pg does not see it
    assert.deepEqual(
      [await missing("e2"), await missing("e2"), await missing("e3")],
      [
        ["200 processed", 2],
        ["200 duplicate", 2],
        ["200 processed", 3],
      ],
    );
    const client = await pool.connect();
    client.release(true); // the next connection has no statement yet
    await pool.query(`prepare ${name} as select 1`);
    const taken = await run();
    assert.deepEqual(
      [await taken("e1"), await taken("e2")],
      [
        ["200 processed", 1],
        ["200 processed", 2],
      ],
    );
    assert.deepEqual(await names(), [name]);
  } finally {
    await pool.end();
    await server.stop();
  }
});
