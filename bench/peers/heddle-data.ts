/** @module What all kinds of Heddle's peer share: the data file as tensors, and timing. */
import { closeSync, openSync, readSync } from "node:fs";
import type { connect, Tensor } from "heddle";
import type { ParameterShape } from "../kinds/index.ts";
import type { Spec } from "./link.ts";

export type Runtime = Awaited<ReturnType<typeof connect>>;

/** Parameters: tensors by the parts of their names. */
export interface Tree {
  readonly [name: string]: Tensor | Tree;
}

/** Makes a tensor of the data file's numbers. */
export type Place = (values: Float32Array | Int32Array, shape: readonly number[], name: string) => Tensor;

/** Numbers on their way into tensors, which copy them: a process reads its file more than once, and a table may be large. */
let scratch = new ArrayBuffer(0);

/** The data file, cut into tensors: `whole` places parameters, `split` what a step takes. */
export function readTensors(
  spec: Spec,
  whole: Place,
  split: Place,
): { params: Tree; inputs: Tensor[]; integers: Tensor[] } {
  const file = openSync(spec.data, "r");
  const floats = (
    [name, shape]: ParameterShape,
    place: Place,
    Numbers: typeof Float32Array | typeof Int32Array,
  ): Tensor => {
    const length = shape.reduce((product, size) => product * size, 1);
    if (scratch.byteLength < 4 * length) scratch = new ArrayBuffer(4 * length);
    const numbers = new Numbers(scratch, 0, length);
    readSync(file, numbers);
    return place(numbers, shape, name);
  };
  const params: Record<string, unknown> = {};
  for (const parameter of spec.parameters) {
    const path = parameter[0].split(".");
    let parent = params;
    for (const part of path.slice(0, -1)) {
      parent[part] ??= {};
      parent = parent[part] as Record<string, unknown>;
    }
    parent[path.at(-1) as string] = floats(parameter, whole, Float32Array);
  }
  const inputs = spec.inputs.map((input) => floats(input, split, Float32Array));
  const integers = spec.integers.map((input) => floats(input, split, Int32Array));
  closeSync(file);
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
