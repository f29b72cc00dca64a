/** Pages that are made of the sources: `vitest run test/repo/made-pages -u` writes them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { pageWith, readRun } from "../../bench/page.ts";
import { kernelTable, rustCalls, rustChecks } from "../../scripts/kernel-calls.ts";
import { samples } from "../../scripts/kernel-samples.ts";
import { seeds } from "../../scripts/kernel-seeds.ts";
import { kernels } from "../../src/kernels/index.ts";
import { errorCodes } from "../../src/util/error-codes.ts";
import { allVariables } from "../../src/util/settings.ts";
import { root } from "./pages.ts";

const table = (head: string, rows: readonly (readonly string[])[]): string =>
  [head, head.replaceAll(/[^|]+/g, " --- "), ...rows.map((row) => `| ${row.join(" | ")} |`)].join("\n");

const errors = `# Error codes

Every error that Heddle throws on purpose is a \`HeddleError\`. Its \`message\` names the op, shapes, dtypes and values, the line of your
file and, as a hint, what to do; \`hint\` and \`where\` are the same by themselves. \`code\` is stable, for programs that go on:

\`\`\`ts
import { HeddleError, tensor } from "heddle";

try {
  tensor([1, 2]).add(tensor([1, 2, 3]));
} catch (error) {
  if (!(error instanceof HeddleError && error.code === "shape")) throw error;
  console.log(error.plain); // add: shapes [2] and [3] …
}
\`\`\`

Its fields hold the parts of the message: \`by\`, the op, function or layer that reports it, and \`said\`, the rest (\`plain\` is both).

An error of a run also has its cause as data: \`fault\`, with a \`kind\` and its fields. The native core, the reference executor
and workers elsewhere give the same fault for the same values; the message is made from it (\`src/util/faults.ts\`).

On a mesh of several devices a message may end with \`(counted on device 1 of 4)\` (\`fault.device\`, \`fault.devices\`): its rows, positions
and matrices are then those of this device's part. \`train\` and its evaluation give rows of the whole batch and of the data where they can.

\`\`\`ts
import { HeddleError, take, tensor } from "heddle";

try {
  await take(tensor([1, 2, 3]), tensor([0, 9], { dtype: "i32" })).data();
} catch (error) {
  if (!(error instanceof HeddleError && error.fault?.kind === "index")) throw error;
  console.log(error.fault.index, error.fault.position, error.fault.size); // 9 1 3
}
\`\`\`

${table(
  "| code | what is wrong |",
  Object.entries(errorCodes).map(([code, says]) => [`\`${code}\``, says]),
)}
`;

const rowsOf = (by: "run" | undefined): string[][] =>
  allVariables.filter((known) => known.by === by).map(({ name, legal, says }) => [`\`${name}\``, legal, says]);

const environment = `# Environment variables

An invalid value is an error that lists the valid values; a misspelt \`HEDDLE_…\` is a warning with the nearest name (\`HEDDLE_ENVIRONMENT\`). \`heddle doctor\` shows the
variables that are set. [Flags](command-line.md) and options of \`train\` win over variables. \`NO_COLOR\` and \`FORCE_COLOR\` are read, too.

${table("| variable | values | |", rowsOf(undefined))}

## Set by Heddle's commands

\`heddle run\`, \`plan\` and \`profile\` set these for the processes that they start.

${table("| variable | values | |", rowsOf("run"))}
`;

test.each([
  ["errors.md", errors],
  ["environment.md", environment],
])("docs/%s says what the sources say", async (page, text) => {
  await expect(text).toMatchFileSnapshot(`../../docs/${page}`);
});

/** The page with what stands between its marks made anew. */
const betweenMarks = (page: string, made: string): string =>
  readFileSync(join(root, page), "utf8").replace(
    /(<!-- kernels: made of src\/kernels -->\n)[\s\S]*(\n<!-- end of kernels -->)/,
    (_all, begin: string, end: string) => `${begin}\n${made}\n${end}`,
  );

test("kernels in the native core and in the docs are those of src/kernels", async () => {
  const page = "docs/internals/lowered-program.md";
  await expect(rustCalls()).toMatchFileSnapshot("../../native/core/src/calls.rs");
  await expect(rustChecks()).toMatchFileSnapshot("../../native/core/src/operands.rs");
  await expect(seeds()).toMatchFileSnapshot("../../native/core/tests/seeds.json");
  await expect(betweenMarks(page, kernelTable())).toMatchFileSnapshot(`../../${page}`);
});

test("the figures in docs/benchmarks.md are those of bench/last-run.json", async () => {
  await expect(pageWith(readRun())).toMatchFileSnapshot("../../docs/benchmarks.md");
});

test("every kernel has a sample, and every optional field of one is in some sample of it", () => {
  // A start and its wait are two calls: the fuzzer itself puts both around others.
  const paired = new Set(["wait", "collective.handle", "send.handle", "receive.handle"]);
  const given = (name: string, field: string) => samples.some((one) => one.k === name && one[field] !== undefined);
  const lacking = [...kernels.values()].flatMap(({ name, fields }) =>
    Object.entries(fields).flatMap(([field, { needed, fallback }]) =>
      needed || fallback !== undefined || given(name, field) ? [] : [`${name}.${field}`],
    ),
  );
  const unseen = [...kernels.keys()].filter((name) => !samples.some((one) => one.k === name));
  expect([...unseen, ...lacking].filter((name) => !paired.has(name))).toEqual([]);
});

test("every code is used", () => {
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith("error-codes.ts"))
    .map((name) => readFileSync(join(root, "src", name), "utf8"))
    .join("");
  expect(Object.keys(errorCodes).filter((code) => !sources.includes(`"${code}"`))).toEqual([]);
});
