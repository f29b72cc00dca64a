/**
 * @module A program that runs the table of ops, and the derivatives of its rows, on the native executor of the platform it is
 * started on, and writes what came out: `node results.mjs <file>`. `npm run test:cross` compares the files of platforms.
 */
import { writeFileSync } from "node:fs";
import type { HostTensor } from "../../src/ir/index.ts";
import { instructionSets, missing, nativeEvaluate } from "../native/evaluate.ts";
import { baseRows, type Row, rows } from "../ops/table.ts";
import { type Case, grouped } from "../support/grouped.ts";
import { rowGradient, rowGraph, rowInputs } from "../support/row.ts";

/** What one row gave: each result as dtype and bytes in base 64. */
interface Written {
  readonly name: string;
  readonly results: readonly (readonly [dtype: string, bytes: string])[];
}

const written = ({ dtype, data }: HostTensor): readonly [string, string] => [
  dtype,
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64"),
];

const gives = ({ fails }: Row): boolean => fails === undefined;
const named: readonly (readonly [name: string, one: Case])[] = [
  ...rows
    .filter(gives)
    .map((row) => [`${row.op}: ${row.title}`, { graph: rowGraph(row), inputs: rowInputs(row) }] as const),
  ...baseRows
    .filter((row) => gives(row) && row.gradient !== false)
    .map((row) => [`gradient of ${row.op}: ${row.title}`, rowGradient(row)] as const),
];

if (missing !== undefined) throw new Error(missing);
const file = process.argv[2];
if (file === undefined) throw new Error("use: node results.mjs <file>");
const isa = process.env["HEDDLE_ISA"] ?? (instructionSets()[0] as string);
const { evaluate, close } = nativeEvaluate(isa, 2, true);
const together = grouped(
  evaluate,
  named.map(([, one]) => one),
);
const all: Written[] = [];
for (const [name, { graph, inputs }] of named) {
  all.push({ name, results: (await together.evaluate(graph, inputs)).map(written) });
}
together.check();
close();
writeFileSync(file, JSON.stringify({ version: process.versions.node, isa, all }));
console.log(`${all.length} rows on ${isa}`);
