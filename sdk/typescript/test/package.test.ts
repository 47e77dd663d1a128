// The package as users get it: packed, installed, and its README's program run.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import pg from "pg";
import { postgres } from "./servers.js";

const root = resolve(import.meta.dirname, "..");
const secret = "whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh";

test("the package is sound, and its first program charges once", async () => {
  const dir = mkdtempSync(join(tmpdir(), "grapnel-package-"));
  const server = await postgres();
  const client = new pg.Client({ connectionString: server.url });
  try {
    const tool = (name: string, ...args: string[]) =>
      execFileSync(`${root}/node_modules/.bin/${name}`, args, { cwd: root, encoding: "utf8" });
    assert.match(tool("publint", "--strict"), /All good/);
    const [{ filename }] = JSON.parse(
      execFileSync("npm", ["pack", "--json", "--pack-destination", dir], { cwd: root, encoding: "utf8" }),
    ) as [{ filename: string }];
    tool("attw", join(dir, filename), "--profile", "esm-only"); // throws if it finds a problem
    mkdirSync(join(dir, "node_modules"));
    execFileSync("tar", ["-xzf", filename], { cwd: dir });
    symlinkSync("../package", join(dir, "node_modules", "grapnel"));
    symlinkSync(`${root}/node_modules/pg`, join(dir, "node_modules", "pg"));

    const readme = readFileSync(join(dir, "package", "README.md"), "utf8");
    const program = /## Receiving webhooks\n\n```js\n([^]*?)```/.exec(readme)![1]!;
    writeFileSync(
      join(dir, "receiver.mjs"),
      program.replace(".listen(process.env.PORT)", `.listen(0, "127.0.0.1", function () { console.log(this.address().port); })`),
    );
    await client.connect();
    await client.query("create table payments(event text, amount numeric)");
    const env = { ...process.env, DATABASE_URL: server.url, WEBHOOK_SECRET: secret };
    const receiver = spawn(process.execPath, ["receiver.mjs"], { cwd: dir, env, stdio: ["ignore", "pipe", "inherit"] });
    try {
      const port = await new Promise<string>((done) => receiver.stdout.once("data", (text: Buffer) => done(String(text).trim())));
      const [body, stamp] = ['{"type":"invoice.paid","data":{"amount":500}}', String(Math.floor(Date.now() / 1000))];
      const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
        .update(`evt_1.${stamp}.${body}`)
        .digest("base64");
      const headers = { "webhook-id": "evt_1", "webhook-timestamp": stamp, "webhook-signature": `v1,${mac}` };
      const answers = [];
      for (let i = 0; i < 2; i++)
        answers.push((await fetch(`http://127.0.0.1:${port}`, { method: "POST", body, headers })).headers.get("webhook-outcome"));
      assert.deepEqual(answers, ["processed", "duplicate"]);
      assert.equal((await client.query("select * from payments")).rows.length, 1);
    } finally {
      receiver.kill();
    }
  } finally {
    await client.end();
    await server.stop();
    rmSync(dir, { recursive: true });
  }
});

test("the version is the server's", () => {
  const { version } = JSON.parse(readFileSync(`${root}/package.json`, "utf8")) as { version: string };
  const go = /var Version = "([^"]+)"/.exec(readFileSync(`${root}/../../grapnel.go`, "utf8"))![1]!;
  assert.equal(go.replace(/-dev$/, ""), version);
});
