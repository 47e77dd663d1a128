// The mode transaction on a store.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { parked, permanent } from "grapnel/receive";
import { deferred, ledger, pay, receiver, send, sources } from "./senders.js";
import type { World } from "./worlds.js";

export async function transacts(t: TestContext, world: World): Promise<void> {
  await t.test("transaction: of many copies one has an effect", async () => {
    const hooks = receiver(world).transaction((d, tx) => pay(tx, d));
    const answers = await Promise.all(Array.from({ length: 8 }, () => send(hooks, "t1")));
    assert.deepEqual(answers.filter((a) => a === "200 processed").length, 1);
    assert.deepEqual(answers.filter((a) => a === "200 duplicate").length, 7);
    assert.equal(await ledger(world, "t1"), 1);
  });

  await t.test("transaction: a failure leaves no effect, and is counted", async () => {
    let failures = 1;
    const attempts: number[] = [];
    const hooks = receiver(world).transaction(async (d, tx) => {
      attempts.push(d.attempt);
      await pay(tx, d);
      if (failures-- > 0) throw new Error("unknown");
    });
    assert.equal(await send(hooks, "t2"), "503 retryable");
    assert.equal(await ledger(world, "t2"), 0);
    assert.equal(await send(hooks, "t2"), "200 processed");
    assert.equal(await ledger(world, "t2"), 1);
    assert.deepEqual(attempts, [1, 2]);
  });

  await t.test("transaction: a permanent failure, and its replay", async () => {
    let fails = true;
    const hooks = receiver(world).transaction(async (d, tx) => {
      await pay(tx, d);
      if (fails) throw permanent("no");
    });
    assert.deepEqual([await send(hooks, "t3"), await send(hooks, "t3")], ["200 dead_lettered", "200 dead_lettered"]);
    assert.equal(await ledger(world, "t3"), 0);
    fails = false;
    const ends = await Promise.allSettled([hooks.replay("t3"), hooks.replay("t3")]);
    assert.deepEqual(ends.map((e) => e.status).sort(), ["fulfilled", "rejected"]);
    assert.equal(await ledger(world, "t3"), 1);
    assert.equal(await send(hooks, "t3"), "200 duplicate");
  });

  await t.test("transaction: a handler that ends it, or hides a failed statement, is not answered with success", async () => {
    const ending = receiver(world).transaction(async (d, tx) => {
      await pay(tx, d);
      await tx.query("rollback");
    });
    assert.equal(await send(ending, "t4"), "503 retryable");
    assert.equal(await ledger(world, "t4"), 0);
  });

  await t.test("transaction: a handler that takes too long leaves no effect, also of later statements", async () => {
    const { promise, resolve } = deferred();
    const late = deferred();
    const hooks = receiver(world, { timeout: 0.03 }).transaction(async (d, tx) => {
      await pay(tx, d);
      await promise;
      await pay(tx, d).finally(late.resolve);
    });
    assert.equal(await send(hooks, "t5"), "503 retryable");
    resolve();
    await late.promise;
    assert.equal(await ledger(world, "t5"), 0);
  });

  await t.test("transaction: a copy waits for the lock no longer than it may", async () => {
    const { promise, resolve } = deferred();
    const started = deferred();
    const hooks = receiver(world, { wait: 0.05 }).transaction(async (d, tx) => {
      await pay(tx, d);
      started.resolve();
      await promise;
    });
    const first = send(hooks, "t6");
    await started.promise;
    assert.equal(await send(hooks, "t6"), "503 in_progress");
    resolve();
    assert.equal(await first, "200 processed");
    assert.equal(await ledger(world, "t6"), 1);
  });

  await t.test("transaction: parked commits, and says so", async () => {
    const hooks = receiver(world).transaction(async (d, tx) => {
      await pay(tx, d);
      throw parked();
    });
    assert.equal(await send(hooks, "t8"), "202 parked");
    assert.deepEqual([await ledger(world, "t8"), (await world.store.look(`source-${sources}`, "t8"))?.outcome], [1, "parked"]);
    assert.equal(await send(hooks, "t8"), "200 duplicate");
  });

  await t.test("transaction: a handler that throws nothing has failed", async () => {
    let failures = 1;
    const hooks = receiver(world).transaction(async (d, tx) => {
      await pay(tx, d);
      if (failures-- > 0) throw undefined;
    });
    assert.deepEqual([await send(hooks, "t7"), await send(hooks, "t7")], ["503 retryable", "200 processed"]);
    assert.equal(await ledger(world, "t7"), 1);
  });
}
