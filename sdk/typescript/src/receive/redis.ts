// Redis through ioredis. It keeps claims, and no dead letters.
import { lua } from "./lua.js";
import { sha1 } from "./secrets.js";
import type { Bid, Claim, State, Store } from "./store.js";

/** A client, as ioredis has it. */
export interface RedisClient {
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  evalsha(sha1: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
}

const fields = ["state", "owner", "generation", "lease_until", "body_hash", "outcome", "deliveries"];
const nameOf = (source: string, key: string) => `webhook:{${source}}:${key}`;

function claimOf([state, owner, generation, leaseUntil, bodyHash, outcome, deliveries]: (string | null)[]): Claim | undefined {
  if (!state) return undefined;
  const numbers = { generation: Number(generation), leaseUntil: Number(leaseUntil), deliveries: Number(deliveries) };
  return { state: state as State, owner: owner!, bodyHash: bodyHash!, outcome: outcome ?? "", ...numbers };
}

/**
 * The store in a Redis, for the mode claim. A failover that loses a write can forget a claim; where that must not be, use the mode
 * transaction with PostgreSQL or SQLite.
 */
export class RedisStore implements Store {
  constructor(private readonly redis: RedisClient) {}

  async setup(): Promise<void> {}

  private async run(name: "claim" | "settle" | "renew", b: Bid, ...args: (string | number)[]): Promise<unknown> {
    const key = nameOf(b.source, b.key);
    const script = lua[name]!;
    try {
      return await this.redis.evalsha(sha1(script), 1, key, ...args);
    } catch (e) {
      if (!String((e as Error).message).startsWith("NOSCRIPT")) throw e;
      return this.redis.eval(script, 1, key, ...args);
    }
  }

  async claim(b: Bid): Promise<Claim | undefined> {
    const row = (await this.run("claim", b, b.owner, b.bodyHash, b.now, b.leaseUntil, b.keepUntil, b.replay ? "1" : "0")) as string[];
    return claimOf(row);
  }

  async look(source: string, key: string): Promise<Claim | undefined> {
    return claimOf(await this.redis.hmget(nameOf(source, key), ...fields));
  }

  async finish(b: Bid, state: State, outcome: string, now: number): Promise<boolean> {
    return (await this.run("settle", b, b.owner, state, outcome, now)) === 1;
  }

  async renew(b: Bid, now: number, leaseUntil: number): Promise<boolean> {
    return (await this.run("renew", b, b.owner, now, leaseUntil)) === 1;
  }

  /** Redis deletes by itself what is no longer retained. */
  async clean(): Promise<number> {
    return 0;
  }
}

export const redisStore = (redis: RedisClient) => new RedisStore(redis);
