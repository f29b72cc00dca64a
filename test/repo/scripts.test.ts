import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test.each([
  { script: "setup.mjs", args: ["--only", "everything"], status: 1, says: 'unknown part "everything"; the parts are' },
  { script: "test.mjs", args: ["--only", "all"], status: 2, says: "use: npm test [-- --only lint|types|" },
  { script: "test.mjs", args: ["test/launch"], status: 2, says: "use: npm test [-- --only lint|types|" },
  { script: "pack.mjs", args: [], status: 1, says: "use: node scripts/pack.mjs --out <folder> [--check]" },
])("scripts/$script $args is refused", ({ script, args, status, says }) => {
  const result = spawnSync(process.execPath, [`scripts/${script}`, ...args], { cwd: root, encoding: "utf8" });
  expect(result.status).toBe(status);
  expect(result.stderr).toContain(says);
});

test("packing asks for a build where dist is not that of the sources", () => {
  const clone = mkdtempSync(join(tmpdir(), "heddle-unbuilt-"));
  for (const name of ["scripts", "native/targets.mjs", "src", "package.json", "tsconfig.json", "tsconfig.build.json"]) {
    cpSync(join(root, name), join(clone, name), { recursive: true });
  }
  const result = spawnSync(process.execPath, ["scripts/pack.mjs", "--out", clone], { cwd: clone, encoding: "utf8" });
  rmSync(clone, { recursive: true });
  expect(result.stderr).toBe("heddle pack: dist is missing, or older than src: build first (npm run build)\n");
  expect(result.status).toBe(1);
});
