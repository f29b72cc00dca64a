/** What lowering says that calls touch is what the native core finds. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadNative, type NativeBinding } from "../../src/executors/native/binding.ts";
import { accessesOf, coveredBytes } from "../../src/kernels/index.ts";
import { type LoweredJson, type LoweredStep, lowerProgram, numberedCalls } from "../../src/lower/index.ts";
import { writeJson } from "../../src/lower/json.ts";
import { workBytes } from "../../src/lower/lower.ts";
import { splitGraph } from "../../src/program/index.ts";
import { lenetStep, mlpStep } from "../lower/graphs.ts";
import { rowGraph, rows } from "../ops/table.ts";
import { dataParallelStep } from "../program/graphs.ts";
import { root } from "../repo/pages.ts";
import { withOpenLoops } from "../support/loops.ts";

const native = loadNative();

/** Each access as the core tells it, in the order of the calls. */
const lowering = (steps: readonly LoweredStep[], axes: readonly number[]): string[] =>
  numberedCalls(steps).flatMap(({ call }) =>
    accessesOf(call, axes).flatMap((access) => {
      const { low, high } = coveredBytes(access);
      return low === high ? [] : [`${access.role} ${access.at[0]} ${low} ${high}`];
    }),
  );

function same(binding: NativeBinding, json: LoweredJson, axes: readonly number[] = [1]): void {
  const text = writeJson(json);
  const found = binding.NativeProgram.accesses(text).flatMap((line) => {
    const [, role, space, low, high] = line.split(" ");
    return low === high ? [] : [`${role} ${space} ${low} ${high}`];
  });
  expect(found.sort()).toEqual(lowering(json.steps, axes).sort());
  expect(new binding.NativeProgram(text).arenaBytes).toBe(workBytes(json.arena, json.steps));
}

const seeds = (
  JSON.parse(readFileSync(join(root, "native/core/tests/seeds.json"), "utf8")) as { step: LoweredStep }[]
).map(({ step }) => step);

describe.skipIf("error" in native)("accesses of lowering and of the native core", () => {
  const binding = native as NativeBinding;

  test.each(seeds.map((step, index) => [`${step.k} ${index}`, step] as const))("seed %s", (_name, step) => {
    const buffers = [4096, 4096, 4096, 4096].map((bytes) => ({ bytes }));
    same(binding, { version: 1, name: "seed", arena: 256 << 10, buffers, steps: [step] });
  });

  test.each(rows.map((row) => [row.op, row.title, row] as const))("%s, %s", (_op, _title, row) => {
    same(binding, lowerProgram(splitGraph(withOpenLoops(rowGraph(row)), [], {}), { slots: 2 }).json);
  });

  test.each([
    ["mlp", mlpStep().graph, []],
    ["lenet", lenetStep().graph, []],
    ["data parallel", dataParallelStep(2, 64, 32, 4), [{ name: "data", size: 4 }]],
  ] as const)("%s", (_name, graph, axes) => {
    const program = splitGraph(graph, axes);
    same(
      binding,
      lowerProgram(program, { slots: 2, overlap: "all" }).json,
      axes.map(({ size }) => size),
    );
  });
});
