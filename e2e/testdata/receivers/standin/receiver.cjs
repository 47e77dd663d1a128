// Runs one published receiver: node receiver.cjs SAMPLE. What the sample leaves open (its framework, database, queue
// and business) stands here; GET /state tells what came of it.
const fs = require("fs");
const http = require("http");
const path = require("path");

const sample = process.argv[2];
const requireHere = (name) => require(name === "ioredis" ? "./ioredis.cjs" : name);
const state = { processed: [], jobs: [], dead: [], orders: {} };
const routes = {};
const app = { post: (at, handle) => (routes[at] = handle) };

const events = new Map();
const rows = (list) => ({ rows: list });
const db = {
  webhookEvents: {
    exists: async (id) => events.has(id),
    insert: async (id) => events.set(id, true),
    findUnique: async ({ where }) => events.get(where.eventId) ?? null,
    create: async ({ data }) => events.set(data.eventId, data),
  },
  transaction: async (work) => work(db),
  async query(sql, values) {
    if (sql.includes("INSERT INTO processed_events")) {
      if (events.has(values[0])) return rows([]);
      events.set(values[0], true);
      return rows([{ event_id: values[0] }]);
    }
    if (sql.includes("INSERT INTO webhook_dead_letter_queue")) {
      state.dead.push({ event: JSON.parse(values[0]), error: values[1], retryCount: values[2] });
      return rows([]);
    }
    if (sql.includes("UPDATE orders")) {
      const [status, version, id] = values;
      if (id in state.orders && state.orders[id].version >= version) return rows([]);
      state.orders[id] = { status, version };
      return rows([{ id }]);
    }
    throw new Error(`not known here: ${sql}`);
  },
};
async function processEvent(event) {
  if (path.basename(sample) === "webhookify_dlq.js") throw new Error("it never works");
  state.processed.push(event);
}
const names = {
  app, db, processEvent,
  processEventInTransaction: async (_, event) => processEvent(event),
  queue: { add: async (name, job) => state.jobs.push(job) },
  messageQueue: { send: async () => {} },
  redis: new (requireHere("ioredis"))(),
  require: requireHere,
  console: { log() {}, error() {} },
};
// Types are taken away as a compiler of TypeScript does; nothing else of a sample is changed.
let text = fs.readFileSync(sample, "utf8");
if (sample.endsWith(".ts")) text = text.replace(/: (any|string)(?=[,)])/g, "").replace(/ as string\b/g, "");
const functions = ["handleWebhook", "handleWebhookWithDB", "handleWebhookWithDLQ", "handleOrderUpdate"];
const found = new Function(
  ...Object.keys(names),
  `return (function () {\n${text}\nreturn [${functions.map((f) => `typeof ${f} === "function" ? ${f} : null`)}];\n})()`,
)(...Object.values(names));
const [plain, withDB, withDLQ, order] = found;
const handler = Object.values(routes)[0] ?? plain ?? withDB ?? withDLQ ??
  (async (req, res) => { await order(req.body); res.sendStatus(200); });

http.createServer((req, res) => {
  const parts = [];
  req.on("data", (part) => parts.push(part));
  req.on("end", async () => {
    res.status = (code) => { res.statusCode = code; return res; };
    res.json = (value) => { res.setHeader("content-type", "application/json"); res.end(JSON.stringify(value)); };
    res.sendStatus = (code) => { res.statusCode = code; res.end(); };
    if (req.url === "/state") return res.json(state);
    try {
      req.body = JSON.parse(Buffer.concat(parts).toString());
      await handler(req, res);
    } catch (error) {
      if (!res.writableEnded) res.status(500).json({ error: String(error) });
    }
  });
}).listen(0, "127.0.0.1", function () { process.stdout.write(`${this.address().port}\n`); });
