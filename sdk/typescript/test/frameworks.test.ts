import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import { createRequire } from "node:module";
import { connect, type AddressInfo } from "node:net";
import { test } from "node:test";
import express5 from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { createReceiver, expressHooks, fastifyHooks, memoryStore, nestHooks, nodeHandler, type Hooks } from "grapnel/receive";

const express4 = createRequire(import.meta.url)("express4") as typeof express5;
const secret = "whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh";
// Spaces and a number that a parser would change: only the bytes as they came verify.
const body = '{ "type": "invoice.paid",  "data": {"amount": 10.50} }';

function signed(id: string, text = body): RequestInit & { headers: Record<string, string> } {
  const stamp = String(Math.floor(Date.now() / 1000));
  const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
    .update(`${id}.${stamp}.${text}`)
    .digest("base64");
  const headers = { "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": `v1,${mac}`, "content-type": "application/json" };
  return { method: "POST", body: text, headers };
}

function hooks(): Hooks {
  const receiver = createReceiver({ source: { name: "acme", secrets: [secret] }, store: memoryStore({ test: true }), maxBody: 1000 });
  return receiver.claim((d) => assert.equal(d.text, body));
}

/** Runs a server on a free port for the length of a test. */
async function serving(server: Server, run: (base: string) => Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** Sends half of a body and closes the connection. */
async function leaves(base: string, path = "/hooks"): Promise<void> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  await new Promise<void>((resolve) => {
    socket.write(`POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: 100\r\n\r\nhalf`, () => setTimeout(resolve, 50));
  });
  socket.destroy();
}

/** What each framework has to do at /hooks. */
async function receives(base: string): Promise<void> {
  await leaves(base); // a rejection that nobody handles ends the process
  const answers: string[] = [];
  const post = async (init: RequestInit) => {
    const response = await fetch(`${base}/hooks`, init);
    const { outcome } = (await response.json()) as { outcome: string };
    assert.equal(response.headers.get("webhook-outcome"), outcome);
    answers.push(`${response.status} ${outcome}`);
  };
  await post(signed("e1"));
  await post(signed("e1"));
  await post({ ...signed("e2"), body: JSON.stringify(JSON.parse(body)) });
  const { "content-type": _, ...untyped } = signed("e3").headers;
  await post({ ...signed("e3"), headers: untyped });
  await post({ ...signed("e4"), headers: { ...signed("e4").headers, "content-type": "application/x-www-form-urlencoded" } });
  await post(signed("e5", "x".repeat(1001)));
  assert.deepEqual(answers, ["200 processed", "200 duplicate", "401 unverified", "200 processed", "200 processed", "413 too_large"]);
}

/** A request whose bytes are gone: the answer names the way out, and is no failure of the signature. */
async function saysWayOut(t: { mock: any }, answer: () => Promise<Response>, wayOut: RegExp): Promise<void> {
  const said = t.mock.method(console, "error", () => {});
  const response = await answer();
  assert.equal(response.status, 500);
  assert.match(((await response.json()) as { reason: string }).reason, wayOut);
  assert.match(String(said.mock.calls[0].arguments[0]), wayOut);
  said.mock.restore();
}

test("node:http", () => serving(createServer(nodeHandler(hooks())), receives));

test("node:http: headers come as they were sent", async () => {
  let headers: Headers | undefined;
  const receiver = createReceiver({ source: { name: "acme", secrets: [secret] }, store: memoryStore({ test: true }) });
  const handler = nodeHandler(receiver.claim((d) => void (headers = d.headers)));
  await serving(createServer(handler), async (base) => {
    const post = (more: Record<string, string | string[]>) =>
      new Promise<string>((resolve, reject) => {
        const sent = request(`${base}/hooks`, { method: "POST", headers: { ...signed("e1").headers, ...more } }, (answer) => {
          answer.resume();
          resolve(`${answer.statusCode} ${answer.headers["webhook-outcome"]}`);
        });
        sent.once("error", reject).end(body);
      });
    // Receivers that take the first of two ids, or the last, disagree about the event.
    assert.equal(await post({ "webhook-id": ["e1", "e2"] }), "400 malformed");
    assert.equal(await post({ "X-Shop": "a", "x-many": ["1", "2"] }), "200 processed");
  });
  assert.ok(headers instanceof Headers);
  assert.deepEqual([headers.get("x-shop"), headers.get("X-Many"), headers.get("webhook-id")], ["a", "1, 2", "e1"]);
});

test("node:http: a body that is too large is answered before its end, and one that never comes is given up", async () => {
  const handler = nodeHandler(hooks());
  const ends: string[] = [];
  const server = createServer(async (req, res) => {
    if (req.url === "/late") await new Promise((resolve) => req.once("close", resolve)); // as behind a middleware that takes its time
    if (req.url === "/cut") setTimeout(() => req.destroy(), 20); // closes without an error
    await handler(req, res);
    ends.push(req.url + (req.isPaused() ? " pauses" : " ends"));
  });
  await serving(server, async (base) => {
    const { hostname, port } = new URL(base);
    const socket = connect(Number(port), hostname);
    socket.write(`POST /hooks HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: 100000\r\n\r\n${"x".repeat(1001)}`);
    const [answer] = await once(socket, "data");
    assert.match(String(answer), /^HTTP\/1\.1 413 /);
    await once(socket, "close");
    for (const path of ["/hooks", "/late", "/cut"]) await leaves(base, path);
    while (ends.length < 4) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(ends.sort(), ["/cut ends", "/hooks ends", "/hooks pauses", "/late ends"]);
  });
});

for (const [name, express] of [
  ["express 5", express5],
  ["express 4", express4],
] as const) {
  test(name, async () => {
    const app = express();
    expressHooks(app, "/hooks", hooks());
    app.use(express.json());
    app.post("/other", (req, res) => void res.json(req.body));
    await serving(createServer(app), async (base) => {
      await receives(base);
      const other = await fetch(`${base}/other`, { method: "POST", body: '{"a":1}', headers: { "content-type": "application/json" } });
      assert.deepEqual(await other.json(), { a: 1 });
    });
  });

  test(`${name}: a route, a router, and raw bodies`, async () => {
    for (const add of [
      (app: ReturnType<typeof express>) => app.post("/hooks", nodeHandler(hooks())),
      (app: ReturnType<typeof express>) => app.post("/hooks", express.raw({ type: () => true, limit: "1mb" }), nodeHandler(hooks())),
      (app: ReturnType<typeof express>) => {
        const router = express.Router();
        expressHooks(router, "/hooks", hooks());
        app.use(router);
      },
    ]) {
      const app = express();
      add(app);
      await serving(createServer(app), receives);
    }
  });

  test(`${name}: behind a parser`, async (t) => {
    const app = express();
    app.use("/api", express.json());
    expressHooks(app, "/before", hooks());
    app.use(express.json());
    assert.throws(() => expressHooks(app, "/hooks", hooks()), /\/hooks: jsonParser runs before it .*Call expressHooks before/);
    app.post("/hooks", nodeHandler(hooks()));
    await serving(createServer(app), (base) =>
      saysWayOut(t, () => fetch(`${base}/hooks`, signed("e1")), /before app\.use\(express\.json\(\)\)/),
    );
  });
}

test("fastify", async () => {
  const app = Fastify();
  app.register(fastifyHooks, { path: "/hooks", hooks: hooks() });
  app.post("/other", async (request) => request.body);
  await app.listen({ port: 0, host: "127.0.0.1" });
  try {
    const base = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    await receives(base);
    const other = await fetch(`${base}/other`, { method: "POST", body: '{"a":1}', headers: { "content-type": "application/json" } });
    assert.deepEqual(await other.json(), { a: 1 });
    await assert.rejects(app.inject({ method: "POST", url: "/hooks", payload: body, simulate: { error: true, end: false, split: false, close: false } }), /destroyed/);
  } finally {
    app.server.closeAllConnections();
    await app.close();
  }
});

test("nest", async (t) => {
  await import("reflect-metadata");
  const { Module, Controller, Post, Req, Res } = await import("@nestjs/common");
  const { NestFactory } = await import("@nestjs/core");
  // Decorators are functions, so this needs no compiler's option.
  const route = hooks();
  class Hook {
    receive(req: any, res: any) {
      return nodeHandler(route)(req, res);
    }
  }
  Controller()(Hook);
  Post("hooks")(Hook.prototype, "receive", Object.getOwnPropertyDescriptor(Hook.prototype, "receive")!);
  Req()(Hook.prototype, "receive", 0);
  Res()(Hook.prototype, "receive", 1);
  class Empty {}
  Module({})(Empty);
  class WithHook {}
  Module({ controllers: [Hook] })(WithHook);

  const running = async (
    module: any,
    options: object,
    before: (app: any) => unknown,
    run: (base: string) => Promise<void>,
    adapter?: any,
  ) => {
    const app = await NestFactory.create(module, ...(adapter ? [adapter] : []), { logger: false, ...options });
    try {
      await before(app);
      await app.listen(0, "127.0.0.1");
      await run((await app.getUrl()).replace("[::1]", "127.0.0.1"));
    } finally {
      app.getHttpServer().closeAllConnections();
      await app.close();
    }
  };
  await running(Empty, {}, (app) => nestHooks(app, "/hooks", hooks()), receives);
  const { FastifyAdapter } = await import("@nestjs/platform-fastify");
  await running(Empty, {}, (app) => nestHooks(app, "/hooks", hooks()), receives, new FastifyAdapter());
  await running(
    WithHook,
    { rawBody: true },
    () => {},
    async (base) => {
      assert.equal((await fetch(`${base}/hooks`, signed("e1"))).status, 200);
    },
  );
  await running(
    WithHook,
    {},
    () => {},
    (base) => saysWayOut(t, () => fetch(`${base}/hooks`, signed("e1")), /in Nest set rawBody: true/),
  );
});

test("a Web Request is read no further than its limit", async () => {
  let pulled = 0;
  const pull = (c: ReadableStreamDefaultController) => {
    pulled++;
    c.enqueue(new Uint8Array(300));
  };
  const init = { method: "POST", body: new ReadableStream({ pull }), duplex: "half", headers: signed("e1").headers };
  const answer = await hooks()(new Request("http://localhost/hooks", init as RequestInit));
  assert.deepEqual([answer.status, pulled < 8], [413, true]);
});

test("hono, and every server of Web Requests", async (t) => {
  const app = new Hono();
  const receive = hooks();
  app.post("/hooks", (c) => receive(c.req.raw));
  app.use("/parsed", async (c, next) => {
    await c.req.json();
    await next();
  });
  app.post("/parsed", (c) => receive(c.req.raw));
  const answers = [];
  for (let i = 0; i < 2; i++) answers.push((await app.request("/hooks", signed("e1"))).headers.get("webhook-outcome"));
  assert.deepEqual(answers, ["processed", "duplicate"]);
  await saysWayOut(t, async () => app.request("/parsed", signed("e2")), /Call the receiver first/);
});
