/** What is made of the table of functions: the spellings over nodes and over tensors. `npx vitest run test/ops/spelled -u` writes them anew. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import "../../src/hlo/index.ts";
import { spellings } from "../../src/adapters/onnx/export-ops.ts";
import { stablehloRules } from "../../src/hlo/rules.ts";
import { isAbsent } from "../../src/ir/node.ts";
import { opNamed } from "../../src/ir/op.ts";
import { type FunctionRow, functionTable } from "../../src/ops/function-table.ts";

/** Words in lines of a docstring. */
function wrapped(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < 117) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function docstring({ doc, throws }: FunctionRow): string {
  const lines = [...wrapped(doc), ...(throws === undefined ? [] : ["", ...wrapped(`@throws HeddleError ${throws}`)])];
  if (lines.length === 1) return `/** ${lines[0]} */`;
  return ["/**", ...lines.map((line) => ` * ${line}`.trimEnd()), " */"].join("\n");
}

const origin = "made of src/ops/function-table.ts by `npx vitest run test/ops/spelled -u`";
function ofNodes(row: FunctionRow): string {
  if (isAbsent(row.op)) return "";
  return `${docstring(row)}\nexport const ${row.nodes} = ${row.kind === "unary" ? "unary" : "binary"}("${row.op}");\n`;
}

function ofTensors(row: FunctionRow): string {
  if (isAbsent(row.function)) return "";
  const name = row.function;
  const type = row.kind === "unary" ? "Unary" : "Binary";
  const nodes = row.kind === "comparison" ? "" : `, ops.${row.nodes}`;
  return `${docstring(row)}\nexport const ${name}: ${type} = ${row.kind}("${name}"${nodes});\n`;
}

test("functions over nodes", async () => {
  const text = `/** @module The elementwise functions over nodes: ${origin}. */
import { binary, unary } from "./spelling.ts";

${functionTable.map(ofNodes).join("")}`;
  await expect(text).toMatchFileSnapshot("../../src/ops/spelled.ts");
});

test("functions over tensors, which are methods too", async () => {
  const text = `/** @module The elementwise functions over tensors: ${origin}. */
import * as ops from "../../ops/index.ts";
import { type Binary, binary, comparison, type Unary, unary } from "../spelling.ts";

${functionTable.map(ofTensors).join("")}`;
  await expect(text).toMatchFileSnapshot("../../src/functions/methods/elementwise.ts");
});

/** A row of the table in docs/library.md. */
function ofPage({ function: name, doc, throws }: FunctionRow): string {
  if (isAbsent(name)) return "";
  const text = [doc, ...(throws === undefined ? [] : [`Throws ${throws}`])].join(" ");
  return `| \`${name}\` | ${text.replaceAll(/\{@link (\w+)\}/g, "`$1`").replaceAll("|", "\\|")} |\n`;
}

test("the table of elementwise functions in docs/library.md", async () => {
  const page = readFileSync(new URL("../../docs/library.md", import.meta.url), "utf8");
  const [begin, end] = ["<!-- functions: made of src/ops/function-table.ts -->", "<!-- end of functions -->"];
  const [before = "", after = ""] = [page.split(begin)[0], page.split(end)[1]];
  const table = `| function | |\n| --- | --- |\n${functionTable.map(ofPage).join("")}`;
  await expect(`${before}${begin}\n\n${table}\n${end}${after}`).toMatchFileSnapshot("../../docs/library.md");
});

/** What ONNX has no operator for, and nothing composed of some. */
const notInOnnx: { readonly [op: string]: string } = {
  erfInv: "no inverse of Erf",
  lgamma: "no gamma function",
  digamma: "no gamma function",
  polygamma: "no gamma function",
  popcount: "does not count bits",
  countLeadingZeros: "does not count bits",
  atan2: "Atan alone, of one operand",
  shiftRightLogical: "BitShift takes unsigned integers, which shiftRight is for",
  shiftRightArithmetic: "BitShift takes unsigned integers, which shiftRight is for",
};

test("every row has its spelling in StableHLO, in ONNX or the reason why not, and its name among those from PyTorch", () => {
  const page = readFileSync(new URL("../../docs/from-pytorch.md", import.meta.url), "utf8");
  // A body is spelled by its own ops.
  const ops = functionTable.flatMap(({ op }) => (isAbsent(op) || !isAbsent(opNamed(op).body) ? [] : op));
  expect(ops.filter((op) => isAbsent(stablehloRules.ruleOf(opNamed(op))))).toEqual([]);
  expect(ops.filter((op) => !(op in spellings)).sort()).toEqual(Object.keys(notInOnnx).sort());
  const names = functionTable.flatMap((row) => (isAbsent(row.function) ? [] : row.function));
  expect(names.filter((name) => !page.includes(`\`x.${name}\``))).toEqual([]);
});
