import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import test, { before } from "node:test";

import { ApiError, Client, Unreachable } from "grapnel/client";
import { closed, type Fault, KEY, listen, proxy, sdk, serve } from "./grapnel.js";

interface Case {
  name: string;
  call: "publish" | "update" | "get";
  times?: number;
  answers?: Fault[];
  always?: Fault;
  closed?: boolean;
  tries: number;
  rests?: [number, number][];
  stored: number;
  error?: { kind: string; [field: string]: unknown };
}

let server: string;
let client: Client;
before(async () => {
  server = await serve();
  client = new Client({ server, key: KEY });
});

test("the types are those of the server's document", () => {
  execFileSync("python3", [`${sdk}/generate.py`, "--check", "typescript"], { stdio: "pipe" });
});

test("when a request is repeated", async (t) => {
  const cases = JSON.parse(readFileSync(`${sdk}/clients.json`, "utf8")).cases as Case[];
  const agent = `grapnel-typescript/${JSON.parse(readFileSync(`${sdk}/typescript/package.json`, "utf8")).version}`;
  const endpoint = await client.endpoints.create({ url: "http://127.0.0.1:1/", event_types: ["none"] });
  for (const [i, one] of cases.entries()) {
    await t.test(one.name, async () => {
      const rests: number[] = [];
      const answers = [...(one.answers ?? [])];
      const { address, seen } = await proxy(server, () => answers.shift() ?? one.always);
      const there = new Client({
        server: one.closed ? await closed() : address,
        key: KEY,
        rest: async (seconds) => void rests.push(seconds),
      });
      const type = `case.${i}`;
      let error: unknown;
      for (let n = 0; n < (one.times ?? 1); n++) {
        const before = seen.length;
        try {
          if (one.call === "publish") await there.publish({ type, data: n });
          else if (one.call === "update") await there.endpoints.update(endpoint.id, { description: one.name });
          else assert.equal((await there.endpoints.get(endpoint.id)).id, endpoint.id);
        } catch (thrown) {
          error = thrown;
        }
        const keys = new Set(seen.slice(before).map((s) => s.headers["idempotency-key"]));
        for (const { headers } of seen) assert.equal(headers["user-agent"], agent);
        assert.equal(keys.size, one.closed ? 0 : 1);
        assert.equal(keys.has(undefined), one.call !== "publish" && !one.closed);
      }
      if (one.error) {
        const { kind, ...fields } = one.error;
        assert.ok(error instanceof (kind === "ApiError" ? ApiError : Unreachable), inspect(error));
        assert.deepEqual({ ...fields, ...pick(error, Object.keys(fields)) }, fields);
        assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(KEY));
      } else assert.equal(error, undefined);
      assert.equal(seen.length, one.tries);
      if (one.rests) {
        assert.equal(rests.length, one.rests.length);
        one.rests.forEach(([least, most], n) =>
          assert.ok(least <= rests[n]! && rests[n]! <= most, `${rests[n]} is not from ${least} to ${most}`),
        );
      }
      assert.equal((await all(client.events.list({ type }))).length, one.stored);
    });
  }
});

test("a key shows in no error, and not in the client", () => {
  assert.ok(!inspect(client, { depth: 9, showHidden: true }).includes(KEY));
  for (const options of [
    { key: `${KEY}\n` },
    { server: `http://${KEY}@127.0.0.1` },
    { server: `http://user:${KEY}@127.0.0.1` },
    { server: KEY },
  ]) {
    assert.throws(
      () => new Client(options),
      (error: Error) => error instanceof TypeError && !inspect(error).includes(KEY),
    );
  }
});

test("a call ends at its signal and in its time", async () => {
  const silent = await listen(() => {});
  const stop = new AbortController();
  stop.abort(new Error("enough"));
  await assert.rejects(new Client({ server: silent }).publish({ type: "a", data: 1 }, { signal: stop.signal }), /enough/);
  await assert.rejects(new Client({ server: silent, timeout: 0.05 }).publish({ type: "a", data: 1 }), Unreachable);
});

test("types are those of the route", () => {
  const never = [
    // @ts-expect-error: the path needs its id
    () => client.call("GET", "/v1/endpoints/{id}"),
    // @ts-expect-error: the route takes no DELETE
    () => client.call("DELETE", "/v1/events", {}),
    // @ts-expect-error: an endpoint has no such field
    () => client.endpoints.create({ url: "http://127.0.0.1:1/", colour: "red" }),
    // @ts-expect-error: a list has no such filter
    () => client.events.list({ colour: "red" }),
    async (): Promise<"enabled" | "paused" | "disabled"> => (await client.endpoints.get("ep_1")).status,
  ];
  assert.equal(never.length, 5);
});

test("a name cannot lead to another route", async () => {
  for (const id of ["", ".", ".."]) await assert.rejects(async () => client.endpoints.get(id), TypeError);
  await assert.rejects(client.endpoints.get("../keys"), (error) => error instanceof ApiError && [404, 422].includes(error.status));
});

test("from publishing to a replay", async () => {
  let accepts = true;
  const got: string[] = [];
  const sink = await listen((request, body, response) => {
    if (accepts) got.push(`${request.headers["webhook-id"]} ${JSON.parse(body.toString()).data}`);
    response.writeHead(accepts ? 204 : 400).end();
  });
  const endpoint = await client.endpoints.create({
    url: sink,
    event_types: ["story.*"],
    policy: { schedule: { mode: "since_previous", delays: ["0s"] }, classify: { "400": "fail" } },
  });
  assert.match(endpoint.secret!, /^whsec_/);

  const first = await client.publish({ type: "story.one", data: 1, id: "evt_story" });
  assert.equal(first.deliveries, 1);
  assert.equal((await client.publish({ type: "story.one", data: 1, id: "evt_story" })).duplicate, true);
  await until(() => got.length === 1);
  assert.deepEqual(got, ["evt_story 1"]);

  accepts = false;
  const results = await client.publishBatch([
    { type: "story.two", data: 2 },
    { type: "not a type", data: 0 },
    { type: "story.two", data: 3 },
  ]);
  assert.ok(results[1] instanceof ApiError && results[1].fields[0]?.pointer === "/events/1/type");
  const dead = () => all(client.deadLetters.list({ endpoint: endpoint.id, limit: 1 })); // two pages
  await until(async () => (await dead()).length === 2);

  accepts = true;
  const one = (await dead())[0]!;
  const again = await client.deadLetters.retry(one.id, "they fixed it");
  assert.equal(again.replay_of, one.id);
  await until(() => got.length === 2);
  await until(async () => (await client.deliveries.get(again.id)).status === "delivered");
  assert.equal((await client.replays.plan(endpoint.id)).total, 1);
  const replay = await client.replays.start(endpoint.id, { rate: 1000 });
  const states = await all(client.replays.watch(replay.id, { every: 0.01 }));
  assert.equal(states.at(-1)!.status, "completed");
  assert.equal((await all(client.replays.list({ endpoint: endpoint.id })))[0]!.id, replay.id);
  await until(() => got.length === 3);
  assert.equal((await all(client.deliveries.list({ endpoint: endpoint.id, limit: 2 }))).length, 5);

  assert.equal((await client.endpoints.pause(endpoint.id, "they deploy")).status, "paused");
  assert.equal((await client.endpoints.resume(endpoint.id)).status, "enabled");
  assert.notEqual((await client.endpoints.rotateSecret(endpoint.id, { overlap: "1h" })).secret, endpoint.secret);
  assert.equal((await client.endpoints.test(endpoint.id, { type: "story.test" })).endpoint_id, endpoint.id);
  assert.equal((await client.endpoints.update(endpoint.id, { description: "of the story" })).description, "of the story");
  assert.equal((await client.endpoints.update(endpoint.id, { rate_limit: { per_second: 10 } })).rate_limit?.per_second, 10);
  assert.equal((await client.endpoints.update(endpoint.id, { rate_limit: null })).rate_limit, null);
  assert.equal((await client.call("GET", "/v1/endpoints/{id}", { path: { id: endpoint.id } })).description, "of the story");
  assert.match((await client.portalLinks.create("default", { expires_in: "5m" })).url, /#/);
  await client.portalLinks.revoke("default");
  await client.endpoints.delete(endpoint.id, "the story ends");
  await assert.rejects(
    client.endpoints.get(endpoint.id),
    (error) => error instanceof ApiError && error.code === "not_found" && error.requestId.startsWith("req_"),
  );
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of items) out.push(item);
  return out;
}

/** Asks the server until a condition holds; each question is a request, so this goes at the server's pace. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let asked = 0; !(await holds()); asked++) {
    assert.ok(asked < 5000, `it never came to hold: ${holds}`);
    await client.call("GET", "/v1/whoami");
  }
}

function pick(from: object, names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, (from as Record<string, unknown>)[name]]));
}
