// The tests of this kit leave out nothing that all kits have in common.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { lua } from "../dist/receive/lua.js";

const shared = new URL("../../conformance/", import.meta.url);
const names = (folder: string, end: string) => readdirSync(new URL(folder, shared)).filter((name) => name.endsWith(end));

test("every file of cases is run: a new one fails this test until a test names it", () => {
  const here = new URL("./", import.meta.url);
  const tests = readdirSync(here).filter((name) => name.endsWith(".js"));
  const sources = tests.map((name) => readFileSync(new URL(name, here), "utf8")).join();
  assert.deepEqual(names(".", ".json").filter((name) => !sources.includes(`"${name}"`)), []);
  assert.deepEqual(readdirSync(shared).filter((name) => !name.endsWith(".json")).sort(), ["README.md", "redis"]);
});

test("the scripts of Redis are those of all kits", () => {
  const scripts = names("redis", ".lua").map((name) => [name.slice(0, -4), readFileSync(new URL(`redis/${name}`, shared), "utf8")]);
  assert.deepEqual(lua, Object.fromEntries(scripts));
});
