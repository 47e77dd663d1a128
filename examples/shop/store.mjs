// What both shops in JavaScript share: the database, the charge, and a probe for tests.
import { DatabaseSync } from "node:sqlite";

import { createReceiver, permanent, sqliteStore } from "grapnel/receive";

const database = () => new DatabaseSync(process.env.DSN);

// The store has a connection of its own: statements on it are part of the handler's transaction.
const store = sqliteStore(database());
const db = database();
db.exec("pragma journal_mode = wal");
db.exec("create table if not exists charge(event text, invoice text, amount text)");
await store.setup();

const receiver = createReceiver({ source: { name: "shop", secrets: [process.env.SECRET] }, store });

/** One row for each event: it commits together with the event's key, or not at all. */
export const charge = receiver.transaction(async (delivery, tx) => {
  const event = delivery.json({ numbers: (text) => text }); // digits beyond 2^53 stay
  if (typeof event?.data?.invoice !== "string") throw permanent("the event has no invoice");
  await tx.query("insert into charge values($1, $2, $3)", [delivery.id, event.data.invoice, String(event.data.amount)]);
});

/** For tests: the charges of an event or an invoice. */
export function probe(url) {
  const q = new URL(url, "http://shop").searchParams;
  const found = db.prepare("select count(*) effects, coalesce(max(amount), '') amount from charge where event = ? or invoice = ?");
  return found.get(q.get("event") ?? "", q.get("key") ?? "");
}
