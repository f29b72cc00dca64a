import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { Tensor } from "../../src/functions/index.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | { "heddle-source": string }>;
};
const modules = Object.entries(exports).flatMap(([name, to]) =>
  typeof to === "string" ? [] : [{ name: join("heddle", name), file: join(root, to["heddle-source"]) }],
);

// A name that appears or goes here is a change of what users have: look at the difference, then `vitest run -u`.
test("public names", async () => {
  const lines: string[] = [];
  for (const { name, file } of modules) {
    const names = Object.keys((await import(pathToFileURL(file).href)) as object).sort();
    lines.push(name, ...names.map((one) => `  ${one}`), "");
  }
  const methods = Object.getOwnPropertyNames(Tensor.prototype).sort();
  lines.push("methods of tensors", ...methods.map((name) => `  ${name}`), "");
  await expect(lines.join("\n")).toMatchFileSnapshot("./public-names.txt");
});
