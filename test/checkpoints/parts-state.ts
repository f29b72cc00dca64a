/** Checkpoints in parts for tests: every part says its step, so that a mixture of two is noticed. */
import { deepStrictEqual } from "node:assert/strict";
import type { OpenCheckpoint } from "../../src/checkpoints/index.ts";
import { commitParts, type PartsPlace, type PieceData, writePart } from "../../src/checkpoints/parts.ts";
import { piecesOf, sharedRuns, wholeBox } from "../../src/checkpoints/pieces.ts";
import type { Storage } from "../../src/checkpoints/storage.ts";
import { checkpointFolderName } from "../../src/io/checkpoint-name.ts";
import { type DType, dtypes } from "../../src/ir/dtype.ts";
import { sizeOf } from "../../src/ir/shape.ts";
import { mesh, parseLayout } from "../../src/plan/index.ts";

/** The tensors, with their layouts on two devices. */
const tensors: readonly [name: string, dtype: DType, shape: number[], layout: string][] = [
  ["params/body.weight", "f32", [6, 8], "S(0)"],
  ["params/head.weight", "bf16", [4, 6], "S(1)"],
  ["params/bias", "f32", [5], "R"],
  ["optimizer/momentum", "f64", [7], "S(0:4+3)"],
  ["state/count", "i64", [], "R"],
  ["state/flag", "bool", [3], "R"],
];

/** The bytes of a tensor at a step. */
function bytesOf(name: string, dtype: DType, shape: readonly number[], step: number): Uint8Array {
  const bytes = new Uint8Array(sizeOf(shape) * dtypes[dtype].bytes);
  for (let at = 0; at < bytes.length; at++)
    bytes[at] = dtype === "bool" ? at % 2 : (step * 7 + at * 3 + name.length) % 256;
  return bytes;
}

export const describe = (step: number) => ({
  library: "0.0.0",
  step,
  position: { epoch: 1, step: 2 },
  seed: 17,
  key: [step, 0xffffffff],
  extra: { data: { name: "mnist train" }, schedule: null },
});

/** What each of two ranks writes at a step. */
export function piecesOfStep(step: number, size = 1): PieceData[][] {
  const sized = tensors.map(([name, dtype, [first, ...rest], layout]) => ({
    name,
    type: {
      dtype,
      shape:
        first === undefined || layout.includes("+")
          ? [...(first === undefined ? [] : [first]), ...rest]
          : [first * size, ...rest],
    },
    layout: parseLayout(layout),
  }));
  const ranks: PieceData[][] = [[], []];
  for (const { name, type, start, shape, rank } of piecesOf(sized, mesh({ data: 2 }))) {
    const whole = bytesOf(name, type.dtype, type.shape, step);
    const width = dtypes[type.dtype].bytes;
    const bytes = new Uint8Array(sizeOf(shape) * width);
    for (const run of sharedRuns(wholeBox(type.shape), { start, shape }, width))
      bytes.set(whole.subarray(run.from, run.from + run.bytes), run.to);
    (ranks[rank] as PieceData[]).push({ name, type, start, shape, bytes });
  }
  return ranks;
}

export const placeOf = (storage: Storage, step: number, tag = `t${step}`): PartsPlace => ({
  storage,
  folder: checkpointFolderName(step),
  tag,
  ranks: 2,
});

/** Writes the checkpoint of a step as two ranks do. */
export async function saveParts(storage: Storage, step: number, tag?: string, size = 1): Promise<void> {
  const place = placeOf(storage, step, tag);
  const failed = new AbortController();
  const parts = piecesOfStep(step, size).map((pieces, rank) => writePart(place, rank, pieces));
  for (const part of parts) part.catch((error: unknown) => failed.abort(error));
  await commitParts(place, describe(step), { signal: failed.signal });
}

/** Asserts that all of a checkpoint is of one step. */
export async function expectParts(checkpoint: OpenCheckpoint, step: number, size = 1): Promise<void> {
  deepStrictEqual(checkpoint.description, describe(step));
  deepStrictEqual([...checkpoint.entries.keys()], tensors.map(([name]) => name).sort());
  await checkpoint.verify();
  for (const [name, { dtype, shape }] of checkpoint.entries)
    deepStrictEqual(await checkpoint.readBytes(name), bytesOf(name, dtype, shape, step), `${name} ${size}`);
}
