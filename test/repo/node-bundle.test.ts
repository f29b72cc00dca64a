/** The bundle for Node against the modules that it is made of. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, { "node-addons": string; default: string } | string>;
};

/** Prints what a module exports, at any depth: each path with its type, and the name of a function. */
const describe = `
const lines = [];
const visit = (value, path, above) => {
  lines.push(path + ": " + (typeof value === "function" ? "function " + value.name : typeof value));
  if (typeof value !== "object" || value === null || Array.isArray(value) || above.includes(value)) return;
  for (const key of Object.keys(value)) visit(value[key], path + "." + key, [...above, value]);
};
for (const file of process.argv.slice(1)) visit(await import(file), "", []);
console.log(lines.join("\\n"));
`;

const describeFiles = (files: readonly string[]): string => {
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", describe, "--", ...files], {
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  expect(stderr).toBe("");
  return stdout;
};

test.skipIf(!existsSync(join(root, "dist/.stamp")))("exports the same under the same names as the modules", () => {
  const entries = Object.values(manifest.exports).filter((conditions) => typeof conditions !== "string");
  const [bundled, single] = (["node-addons", "default"] as const).map((condition) =>
    describeFiles(entries.map((conditions) => join(root, conditions[condition]))),
  ) as [string, string];
  expect(bundled.length).toBeGreaterThan(10_000);
  expect(bundled).toBe(single);
});
