import assert from "node:assert/strict";
import test, { before } from "node:test";

import { ApiError, Client, type ConsumeOptions, LeaseLost, type Message, Reject, RetryAfter, type Settled } from "grapnel/client";
import { KEY, proxy, type Seen, serve } from "./grapnel.js";

let server: string;
let client: Client;
before(async () => {
  server = await serve();
  client = new Client({ server, key: KEY });
});

/** Makes a queue whose messages come again at once, with one message for each number. */
async function queue(name: string, messages: number): Promise<void> {
  const policy = {
    schedule: { mode: "since_previous" as const, delays: ["0s", "1ms"], tail: "repeat" as const },
    max_attempts: 20,
    breaker: false as const,
  };
  await client.call("POST", "/v1/queues", { body: { name, event_types: [name], lease: "1s", ordering: "none", policy } });
  if (messages > 0) await client.publishBatch(Array.from({ length: messages }, (_, n) => ({ type: name, data: n })));
}

const counts = (name: string) => client.call("GET", "/v1/queues/{name}", { path: { name } });

/** A request's part of a lease: next, ack, nack, reject or extend. */
const verb = (seen: Seen) => /\/(\w+)(\?|$)/.exec(seen.path)![1];

test("200 messages while connections are cut", async () => {
  await queue("cut", 200);
  let asked = 0;
  const { address } = await proxy(server, (seen) => {
    asked++;
    // A message whose answer was cut comes again when its lease has expired.
    return asked % 23 === 0 ? "cut-after" : asked % 11 === 0 && verb(seen) !== "next" ? "cut-before" : undefined;
  });
  const handled = new Map<number, number>();
  const stop = new AbortController();
  await new Client({ server: address, key: KEY, retries: 0 }).consume(
    "cut",
    (m) => {
      handled.set(m.json<number>(), (handled.get(m.json<number>()) ?? 0) + 1);
    },
    {
      concurrency: 8,
      wait: 1,
      signal: stop.signal,
      settled: async () => {
        if (handled.size === 200 && (await counts("cut")).ready === 0) stop.abort();
      },
    },
  );
  assert.equal(handled.size, 200);
  assert.ok(asked > 400);
});

test("outcomes by what the handler does", async () => {
  await queue("outcomes", 1);
  const settled: Settled[] = [];
  const attempts: number[] = [];
  await client.consume(
    "outcomes",
    (m) => {
      attempts.push(m.meta.attempt);
      assert.equal(m.text, "0");
      if (m.meta.attempt === 1) throw new RetryAfter(0, "in a moment");
      if (m.meta.attempt === 2) throw new Error("x".repeat(600));
      throw new Reject("no such invoice");
    },
    { count: 3, wait: 1, consumer: "tests", settled: (s) => void settled.push(s) },
  );
  assert.deepEqual(attempts, [1, 2, 3]);
  assert.deepEqual(
    settled.map((s) => [s.outcome, s.reason.length, s.error]),
    [
      ["nack", 11, undefined],
      ["nack", 500, undefined],
      ["reject", 15, undefined],
    ],
  );
  const { value: dead } = await client.deadLetters.list({ type: "outcomes" }).next();
  assert.ok(dead && dead.reason_code === "rejected", dead?.reason);
});

test("a lease is extended while the handler runs", async () => {
  await queue("slow", 1);
  let extended = 0;
  let enough!: () => void;
  const twice = new Promise<void>((done) => (enough = done));
  // 4 halves of a second
  const { address } = await proxy(server, (seen) => (verb(seen) === "extend" && ++extended === 4 && enough(), undefined));
  const settled: Settled[] = [];
  await new Client({ server: address, key: KEY }).consume("slow", () => twice, { count: 1, wait: 1, settled: (s) => void settled.push(s) });
  assert.deepEqual(
    settled.map((s) => [s.outcome, s.message.meta.attempt, s.error]),
    [["ack", 1, undefined]],
  );
});

test("a handler learns that its lease is lost", async () => {
  await queue("lost", 1);
  const settled: Settled[] = [];
  await client.consume(
    "lost",
    async (m) => {
      await client.call("POST", "/v1/leases/{lease}/ack", { path: { lease: m.meta.lease } });
      await aborted(m);
      assert.ok(m.signal.reason instanceof LeaseLost);
    },
    { count: 1, wait: 1, settled: (s) => void settled.push(s) },
  );
  assert.ok(settled[0]!.error instanceof LeaseLost);
});

test("a stop lets handlers finish, and then cuts them off", async () => {
  for (const drain of [30, 0]) {
    const name = `stop${drain}`;
    await queue(name, 2);
    const stop = new AbortController();
    const settled: Settled[] = [];
    const options: ConsumeOptions = { signal: stop.signal, drain, settled: (s) => void settled.push(s) };
    await client.consume(
      name,
      async (m) => {
        stop.abort();
        if (drain > 0) return void (await client.call("GET", "/v1/whoami"));
        await aborted(m);
        throw m.signal.reason;
      },
      options,
    );
    assert.deepEqual(
      settled.map((s) => [s.outcome, s.error]),
      [[drain > 0 ? "ack" : "nack", undefined]],
    );
    assert.equal((await counts(name)).leased, 0);
  }
});

test("a stop ends a question that waits", async () => {
  await queue("quiet", 0);
  const stop = new AbortController();
  const { address, seen } = await proxy(server, () => (setImmediate(() => stop.abort()), undefined));
  await new Client({ server: address, key: KEY }).consume("quiet", () => assert.fail("there is no message"), {
    wait: 60,
    signal: stop.signal,
  });
  assert.equal(seen.length, 1);
});

test("what asking again cannot change is thrown, and what it can is not", async () => {
  await assert.rejects(
    client.consume("none", () => {}, { concurrency: 3 }),
    (error) => error instanceof ApiError && error.code === "not_found",
  );
  await queue("trouble", 1);
  const troubles: unknown[] = [];
  const refused = { next: 2, ack: 2 };
  const { address } = await proxy(server, (seen) =>
    refused[verb(seen) as "next" | "ack"]-- > 0 ? { status: 503, headers: { "Retry-After": "3" } } : undefined,
  );
  const rests: number[] = [];
  const there = new Client({ server: address, key: KEY, retries: 0, rest: async (seconds) => void rests.push(seconds) });
  await there.consume("trouble", () => {}, { count: 1, wait: 1, trouble: (error) => void troubles.push(error) });
  assert.equal(troubles.length, 2);
  assert.deepEqual(rests, [3, 3, 3, 3]); // not shorter, jitter or not
});

function aborted(m: Message): Promise<void> {
  return new Promise((done) => (m.signal.aborted ? done() : m.signal.addEventListener("abort", () => done())));
}
