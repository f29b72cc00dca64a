/** @module What all kinds of Heddle's peer share: the data file as tensors, and timing. */
import { closeSync, openSync, readSync } from "node:fs";
import { type connect, distribute, type Tensor, zeros } from "heddle";
import { replicated } from "heddle/plan";
import { compileFunction, dynamicUpdateSlice } from "heddle/tensor";
import type { ParameterShape } from "../kinds/index.ts";
import type { Spec } from "./link.ts";

export type Runtime = Awaited<ReturnType<typeof connect>>;

/** Parameters: tensors by the parts of their names. */
export interface Tree {
  readonly [name: string]: Tensor | Tree;
}

/** Makes a tensor of the data file's numbers. */
export type Place = (values: Float32Array | Int32Array, shape: readonly number[], name: string) => Tensor;

/** Numbers on their way into tensors, which copy them: a process reads its file more than once. */
let scratch = new ArrayBuffer(0);

/** Larger tensors are filled in place by parts of this size: an array of their numbers would take their memory once more. */
const partBytes = 8e6;

/** The file of the data, of which `read` takes what comes next. */
interface DataFile {
  read(count: number, Numbers: typeof Float32Array | typeof Int32Array): Float32Array | Int32Array;
}

function dataFile(file: number): DataFile {
  return {
    read(count, Numbers) {
      if (scratch.byteLength < 4 * count) scratch = new ArrayBuffer(4 * count);
      const numbers = new Numbers(scratch, 0, count);
      readSync(file, numbers);
      return numbers;
    },
  };
}

/** A table on one device, read by groups of rows. */
function filledTable(file: DataFile, shape: readonly number[], runtime: Runtime): Tensor {
  const [rows, features] = shape as [number, number];
  const whole = replicated({ axes: runtime.axes });
  let table = compileFunction(() => ({ table: zeros([rows, features]) }), [], runtime).run().table;
  for (let from = 0; from < rows; ) {
    const count = Math.min(rows - from, Math.floor(partBytes / (4 * features)));
    const part = distribute(
      runtime,
      file.read(count * features, Float32Array),
      { shape: [count, features], dtype: "f32" },
      whole,
    );
    const start = distribute(runtime, new Int32Array([from]), { shape: [], dtype: "i32" }, whole);
    const put = (into: Tensor, update: Tensor, row: Tensor) => ({ table: dynamicUpdateSlice(into, update, [row, 0]) });
    table = compileFunction(put, [table, part, start], runtime, { donate: [0] }).run(table, part, start).table;
    for (const used of [part, start]) used.dispose();
    from += count;
  }
  return table;
}

/**
 * The data file, cut into tensors: `whole` places parameters, `split` what a step takes.
 *
 * @param runtime that of one device, on which large tables are filled in place
 */
export function readTensors(
  spec: Spec,
  whole: Place,
  split: Place,
  runtime?: Runtime,
): { params: Tree; inputs: Tensor[]; integers: Tensor[] } {
  const descriptor = openSync(spec.data, "r");
  const file = dataFile(descriptor);
  const placed = (
    [name, shape]: ParameterShape,
    place: Place,
    Numbers: typeof Float32Array | typeof Int32Array,
  ): Tensor => {
    const length = shape.reduce((product, size) => product * size, 1);
    if (runtime !== undefined && place === whole && shape.length === 2 && 4 * length > partBytes)
      return filledTable(file, shape, runtime);
    return place(file.read(length, Numbers), shape, name);
  };
  const params: Record<string, unknown> = {};
  for (const parameter of spec.parameters) {
    const path = parameter[0].split(".");
    let parent = params;
    for (const part of path.slice(0, -1)) {
      parent[part] ??= {};
      parent = parent[part] as Record<string, unknown>;
    }
    parent[path.at(-1) as string] = placed(parameter, whole, Float32Array);
  }
  const inputs = spec.inputs.map((input) => placed(input, split, Float32Array));
  const integers = spec.integers.map((input) => placed(input, split, Int32Array));
  closeSync(descriptor);
  return { params: params as Tree, inputs, integers };
}

/** Runs `count` launches with a few queued; the time of each is measured from the end of the previous one. */
export async function timed(count: number, inFlight: number, launch: () => () => number | Promise<number>) {
  const milliseconds: number[] = [];
  const values: number[] = [];
  const waiting: (() => number | Promise<number>)[] = [];
  let lastTime = performance.now();
  const settle = async (): Promise<void> => {
    values.push(await (waiting.shift() as () => Promise<number>)());
    const now = performance.now();
    milliseconds.push(now - lastTime);
    lastTime = now;
  };
  for (let step = 0; step < count; step++) {
    if (waiting.length >= inFlight) await settle();
    waiting.push(launch());
  }
  while (waiting.length > 0) await settle();
  return { milliseconds, losses: [values[0] as number, values.at(-1) as number] };
}
