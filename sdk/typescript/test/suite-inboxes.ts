// The inbox of a store, and what is cleaned.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { NotDead, permanent } from "grapnel/receive";
import { deferred, receiver, send, sources } from "./senders.js";
import type { World } from "./worlds.js";

export async function inboxes(t: TestContext, world: World): Promise<void> {
  await t.test("inbox: a request is stored once, and handled once", async () => {
    const seen: string[] = [];
    const inbox = receiver(world).inbox((d) => void seen.push(`${d.id} ${d.type} ${d.text}`));
    const answers = await Promise.all(Array.from({ length: 5 }, () => send(inbox.hooks, "i1", { type: "a" })));
    assert.equal(answers.filter((a) => a === "202 accepted").length, 1);
    assert.equal(answers.filter((a) => a === "200 duplicate" || a === "202 accepted").length, 5);
    while (await inbox.step());
    assert.deepEqual(seen, ['i1 a {"type":"a"}']);
  });

  await t.test("inbox: requests of one ordering key run one after the other, also over a failure", async () => {
    let now = Date.now();
    const seen: string[] = [];
    let fails = true;
    const inbox = receiver(world, { now: () => now }).inbox(
      (d) => {
        if (fails && d.id === "a1") throw new Error("unknown");
        seen.push(d.id);
      },
      { orderBy: "$.data.invoice", backoff: { first: 10 } },
    );
    for (const id of ["a1", "b1", "a2", "b2"]) await send(inbox.hooks, id, { data: { invoice: id[0] } }, now);
    while (await inbox.step());
    assert.deepEqual(seen, ["b1", "b2"]);
    fails = false;
    now += 10_001;
    while (await inbox.step());
    assert.deepEqual(seen, ["b1", "b2", "a1", "a2"]);
  });

  for (const [onExhausted, after] of [["skip", ["a2"]], ["block", []]] as const) {
    await t.test(`inbox: after a dead request its ordering key follows ${onExhausted}, and a replay goes on`, async () => {
      const seen: string[] = [];
      let fails = true;
      const inbox = receiver(world).inbox(
        (d) => {
          if (fails && d.id === "a1") throw permanent("no");
          seen.push(d.id);
        },
        { orderBy: "invoice", onExhausted },
      );
      for (const id of ["a1", "a2"]) await send(inbox.hooks, id, { invoice: "a" });
      while (await inbox.step());
      assert.deepEqual(seen, after);
      assert.equal(await send(inbox.hooks, "a1", { invoice: "a" }), "200 dead_lettered");
      fails = false;
      const replays = await Promise.allSettled([inbox.hooks.replay("a1"), inbox.hooks.replay("a1")]);
      assert.deepEqual(replays.map((r) => r.status).sort(), ["fulfilled", "rejected"]);
      while (await inbox.step());
      await assert.rejects(inbox.hooks.replay("a1"), NotDead);
      assert.deepEqual([...seen].sort(), ["a1", "a2"]);
      assert.equal(await send(inbox.hooks, "a1", { invoice: "a" }), "200 duplicate");
    });
  }

  await t.test("inbox: attempts are bounded, and a crashed worker's request is taken over", async () => {
    let now = Date.now();
    let runs = 0;
    const r = receiver(world, { now: () => now, maxDeliveries: 2 });
    const inbox = r.inbox(() => {
      runs++;
      throw new Error("unknown");
    });
    await send(inbox.hooks, "i1", undefined, now);
    assert.ok(await world.store.take(`source-${sources}`, "crashed", now, now + 1000, false));
    assert.equal(await inbox.step(), false);
    now += 1001;
    while (await inbox.step());
    assert.equal(runs, 1); // the second attempt, and the last
    assert.equal((await world.store.letters(`source-${sources}`)).length, 1);
  });

  await t.test("inbox: a handler that throws nothing has failed", async () => {
    let now = Date.now();
    let runs = 0;
    const inbox = receiver(world, { now: () => now }).inbox(() => (runs++ === 0 ? Promise.reject() : undefined));
    await send(inbox.hooks, "i1", undefined, now);
    while (await inbox.step());
    now += 1001;
    while (await inbox.step());
    assert.equal(runs, 2);
  });

  await t.test("inbox: workers stop at the signal", async () => {
    const stop = new AbortController();
    const { promise, resolve } = deferred();
    const inbox = receiver(world).inbox(() => resolve());
    const work = inbox.work({ signal: stop.signal, concurrency: 2, poll: 60 });
    await send(inbox.hooks, "i1");
    await promise;
    stop.abort();
    await work;
  });

  await t.test("clean: what is past its window goes, in batches", async () => {
    let now = Date.now();
    const r = receiver(world, { now: () => now });
    const hooks = r.claim(() => {});
    for (let i = 0; i < 3; i++) await send(hooks, `e${i}`, undefined, now);
    assert.equal(await r.clean(), 0);
    now += 8 * 24 * 3600 * 1000 + 1;
    assert.equal(await r.clean(), 3);
    assert.equal(await send(hooks, "e1", undefined, now), "200 processed");
  });
}
