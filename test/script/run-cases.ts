// Runs cases by name, one after another, and prints a line of JSON for each as it ends: scripts/test-dml.mjs starts it.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { runScript } from "heddle/script";
import { cases, scriptOf } from "./cases.mjs";

const [library, out, ...names] = process.argv.slice(2) as [string, string, ...string[]];
for (const name of names) {
  const found = cases.find(({ script }) => script === name);
  if (found === undefined) throw new Error(`there is no case ${name}`);
  const folder = join(out, name);
  mkdirSync(folder, { recursive: true });
  let error: string | undefined;
  try {
    runScript(scriptOf(found, folder), "case.dml", { library: [library], print: () => {} });
  } catch (caught) {
    error = (caught as Error).message.split("\n")[0];
  }
  console.log(JSON.stringify({ name, error }));
}
