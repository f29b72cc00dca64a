/** @module A counted program as files: its lowered text, and the contents of its buffers. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bytesOf, dtypes, sizeOf, type TensorType } from "heddle/ir";
import { lowerProgram } from "heddle/lower";
import { mesh } from "heddle/plan";
import { planFunction } from "heddle/tensor";
import type { CountedProgram } from "./programs.ts";

/** Contents of an input: the same every time, integers below `classes`, floats within 1 of 0. */
function contentsOf({ dtype, shape }: TensorType, classes: number, seed: number): Uint8Array {
  let state = seed * 2654435761 + 1;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const value = dtype === "i32" ? () => Math.floor(classes * next()) : () => 2 * next() - 1;
  const { create, bytesOf: bytes } = dtypes[dtype];
  return bytes(create(Array.from({ length: sizeOf(shape) }, value)));
}

/** Lowers a program for one thread and writes it into a folder; returns the paths of the program and of the contents. */
export function writeLowered(counted: CountedProgram, folder: string): readonly [program: string, contents: string] {
  const { plan, program } = planFunction(counted.fn, counted.inputs as never, mesh({}), { name: counted.name });
  const { text, arguments: buffers } = lowerProgram(program, { slots: 1 });
  const contents = buffers.map(({ input, output }) =>
    input === undefined
      ? new Uint8Array(bytesOf(plan.outputs[output as number]?.type as TensorType))
      : contentsOf(plan.inputs[input]?.type as TensorType, counted.classes ?? 1, input),
  );
  const files = [join(folder, `${counted.name}.json`), join(folder, `${counted.name}.bin`)] as const;
  writeFileSync(files[0], text);
  writeFileSync(files[1], Buffer.concat(contents));
  return files;
}
