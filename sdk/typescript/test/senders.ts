// A sender for tests of stores, and receivers of its webhooks.
import { createHmac } from "node:crypto";
import { createReceiver, type Delivery, type Hooks, type Options, type Queryable, type Receiver } from "grapnel/receive";
import type { World } from "./worlds.js";

export const secret = "whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh";

/** A signed request. */
export function signed(id: string, body: unknown = { type: "invoice.paid" }, now = Date.now()): Request {
  const [text, stamp] = [JSON.stringify(body), String(Math.floor(now / 1000))];
  const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`${id}.${stamp}.${text}`).digest("base64");
  const headers = { "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": `v1,${mac}`, "content-type": "application/json" };
  return new Request("http://localhost/hooks", { method: "POST", body: text, headers: { ...headers, authorization: "Bearer hidden" } });
}

/** The number of sources so far: each receiver has one of its own, so that tests share a store. */
export let sources = 0;
export const newSource = () => `source-${++sources}`;

export function receiver(world: World, more: Partial<Options<World["store"]>> = {}): Receiver<World["store"]> {
  const source = { name: newSource(), secrets: [secret], ...more.source };
  return createReceiver({ store: world.store, log: () => {}, ...more, source });
}

export const send = async (hooks: Hooks, id: string, body?: unknown, now?: number) => {
  const response = await hooks(signed(id, body, now));
  return `${response.status} ${((await response.json()) as { outcome: string }).outcome}`;
};
export const ledger = (world: World, event: string) =>
  world.effects(async (tx) => (await tx.query("select event from ledger where event = $1", [event])).rows.length);
export const pay = (tx: Queryable, d: Delivery, key: string | null = null) =>
  tx.query("insert into ledger(event, source, invoice, amount, idempotency_key) values ($1, $2, 'i', '1', $3)", [d.id, d.source, key]);
export const deferred = () => {
  let resolve!: () => void;
  const promise = new Promise<void>((r) => (resolve = r));
  return { promise, resolve };
};
