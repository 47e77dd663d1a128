import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { storeSuite } from "./suite.js";
import { open } from "./worlds.js";

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
