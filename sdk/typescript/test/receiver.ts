// The test receiver of sdk/README.md: torture, kills and measurements start it by its environment.
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import {
  createReceiver,
  nodeHandler,
  permanent,
  Refused,
  retryable,
  stale,
  StateMachine,
  timestampGate,
  versionGate,
  Verifier,
  type Hooks,
  type Queryable,
} from "grapnel/receive";
import { Delivery } from "../dist/receive/delivery.js";
import { open, type World } from "./worlds.js";

const { PORT = "0", MODE = "transaction", STORE = "sqlite", DSN = "", SECRET = "", SECRET2 = "", WORKERS = "4" } = process.env;

let ahead = 0;
const now = () => Date.now() + ahead;
const faults = new Map<string, { kind: string; times: number; ms: number }>();
const machine = new StateMachine({
  edges: { draft: ["open"], open: ["paid", "void"], paid: ["refunded"] },
  terminal: ["refunded", "void"],
  unknown: "reject",
});
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let heldStep = "";
const held: string[] = [];

/** Keeps an event at the step that was asked for, until the process is killed. */
function hold(step: string, id: string | null | undefined): Promise<void> | undefined {
  if (step !== heldStep) return undefined;
  held.push(id ?? "");
  return new Promise(() => {});
}

async function fault(d: Delivery): Promise<void> {
  const f = faults.get(d.id);
  if (!f || f.times-- <= 0) return;
  if (f.kind === "slow" || f.kind === "hang") await pause(f.ms);
  if (f.kind === "permanent") throw permanent("a fault that was asked for");
  if (f.kind !== "slow") throw retryable("a fault that was asked for");
}

interface Invoice {
  invoice?: string;
  amount?: unknown;
  version?: string;
  status?: string;
  occurred_at?: string;
}

/** The effect of an event: its gate, and one row in the ledger. `key`: the ledger stands for a payment service. */
async function effect(d: Delivery, tx: Queryable, key: string | null): Promise<void> {
  const { type, data } = d.json<{ type: string; data?: Invoice } | null>({ numbers: (text) => text }) ?? {};
  const { invoice = "", version, status, occurred_at } = data ?? {};
  if (typeof type !== "string" || typeof invoice !== "string") throw permanent("the payload has no type, or an invoice that is no text");
  const amount = String(data?.amount ?? "");
  if (type.startsWith("invoice.")) {
    const set = { event: d.id, amount, ...(status !== undefined && { status }) };
    const row = { table: "invoices", key: { invoice }, set };
    let result = "applied";
    if (version !== undefined) result = await versionGate(tx, row, "version", BigInt(version));
    else if (occurred_at !== undefined)
      result = await timestampGate(tx, row, { time: "at", event: "at_event" }, { time: occurred_at, id: d.id }, { now: now() });
    else if (status !== undefined) result = await machine.apply(tx, { ...row, set: { event: d.id, amount } }, "status", status);
    if (result === "dead_letter" || result === "refused" || result === "rejected") throw permanent(`the gate says ${result}`);
    // An effect that a crash interrupted finds its own version.
    const own =
      result === "equal" && (await tx.query("select 1 from invoices where invoice = $1 and event = $2", [invoice, d.id])).rows.length > 0;
    if (result !== "applied" && !own) throw stale();
  }
  await tx.query("insert into ledger(event, source, invoice, amount, idempotency_key) values ($1, $2, $3, $4, $5) on conflict do nothing", [
    d.id,
    d.source,
    invoice,
    amount,
    key,
  ]);
}

const world: World = await open(STORE, DSN);
await world.store.setup();
const stop = new AbortController();
const work: Promise<void>[] = [];

function hooksFor(name: string, secret: string): Hooks {
  const receiver = createReceiver({ source: { name, secrets: [secret] }, store: world.store, now });
  const outside = async (d: Delivery) => {
    await hold("after-claim", d.id);
    await fault(d);
    await world.effects((tx) => effect(d, tx, d.idempotencyKey("pay")));
    await hold("after-effect", d.id);
  };
  switch (MODE) {
    case "transaction":
      return receiver.transaction(async (d, tx: Queryable) => {
        await hold("after-claim", d.id);
        await fault(d);
        await effect(d, tx, null);
        await hold("after-effect", d.id);
      });
    case "claim":
      return receiver.claim(outside);
    case "inbox": {
      const inbox = receiver.inbox(outside, { orderBy: "data.invoice" });
      work.push(inbox.work({ signal: stop.signal, concurrency: Number(WORKERS), poll: 0.1 }));
      return inbox.hooks;
    }
  }
  throw new Error(`MODE ${MODE}: use transaction, claim, inbox or bare`);
}

/** What the kit is compared with: the same verification and the same effect beside a plain insert, in a plain handler of node:http.
 *  It answers with a line of JSON, as receivers do and as the kit does. */
function bare(source: string, secret: string) {
  const verifier = new Verifier({ name: source, secrets: [secret] });
  return async (req: IncomingMessage, res: ServerResponse) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const headers = new Headers(req.headers as Record<string, string>);
    try {
      const { id } = verifier.verify({ method: "POST", url: req.url ?? "/", headers, body }, now());
      await world.effects(async (tx) => {
        const { rowCount } = await tx.query("insert into seen(id) values ($1) on conflict do nothing", [`${source}:${id}`]);
        if (rowCount === 1) await effect(new Delivery(source, id, () => "", headers, body), tx, null);
      });
      res.writeHead(200, { "content-type": "application/json" }).end('{"received":true}');
    } catch (e) {
      res.writeHead(e instanceof Refused ? 401 : 500).end();
    }
  };
}

async function control(url: URL): Promise<unknown> {
  const q = url.searchParams;
  switch (url.pathname) {
    case "/_probe":
      return world.effects((tx) => probe(tx, q.get("event"), q.get("key")));
    case "/_fault":
      faults.set(q.get("event") ?? "", { kind: q.get("kind") ?? "", times: Number(q.get("times") ?? 1), ms: Number(q.get("ms") ?? 0) });
      return {};
    case "/_clock":
      ahead = Number(q.get("now") ?? 0) && Number(q.get("now")) * 1000 - Date.now();
      return {};
    case "/_hold":
      heldStep = q.get("step") ?? heldStep;
      return held;
  }
  return undefined;
}

async function probe(tx: Queryable, event: string | null, key: string | null) {
  const by = event !== null ? ["event", event] : ["invoice", key ?? ""];
  const { rows: ledger } = await tx.query(`select invoice, amount from ledger where ${by[0]} = $1`, [by[1]]);
  const invoice = key ?? ledger[0]?.invoice ?? "";
  const { rows } = await tx.query("select status, version, amount from invoices where invoice = $1", [invoice]);
  const row = rows[0] ?? {};
  return {
    effects: ledger.length,
    state: String(row.status ?? ""),
    version: Number(row.version ?? 0),
    amount: String(row.amount ?? ledger[0]?.amount ?? ""),
  };
}

/** The handler of a source, which holds events at the steps outside of the handler. */
function handlerFor(name: string, secret: string): RequestListener {
  if (MODE === "bare") return bare(name, secret);
  const hooks = hooksFor(name, secret);
  const { handle } = hooks;
  hooks.handle = async (request) => {
    const id = request.headers.get("webhook-id");
    await hold("before-claim", id);
    const answer = await handle(request);
    await hold("after-commit", id);
    return answer;
  };
  return nodeHandler(hooks);
}

const handlers = new Map([["/hooks", handlerFor("acme", SECRET)], ...(SECRET2 ? [["/other", handlerFor("other", SECRET2)] as const] : [])]);

const server = createServer((req, res) => {
  const url = new URL(req.url ?? "/", "http://localhost");
  const handle = req.method === "POST" ? handlers.get(url.pathname) : undefined;
  if (handle) {
    res.once("finish", () => void hold("after-answer", String(req.headers["webhook-id"])));
    return void handle(req, res);
  }
  req.resume();
  control(url).then(
    (found) => res.writeHead(found === undefined ? 404 : 200, { "content-type": "application/json" }).end(JSON.stringify(found)),
    (e: Error) => res.writeHead(500).end(e.message),
  );
});
server.listen(Number(PORT), "127.0.0.1", () => {
  const at = server.address() as { port: number };
  console.log(`listening on http://127.0.0.1:${at.port}`);
});
process.once("SIGTERM", () => {
  stop.abort();
  server.close(() => void Promise.all(work).then(() => world.close()));
  server.closeIdleConnections();
  setTimeout(() => server.closeAllConnections(), 5000).unref(); // also those that have sent no request yet
});
