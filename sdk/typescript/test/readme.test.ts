import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import test from "node:test";

import { Client } from "grapnel/client";
import { KEY, listen, sdk, serve } from "./grapnel.js";

test("the programs of the README's part about the API run", async () => {
  const server = await serve();
  const client = new Client({ server, key: KEY });
  const part = readFileSync(`${sdk}/typescript/README.md`, "utf8").split("\n## Calling the API\n")[1]!.split("\n## ")[0]!;
  const programs = [...part.matchAll(/^```js\n([^]*?)^```/gm)].map((found) => found[1]!);
  assert.equal(programs.length, 2);
  const run = (n: number) => {
    const path = `${sdk}/typescript/dist-test/readme-${n}.mjs`;
    writeFileSync(path, programs[n]!);
    const program = spawn(process.execPath, [path], {
      env: { ...process.env, GRAPNEL_SERVER: server, GRAPNEL_KEY: KEY },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    program.stdout.on("data", (more: Buffer) => {
      said += more;
      if (n === 1) program.kill("SIGTERM");
    });
    return new Promise<string>((done, failed) =>
      program.once("close", (code) => (code === 0 ? done(said) : failed(new Error(`ended with ${code}`)))),
    );
  };

  const refusing = await listen((_request, _body, response) => response.writeHead(400).end());
  await client.endpoints.create({ url: refusing, event_types: ["invoice.*"], policy: { classify: { "400": "fail" } } });
  await client.publish({ type: "invoice.paid", data: 0 });
  while ((await client.deadLetters.list().next()).done) await client.call("GET", "/v1/whoami"); // each question is a request
  assert.match(await run(0), /^evt_\w+ is durable and goes to 1 endpoints\ndlv_\w+: .+\n/);

  await client.call("POST", "/v1/queues", { body: { name: "orders", event_types: ["order.*"] } });
  const { id } = await client.publish({ type: "order.made", data: { id: "ord_1" } });
  assert.equal(await run(1), `${id}: order ord_1\n`);
  assert.equal((await client.call("GET", "/v1/queues/{name}", { path: { name: "orders" } })).leased, 0);
});
