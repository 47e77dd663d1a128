// A PostgreSQL and a Redis for tests: each in a directory of its own, reached through a socket there, and ended with this process.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Server {
  url: string;
  stop(): Promise<void>;
}

/** Runs a server until its own input ends, which it does with this process; then removes the directory. Jobs of a shell ignore QUIT. */
const guard = `dir=$1; shift; "$@" >"$dir/log" 2>&1 & server=$!; read -r _; kill -TERM $server; wait $server; rm -rf "$dir"`;

type Identity = { uid?: number; gid?: number };

async function run(dir: string, command: string[], identity: Identity, ready: () => Promise<unknown>): Promise<() => Promise<void>> {
  const child = spawn("/bin/sh", ["-c", guard, "guard", dir, ...command], { ...identity, stdio: ["pipe", "ignore", "inherit"] });
  const ended = once(child, "exit");
  const stop = async () => {
    child.stdin!.end();
    await ended;
  };
  const until = performance.now() + 20_000;
  for (;;) {
    try {
      await ready();
      return stop;
    } catch (e) {
      if (child.exitCode !== null || performance.now() > until) {
        await stop();
        throw new Error(`${command[0]} does not start`, { cause: e });
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** PostgreSQL refuses to run as root: then it runs as the user postgres, or else nobody. */
function unprivileged(): Identity {
  if (process.getuid!() !== 0) return {};
  const id = (flag: string) => {
    try {
      return Number(execFileSync("id", [flag, "postgres"], { stdio: ["ignore", "pipe", "ignore"] }));
    } catch {
      return Number(execFileSync("id", [flag, "nobody"]));
    }
  };
  return { uid: id("-u"), gid: id("-g") };
}

const place = () => mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "grapnel-ts-"));

export async function postgres(): Promise<Server> {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const bin = versions.length > 0 ? join(debian, versions[0]!, "bin/") : "";
  const [dir, identity] = [place(), unprivileged()];
  if (identity.uid !== undefined) chownSync(dir, identity.uid, identity.gid!);
  const data = join(dir, "data");
  const options = [`--pgdata=${data}`, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
  execFileSync(`${bin}initdb`, options, { ...identity, cwd: dir, stdio: "ignore" });
  const settings = { listen_addresses: "", unix_socket_directories: dir, max_connections: "100", dynamic_shared_memory_type: "mmap" };
  const command = [`${bin}postgres`, "-D", data, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
  const { default: pg } = await import("pg");
  const url = `postgres://postgres@/postgres?host=${dir}`;
  const ready = async () => {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    await client.end();
  };
  return { url, stop: await run(dir, command, identity, ready) };
}

export async function redis(): Promise<Server> {
  const dir = place();
  const path = join(dir, "redis.sock");
  const { Redis } = await import("ioredis");
  const ready = async () => {
    const client = new Redis({ path, lazyConnect: true, retryStrategy: () => null });
    client.on("error", () => {});
    await client.connect();
    await client.quit();
  };
  return { url: path, stop: await run(dir, ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", dir], {}, ready) };
}
