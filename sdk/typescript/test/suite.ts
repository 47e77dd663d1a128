// What every store has to pass, through the receiver.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createReceiver, gapGate, nanoseconds, StateMachine, timestampGate, versionGate, type Bid } from "grapnel/receive";
import { claims } from "./suite-claims.js";
import { inboxes } from "./suite-inboxes.js";
import { transacts } from "./suite-transactions.js";
import { cases } from "./conformance.js";
import { newSource, secret } from "./senders.js";
import type { World } from "./worlds.js";

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
      const source = newSource();
      const bids = new Map<string, Bid>();
      const results: unknown[] = [];
      for (const { op, at_ms: now, by } of given.steps) {
        const bid = {
          source,
          key: "k",
          owner: `${by}-${results.length}`,
          bodyHash: "h",
          now,
          leaseUntil: now + given.lease_ms,
          keepUntil: now + given.window_ms,
        };
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
              return timestampGate(
                tx,
                row,
                { time: "time_ns", event: "event" },
                { time: e.time, id: e.event },
                { skew: given.skew_ms / 1000, now: Date.parse(given.now) },
              );
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
      assert.deepEqual(
        rows.map((r) => ({ ...r })),
        none ? [] : [Object.fromEntries(Object.entries(want.row).map(([c, v]) => [c, String(v)]))],
      );
    });
  }
  await t.test("a time has nanoseconds", () => assert.equal(nanoseconds("2026-09-21T14:13:20.000000001Z"), 1790000000000000001n));
}
