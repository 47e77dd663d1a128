import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { sqliteStore } from "grapnel/receive";
import { storeSuite } from "./suite.js";
import { open, sqlite } from "./worlds.js";

for (const driver of ["sqlite", "node:sqlite"]) {
  storeSuite(async () => {
    const dir = mkdtempSync(join(tmpdir(), "grapnel-ts-"));
    const world = await open(driver, join(dir, "test.db"));
    const close = async () => {
      await world.close();
      rmSync(dir, { recursive: true });
    };
    return { ...world, close };
  });
}

for (const builtin of [false, true]) {
  test(`an answered commit is on the disk: ${builtin ? "node:sqlite" : "better-sqlite3"}`, async () => {
    const dir = mkdtempSync(join(tmpdir(), "grapnel-sqlite-"));
    for (const [given, want] of [["", 2], ["off", 2], ["extra", 3]] as const) {
      const database = await sqlite(join(dir, `${given}.db`), builtin);
      database.exec("pragma journal_mode = wal");
      if (given) database.exec(`pragma synchronous = ${given}`);
      await sqliteStore(database).setup(); // the first write is the moment at which better-sqlite3 changes its default
      assert.equal(database.prepare("pragma synchronous").get().synchronous, want, given);
      database.close();
    }
    rmSync(dir, { recursive: true });
  });
}
