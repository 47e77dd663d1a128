// The mode claim on a store.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { gone, NotDead, permanent, retryAfter, stale } from "grapnel/receive";
import { deferred, receiver, send, signed, sources } from "./senders.js";
import type { World } from "./worlds.js";

export async function claims(t: TestContext, world: World, letters: boolean): Promise<void> {
  await t.test("claim: of many copies one runs", async () => {
    let runs = 0;
    const hooks = receiver(world).claim(async (d) => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 30));
      assert.equal(d.generation, 1);
    });
    const answers = await Promise.all(Array.from({ length: 12 }, () => send(hooks, "e1")));
    assert.equal(runs, 1);
    // Those that waited get the outcome of the one that ran, and one that comes after its end is a duplicate.
    assert.ok(answers.includes("200 processed") && answers.every((a) => a === "200 processed" || a === "200 duplicate"), String(answers));
    assert.equal(await send(hooks, "e1"), "200 duplicate");
  });

  await t.test("claim: a copy that waits too long is told to come again", async () => {
    const { promise, resolve } = deferred();
    const started = deferred();
    const hooks = receiver(world, { wait: 0.05 }).claim(() => {
      started.resolve();
      return promise;
    });
    const first = send(hooks, "e1");
    await started.promise; // else the copy may be the first to claim
    const copy = await hooks(signed("e1"));
    assert.deepEqual([copy.status, copy.headers.get("retry-after"), copy.headers.get("webhook-outcome")], [503, "5", "in_progress"]);
    resolve();
    assert.equal(await first, "200 processed");
  });

  await t.test("claim: a failure is released, and the next delivery runs", async () => {
    let failures = 2;
    const hooks = receiver(world).claim(() => {
      if (failures-- > 0) throw retryAfter(7);
    });
    const first = await hooks(signed("e1"));
    assert.deepEqual([first.status, first.headers.get("retry-after")], [503, "7"]);
    assert.equal(await send(hooks, "e1"), "503 retryable");
    assert.equal(await send(hooks, "e1"), "200 processed");
    assert.equal(await send(hooks, "e1"), "200 duplicate");
  });

  await t.test("claim: stale is done, gone is said", async () => {
    const hooks = receiver(world).claim((d) => {
      throw d.id === "old" ? stale() : gone();
    });
    assert.deepEqual(
      [await send(hooks, "old"), await send(hooks, "old"), await send(hooks, "any")],
      ["200 stale", "200 duplicate", "410 gone"],
    );
  });

  await t.test("claim: another body under a key is a conflict", async () => {
    const said: string[] = [];
    const r = receiver(world, { log: (message) => said.push(message) });
    const hooks = r.claim(() => {});
    assert.equal(await send(hooks, "e1", { a: 1 }), "200 processed");
    assert.equal(await send(hooks, "e1", { a: 2 }), "200 conflict");
    assert.match(said.join(), /another body/);
    if (!letters) return;
    const letter = await world.store.letter(`source-${sources}`, "e1");
    assert.equal(Buffer.from(letter!.body).toString(), '{"a":2}');
    assert.equal(letter!.headers.authorization, undefined);
    await assert.rejects(hooks.replay("e1"), NotDead);
  });

  await t.test("claim: a permanent failure", async () => {
    let fails = true;
    let runs = 0;
    const hooks = receiver(world).claim(async () => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (fails) throw permanent("no such invoice");
    });
    if (!letters) return assert.equal(await send(hooks, "e1"), "422 permanent");
    assert.deepEqual([await send(hooks, "e1"), await send(hooks, "e1"), runs], ["200 dead_lettered", "200 dead_lettered", 1]);
    assert.equal(await hooks.replay("e1"), "dead_lettered");
    fails = false;
    const [a, b] = await Promise.allSettled([hooks.replay("e1"), hooks.replay("e1")]);
    assert.deepEqual([a.status, b.status].sort(), ["fulfilled", "rejected"]);
    assert.equal(runs, 3);
    const letter = await world.store.letter(`source-${sources}`, "e1");
    assert.deepEqual([letter!.result, letter!.error], ["processed", "WebhookError: no such invoice"]);
    assert.equal(await send(hooks, "e1"), "200 duplicate");
  });

  await t.test("claim: deliveries of one key are bounded", async () => {
    let runs = 0;
    const hooks = receiver(world, { maxDeliveries: 3 }).claim(() => {
      runs++;
      throw new Error("unknown");
    });
    const answers = [];
    for (let i = 0; i < 5; i++) answers.push(await send(hooks, "e1"));
    const end = letters ? "200 dead_lettered" : "422 permanent";
    assert.deepEqual([answers, runs], [["503 retryable", "503 retryable", end, end, end], 3]);
  });

  await t.test("claim: a crash is taken over after the lease, and the old owner changes nothing", async () => {
    let now = Date.now();
    const { promise, resolve } = deferred();
    const r = receiver(world, { now: () => now, wait: 0.02 });
    const generations: number[] = [];
    const slow = r.claim((d) => {
      generations.push(d.generation);
      return generations.length === 1 ? promise : undefined;
    });
    const first = send(slow, "e1", undefined, now);
    while (generations.length === 0) await new Promise((r) => setTimeout(r, 1));
    assert.equal(await send(slow, "e1", undefined, now), "503 in_progress");
    now += 31_000;
    assert.equal(await send(slow, "e1", undefined, now), "200 processed");
    resolve();
    assert.equal(await first, "503 in_progress"); // the claim was lost
    assert.deepEqual(generations, [1, 2]);
    assert.equal(await send(slow, "e1", undefined, now), "200 duplicate");
  });

  await t.test("claim: a handler that throws nothing has failed", async () => {
    let runs = 0;
    const hooks = receiver(world, { timeout: 0.03, wait: 0.01 }).claim((d) => {
      if (runs++ === 0) return d.id === "late" ? new Promise((_, reject) => setTimeout(reject, 60)) : Promise.reject();
    });
    assert.deepEqual([await send(hooks, "e1"), await send(hooks, "e1"), runs], ["503 retryable", "200 processed", 2]);
    runs = 0;
    assert.equal(await send(hooks, "late"), "503 retryable");
    while ((await send(hooks, "late")).startsWith("503"));
    assert.equal(runs, 2); // its late end was a failure
  });

  await t.test("claim: the signal is there when it is asked for, also after the time", async () => {
    const { promise, resolve } = deferred();
    const reasons: string[] = [];
    const hooks = receiver(world, { timeout: 0.03 }).claim(async (d) => {
      assert.equal(d.signal.aborted, false);
      await promise;
      reasons.push(d.signal.reason.name);
    });
    const unread = receiver(world, { timeout: 0.03 }).claim(async (d) => {
      await promise;
      reasons.push(d.signal.reason.name);
    });
    assert.deepEqual([await send(hooks, "e1"), await send(unread, "e1")], ["503 retryable", "503 retryable"]);
    resolve();
    while (reasons.length < 2) await new Promise((r) => setTimeout(r, 1));
    assert.deepEqual(reasons, ["TimeoutError", "TimeoutError"]);
  });

  await t.test("claim: a handler that takes too long is answered, and its late end counts", async () => {
    const { promise, resolve } = deferred();
    let signal: AbortSignal | undefined;
    const hooks = receiver(world, { timeout: 0.03, wait: 0.01 }).claim((d) => {
      signal = d.signal;
      return promise;
    });
    assert.equal(await send(hooks, "e1"), "503 retryable");
    assert.equal(signal!.aborted, true);
    assert.equal(await send(hooks, "e1"), "503 in_progress");
    resolve();
    let answer;
    while ((answer = await send(hooks, "e1")) === "503 in_progress");
    assert.match(answer, /200 (processed|duplicate)/);
    // The lease of a handler that never ends is renewed no more: its timer would keep this process alive.
    assert.equal(await send(receiver(world, { timeout: 0.03 }).claim(() => new Promise(() => {})), "e1"), "503 retryable");
  });
}
