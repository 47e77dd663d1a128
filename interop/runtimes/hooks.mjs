// A receiver as the README of the kit has it. Its effect is a row in the store's own database, or, with the store in memory, a line.
import { appendFileSync } from "node:fs";
import { createReceiver, memoryStore, sqliteStore } from "grapnel/receive";

const { STORE, DSN, SECRET } = process.env;
const source = { name: "acme", secrets: [SECRET] };

async function receiver() {
  if (STORE === "memory")
    return createReceiver({ source, store: memoryStore() }).claim((d) => appendFileSync(DSN, `${d.id} ${d.json().amount}\n`));
  const { Database, DatabaseSync } = await import(/* turbopackIgnore: true */ STORE); // bun:sqlite, node:sqlite
  const database = new (Database ?? DatabaseSync)(DSN);
  database.exec("pragma journal_mode = wal");
  database.exec("create table if not exists ledger(event text, amount integer)");
  const store = sqliteStore(database);
  await store.setup();
  return createReceiver({ source, store }).transaction((d, tx) =>
    tx.query("insert into ledger(event, amount) values ($1, $2)", [d.id, d.json().amount]),
  );
}

export const hooks = await receiver();
