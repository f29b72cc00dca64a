/** How many structural primitives there are, and the list of them in the documentation. */
import { expect, it } from "vitest";
import { isAbsent, type OpDef } from "../../src/ir/node.ts";
import { allOps } from "../../src/ir/op.ts";
import { scalarNames } from "../../src/ops/index.ts";

const scalars: readonly string[] = [...Object.values(scalarNames).flat(), "isFinite"];

/** A graph's own bookkeeping, and what the planner and the runtime put into programs: users write none of them. */
const placed = ["parameter", "element", "axisIndex", "gatherPart", "scatterAddPart", "send", "receive"];
const isStructural = (op: OpDef): boolean =>
  isAbsent(op.body) && isAbsent(op.communication) && !scalars.includes(op.name) && !placed.includes(op.name);

const primitives = allOps()
  .filter(isStructural)
  .sort((a, b) => (a.name < b.name ? -1 : 1));

it("there are at most 50 structural primitives", () => {
  expect(primitives.length).toBeLessThanOrEqual(50);
});

it("docs/primitives.md lists them", async () => {
  const rows = primitives.map(({ name, doc }) => `| \`${name}\` | ${doc.replaceAll("|", "\\|")} |`);
  const text = `# The structural primitives

Every graph is made of these, of the scalar functions of one table (\`src/ops/scalar.ts\`), and of composites, which have a
body made of them. The meaning is that of [StableHLO](stablehlo.md) where it has the op, and so is the name, in camel case,
but for \`bitcast\` (\`bitcast_convert\`), \`broadcast\` (\`broadcast_in_dim\`), \`cast\` (\`convert\`), \`concat\` (\`concatenate\`),
\`cond\` (\`if\`), \`conv\` (\`convolution\`), \`dot\` (\`dot_general\`) and \`scatterAdd\` (\`scatter\` into zeros, with a sum). These are ${rows.length}; a
test counts them, and there are never more than 50. What the planner puts into programs (collectives, sends, parts of tables)
is not among them, since users do not write these ops. \`npx vitest run test/ops/primitives -u\` writes this file anew.

| primitive | what it does |
| --- | --- |
${rows.join("\n")}
`;
  await expect(text).toMatchFileSnapshot("../../docs/primitives.md");
});
