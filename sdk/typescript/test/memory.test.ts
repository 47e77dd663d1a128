import assert from "node:assert/strict";
import { test } from "node:test";
import { createReceiver, memoryStore } from "grapnel/receive";
import { storeSuite } from "./suite.js";

const none = async () => Promise.reject(new Error("no database"));
storeSuite(async () => ({ store: memoryStore({ test: true }) as never, effects: none, close: async () => {} }), { transactions: false });

test("a store in memory says so, but not in tests", () => {
  const said: string[] = [];
  const source = { name: "acme", secrets: ["whsec_YS1zZWNyZXQtb2YtdHdlbnR5LWZvdXIh"] };
  const make = (test: boolean) => createReceiver({ source, store: memoryStore({ test }), log: (message) => said.push(message) });
  make(true);
  assert.deepEqual(said, []);
  make(false);
  assert.match(said.join("\n"), /^keys are in memory; a restart forgets them/);
});
