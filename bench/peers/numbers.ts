/** @module The data file as lists of numbers, for peers in Node that are not Heddle. */
import { readFileSync } from "node:fs";
import type { ParameterShape } from "../kinds/index.ts";
import type { Spec } from "./link.ts";

type Named<Numbers> = readonly [name: string, shape: readonly number[], values: Numbers];

/** Parameters, inputs that are floats, and those that are integers, such as labels. */
export function readNumbers(spec: Pick<Spec, "data" | "parameters" | "inputs" | "integers">): {
  parameters: Named<Float32Array>[];
  inputs: Named<Float32Array>[];
  integers: Named<Int32Array>[];
} {
  const { buffer } = Uint8Array.from(readFileSync(spec.data));
  let offset = 0;
  const take = ([, shape]: ParameterShape): [number, number] => {
    const length = shape.reduce((product, size) => product * size, 1);
    offset += 4 * length;
    return [offset - 4 * length, length];
  };
  const floats = (part: ParameterShape): Named<Float32Array> => [...part, new Float32Array(buffer, ...take(part))];
  return {
    parameters: spec.parameters.map(floats),
    inputs: spec.inputs.map(floats),
    integers: spec.integers.map((part) => [...part, new Int32Array(buffer, ...take(part))]),
  };
}
