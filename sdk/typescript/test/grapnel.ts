// What the tests of the client talk to: the real server, a proxy with faults in front of it, and a sink.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";

export const sdk = resolve(import.meta.dirname, "../..");
export const KEY = "grp_key_of_the_tests_of_the_client";

const ends: (() => unknown)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

/** Builds the server and starts it on loopback; it ends with the tests. */
export async function serve(): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "grapnel-client-"));
  const build = ["build", "-trimpath", "-gcflags=all=-dwarf=false", "-o", join(dir, "grapnel"), "./cmd/grapnel"];
  execFileSync("go", build, { cwd: resolve(sdk, ".."), env: { ...process.env, CGO_ENABLED: "0" }, stdio: "inherit" });
  const server = spawn(
    join(dir, "grapnel"),
    ["serve", "--listen", "127.0.0.1:0", "--store", `sqlite:${dir}/grapnel.db`, "--egress-allow", "127.0.0.0/8"],
    {
      env: { ...process.env, GRAPNEL_ADMIN_KEY: KEY },
      stdio: ["ignore", "pipe", "ignore"],
    },
  );
  ends.push(async () => {
    await new Promise((done) => (server.once("exit", done), server.kill("SIGKILL")));
    rmSync(dir, { recursive: true });
  });
  const lines = createInterface(server.stdout); // stays open: a server without its output would end
  return new Promise((address, failed) => {
    lines.once("line", (line) => address(line.slice(line.indexOf("http://"))));
    server.once("exit", () => failed(new Error("the server did not start")));
  });
}

/** What is done with a request instead of passing it on. */
export type Fault = "cut-before" | "cut-after" | { status: number; headers?: Record<string, string>; body?: unknown };

export interface Seen {
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
}

/** A proxy that notes each request, and asks fault what to do with it. */
export async function proxy(server: string, fault: (seen: Seen) => Fault | undefined): Promise<{ address: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const address = await listen(async (request, body, response) => {
    const one = { method: request.method!, path: request.url!, headers: request.headers };
    seen.push(one);
    const what = fault(one);
    if (typeof what === "object") {
      response.writeHead(what.status, what.headers);
      return response.end(typeof what.body === "object" ? JSON.stringify(what.body) : (what.body as string | undefined));
    }
    if (what === "cut-before") return response.destroy();
    const passed = http.request(
      server + request.url,
      { method: request.method, headers: request.headers, agent: false },
      async (answer) => {
        const parts: Buffer[] = [];
        for await (const part of answer) parts.push(part as Buffer);
        if (what === "cut-after") return response.destroy();
        const { connection: _, "transfer-encoding": __, ...headers } = answer.headers;
        response.writeHead(answer.statusCode!, headers).end(Buffer.concat(parts));
      },
    );
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    passed.end(body);
  });
  return { address, seen };
}

/** A server on loopback that ends with the tests. */
export async function listen(
  handle: (request: http.IncomingMessage, body: Buffer, response: http.ServerResponse) => unknown,
): Promise<string> {
  const server = http.createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    handle(request, Buffer.concat(parts), response);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  ends.push(() => (server.closeAllConnections(), server.close()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An address where nothing listens. */
export async function closed(): Promise<string> {
  const server = http.createServer();
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return `http://127.0.0.1:${port}`;
}
