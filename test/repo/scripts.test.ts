import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test.each([
  { script: "setup.mjs", args: ["--only", "everything"], status: 1, says: 'unknown part "everything"; the parts are' },
  { script: "test.mjs", args: ["--only", "all"], status: 2, says: "use: npm test [-- --only lint|types|" },
  { script: "test.mjs", args: ["test/launch"], status: 2, says: "use: npm test [-- --only lint|types|" },
])("scripts/$script $args is refused", ({ script, args, status, says }) => {
  const result = spawnSync(process.execPath, [`scripts/${script}`, ...args], { cwd: root, encoding: "utf8" });
  expect(result.status).toBe(status);
  expect(result.stderr).toContain(says);
});
