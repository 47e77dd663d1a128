// Runs the TypeScript kit, packed as users get it, in Bun, in Deno and in a route handler of Next.js, and sends each what senders send.
// It ends with 1 if an answer or an effect is wrong. Arguments choose among the rows.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

process.chdir(import.meta.dirname);
const kit = "../../sdk/typescript";
const secret = "whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh";
const bun = "node_modules/@oven/bun-linux-x64/bin/bun";
const deno = "node_modules/@deno/linux-x64-glibc/deno";
const next = "node_modules/next/dist/bin/next";
const rows = [
  { name: "Bun", store: "memory", command: [bun, "bun.mjs"] },
  { name: "Bun", store: "bun:sqlite", command: [bun, "bun.mjs"] },
  { name: "Bun", store: "node:sqlite", command: [bun, "bun.mjs"] },
  { name: "Deno", store: "memory", command: [deno, "run", "--allow-all", "deno.mjs"] },
  { name: "Deno", store: "node:sqlite", command: [deno, "run", "--allow-all", "deno.mjs"] },
  { name: "Next.js", store: "memory", command: [process.execPath, next, "start", "next", "--hostname", "127.0.0.1"] },
  { name: "Next.js", store: "node:sqlite", command: [process.execPath, next, "start", "next", "--hostname", "127.0.0.1"] },
];

const quiet = { ...process.env, SECRET: secret, DO_NOT_TRACK: "1", NEXT_TELEMETRY_DISABLED: "1" };
const dir = mkdtempSync(join(tmpdir(), "grapnel-runtimes-"));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Puts the packed kit beside the runtimes: a link to its folder would give it the kit's own packages too. */
function install() {
  const packed = execFileSync("npm", ["pack", "--json", "--pack-destination", dir], { cwd: kit, encoding: "utf8" });
  rmSync("node_modules/grapnel", { recursive: true, force: true });
  mkdirSync("node_modules/grapnel");
  execFileSync("tar", ["-xzf", join(dir, JSON.parse(packed)[0].filename), "-C", "node_modules/grapnel", "--strip-components=1"]);
}

function signed(id, body = '{ "type": "invoice.paid",  "amount": 10 }') {
  const stamp = String(Math.floor(Date.now() / 1000));
  const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`${id}.${stamp}.${body}`).digest("base64");
  const headers = { "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": `v1,${mac}`, "content-type": "application/json" };
  return { method: "POST", headers, body };
}

async function post(base, request) {
  const response = await fetch(`${base}/hooks`, request);
  const { outcome } = await response.json();
  assert.equal(response.headers.get("webhook-outcome"), outcome);
  return `${response.status} ${outcome}`;
}

/** Sends the head and half of the body, and closes the connection. */
async function halfOf(base, { headers, body }) {
  const { hostname, port } = new URL(base);
  const head = Object.entries({ ...headers, host: hostname, "content-length": body.length });
  const socket = connect(Number(port), hostname);
  socket.write(`POST /hooks HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body.slice(0, 20)}`);
  await pause(100);
  socket.destroy();
}

/** How often each event had its effect. */
function effects(store, dsn) {
  if (store === "memory") return readFileSync(dsn, "utf8").trimEnd().split("\n").map((line) => line.split(" ")[0]).sort();
  const database = new DatabaseSync(dsn);
  const found = database.prepare("select event from ledger order by event").all();
  database.close();
  return found.map((row) => row.event);
}

async function receives(base, store, dsn) {
  const answers = [await post(base, signed("e1")), await post(base, signed("e1"))];
  answers.push(await post(base, { ...signed("e2"), headers: {} }));
  answers.push(await post(base, { ...signed("e3"), body: '{"type":"invoice.paid","amount":10}' }));
  await halfOf(base, signed("e4"));
  answers.push(await post(base, signed("e4")));
  answers.push(await post(base, signed("e5", "x".repeat((1 << 20) + 1))));
  assert.deepEqual(answers, ["200 processed", "200 duplicate", "401 unverified", "401 unverified", "200 processed", "413 too_large"]);
  const copies = await Promise.all(Array.from({ length: 8 }, () => post(base, signed("e6"))));
  assert.ok(copies.includes("200 processed") && copies.every((a) => a === "200 processed" || a === "200 duplicate"), String(copies));
  if (store !== "memory") {
    const other = new DatabaseSync(dsn);
    other.exec("begin immediate");
    const waits = post(base, signed("e7"));
    await pause(200);
    other.exec("commit");
    other.close();
    assert.equal(await waits, "200 processed");
  }
  assert.deepEqual(effects(store, dsn), ["e1", "e4", "e6", ...(store === "memory" ? [] : ["e7"])]);
}

async function unusedPort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

async function run({ name, store, command }, n) {
  const [port, dsn] = [await unusedPort(), join(dir, `effects-${n}`)];
  const env = { ...quiet, PORT: String(port), STORE: store, DSN: dsn };
  const server = spawn(command[0], command.slice(1), { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const output of [server.stdout, server.stderr]) output.on("data", (text) => (said += text));
  const ended = once(server, "exit");
  try {
    const base = `http://127.0.0.1:${port}`;
    for (const until = performance.now() + 20_000; ; await pause(20)) {
      if (server.exitCode !== null || performance.now() > until) throw new Error("it does not start");
      if (await fetch(base).then((answer) => answer.text().then(() => true), () => false)) break;
    }
    await receives(base, store, dsn);
    console.log(`${name}, ${store}: passed`);
    return true;
  } catch (error) {
    console.log(`${name}, ${store}: FAILED\n${error.message}\n${said}`);
    return false;
  } finally {
    server.kill("SIGKILL");
    await ended;
  }
}

let good = true;
try {
  install();
  const chosen = rows.filter(({ name }) => process.argv.length === 2 || process.argv.slice(2).includes(name));
  // The build loads the route, and so hooks.mjs.
  const build = { env: { ...quiet, STORE: "memory" }, stdio: ["ignore", "ignore", "inherit"] };
  if (chosen.some(({ name }) => name === "Next.js")) execFileSync(process.execPath, [next, "build", "next"], build);
  for (const [n, row] of chosen.entries()) good = (await run(row, n)) && good;
} finally {
  rmSync(dir, { recursive: true });
}
process.exit(good ? 0 : 1);
