/** States for the checkpoint tests: every part says its step, so that a mixture of two is noticed. */
import { deepStrictEqual } from "node:assert/strict";
import type { Checkpoint, CheckpointState } from "../../src/checkpoints/index.ts";
import type { HostTensor } from "../../src/io/safetensors.ts";

export function stateOfStep(step: number, size = 6): CheckpointState {
  return {
    step,
    position: { epoch: Math.floor(step / 469), step: step % 469 },
    seed: 17,
    key: [step, 0xffffffff],
    tensors: new Map<string, HostTensor>([
      ["params/linear.weight", { dtype: "f32", shape: [size], data: new Float32Array(size).fill(step) }],
      ["optimizer/linear.weight/momentum", { dtype: "f64", shape: [2, 1], data: Float64Array.of(step, -step) }],
      ["state/count", { dtype: "u32", shape: [], data: Uint32Array.of(step) }],
    ]),
    extra: { data: { name: "mnist train", batchSize: 128, chain: ["shuffle"] }, schedule: null },
  };
}

/** Asserts that all of a checkpoint is of one step. */
export function expectWhole(checkpoint: Checkpoint | undefined, step: number, size = 6): void {
  const { path: _path, library: _library, ...state } = checkpoint as Checkpoint;
  deepStrictEqual(state, stateOfStep(step, size));
}
