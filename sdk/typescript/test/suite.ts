// What every store has to pass, through the receiver.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test, type TestContext } from "node:test";
import {
  createReceiver, gapGate, gone, nanoseconds, NotDead, permanent, retryAfter, stale, StateMachine, timestampGate, versionGate,
  type Bid, type Delivery, type Hooks, type Options, type Queryable, type Receiver,
} from "grapnel/receive";
import { cases } from "./conformance.js";
import type { World } from "./worlds.js";

const secret = "whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh";

/** A signed request. */
export function signed(id: string, body: unknown = { type: "invoice.paid" }, now = Date.now()): Request {
  const [text, stamp] = [JSON.stringify(body), String(Math.floor(now / 1000))];
  const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`${id}.${stamp}.${text}`).digest("base64");
  const headers = { "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": `v1,${mac}`, "content-type": "application/json" };
  return new Request("http://localhost/hooks", { method: "POST", body: text, headers: { ...headers, authorization: "Bearer hidden" } });
}

let sources = 0;
/** A receiver of a source of its own, so that tests share a store. */
function receiver(world: World, more: Partial<Options<World["store"]>> = {}): Receiver<World["store"]> {
  return createReceiver({ store: world.store, log: () => {}, ...more, source: { name: `source-${++sources}`, secrets: [secret], ...more.source } });
}

const send = async (hooks: Hooks, id: string, body?: unknown, now?: number) => {
  const response = await hooks(signed(id, body, now));
  return `${response.status} ${((await response.json()) as { outcome: string }).outcome}`;
};
const ledger = (world: World, event: string) =>
  world.effects(async (tx) => (await tx.query("select event from ledger where event = $1", [event])).rows.length);
const pay = (tx: Queryable, d: Delivery, key: string | null = null) =>
  tx.query("insert into ledger(event, source, invoice, amount, idempotency_key) values ($1, $2, 'i', '1', $3)", [d.id, d.source, key]);
const deferred = () => {
  let resolve!: () => void;
  const promise = new Promise<void>((r) => (resolve = r));
  return { promise, resolve };
};

interface Abilities {
  transactions?: boolean;
  inbox?: boolean;
  /** It deletes by itself, so cleaning has no count. */
  forgets?: boolean;
}

export function storeSuite(open: () => Promise<World>, { transactions = true, inbox = true, forgets = false }: Abilities = {}): void {
  test("store", async (t) => {
    const world = await open();
    try {
      await world.store.setup();
      await world.store.setup();
      await windows(t, world, forgets);
      await claims(t, world, inbox);
      if (transactions) await transacts(t, world);
      if (transactions) await gates(t, world);
      if (inbox) await inboxes(t, world);
    } finally {
      await world.close();
    }
  });
}

async function windows(t: TestContext, { store }: World, forgets: boolean): Promise<void> {
  for (const { name, given, want } of cases("windows.json")) {
    if (forgets && given.steps.some((s: any) => s.op === "clean")) continue;
    await t.test(`windows.json: ${name}`, async () => {
      const make = () =>
        createReceiver({ store, window: given.window_ms / 1000, source: { name: "w", secrets: [secret], span: given.span_ms / 1000 } });
      if (want.error) return assert.throws(make, /window/);
      make();
      const source = `windows-${++sources}`;
      const bids = new Map<string, Bid>();
      const results: unknown[] = [];
      for (const { op, at_ms: now, by } of given.steps) {
        const bid = { source, key: "k", owner: `${by}-${results.length}`, bodyHash: "h", now, leaseUntil: now + given.lease_ms, keepUntil: now + given.window_ms };
        if (op === "claim" || op === "replay") {
          const mine = { ...bid, replay: op === "replay" };
          const row = await store.claim(mine);
          if (row?.owner === mine.owner) bids.set(by, mine);
          const held = { busy: "in_progress", done: "duplicate", dead: "dead_lettered", free: "free" }[row?.state ?? "free"];
          results.push(row?.owner === mine.owner ? "claimed" : op === "replay" ? "refused" : held);
        } else if (op === "clean") results.push(await store.clean(source, now, 100));
        else if (op === "renew") results.push((await store.renew(bids.get(by)!, now, now + given.lease_ms)) ? "ok" : "lost");
        else {
          const state = { complete: "done", release: "free", dead: "dead" } as const;
          results.push((await store.finish(bids.get(by)!, state[op as keyof typeof state], "", now)) ? "ok" : "lost");
        }
      }
      assert.deepEqual(results, want.results);
    });
  }
}

async function claims(t: TestContext, world: World, letters: boolean): Promise<void> {
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
    assert.deepEqual([await send(hooks, "old"), await send(hooks, "old"), await send(hooks, "any")], ["200 stale", "200 duplicate", "410 gone"]);
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
  });
}

async function transacts(t: TestContext, world: World): Promise<void> {
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
}

async function gates(t: TestContext, world: World): Promise<void> {
  await world.effects(async (tx) => {
    await tx.query("drop table if exists gated");
    await tx.query("create table gated(id text primary key, version bigint, time_ns bigint, event text, state text, value text)");
  });
  for (const { name, given, want } of cases("gates.json")) {
    await t.test(`gates.json: ${name}`, async () => {
      const machine = () => new StateMachine(given);
      if (want.error) return assert.throws(machine);
      const results: string[] = [];
      for (const e of given.events) {
        const row = { table: "gated", key: { id: name }, ...(given.gate !== "state" && { set: { value: e.value } }) };
        const version = BigInt(e.version ?? 0);
        results.push(
          await world.effects((tx) => {
            if (given.gate === "version") return versionGate(tx, row, "version", version);
            if (given.gate === "timestamp")
              return timestampGate(tx, row, { time: "time_ns", event: "event" }, { time: e.time, id: e.event }, { skew: given.skew_ms / 1000, now: Date.parse(given.now) });
            if (given.gate === "state") return machine().apply(tx, row, "state", e.state);
            return gapGate(tx, row, "version", version, { firstAt: e.first_ms, maxWait: given.max_wait_ms / 1000, now: e.at_ms });
          }),
        );
      }
      assert.deepEqual(results, want.results);
      const columns = Object.keys(want.row ?? {});
      const casts = columns.map((c) => `cast(${c} as text) as ${c}`).join(", ");
      const { rows } = await world.effects((tx) => tx.query(`select ${casts || "1"} from gated where id = $1`, [name]));
      const none = want.row === null || Object.values(want.row).every((v) => v === null);
      assert.deepEqual(rows.map((r) => ({ ...r })), none ? [] : [Object.fromEntries(Object.entries(want.row).map(([c, v]) => [c, String(v)]))]);
    });
  }
  await t.test("a time has nanoseconds", () => assert.equal(nanoseconds("2026-09-21T14:13:20.000000001Z"), 1790000000000000001n));
}

async function inboxes(t: TestContext, world: World): Promise<void> {
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
