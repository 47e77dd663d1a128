// Builds dist (the package) and dist-test (its tests). The Lua scripts that all kits share become a module first.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

process.chdir(import.meta.dirname);
const shared = "../conformance/redis";
const scripts = (existsSync(shared) ? readdirSync(shared) : []).filter((f) => f.endsWith(".lua")).sort();
const entries = scripts.map((f) => `  ${JSON.stringify(f.slice(0, -4))}: ${JSON.stringify(readFileSync(`${shared}/${f}`, "utf8"))},\n`);
writeFileSync("src/receive/lua.ts", `// Written by build.mjs.\nexport const lua: Record<string, string> = {\n${entries.join("")}};\n`);

rmSync("dist", { recursive: true, force: true });
rmSync("dist-test", { recursive: true, force: true });
for (const project of ["tsconfig.json", "test/tsconfig.json"])
  execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", project], { stdio: "inherit" });
