/**
 * @module What a checkpoint in parts costs a training, for `bench/checkpoints.ts`: each process holds a part of every value. Run by
 * `heddle run`; the argument is the file of the measurement.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Tensor } from "heddle";
import type { Layout } from "heddle/plan";
import type { RunState } from "../../src/train/state.ts";
import type { ModelTypes, TrainState } from "../../src/train/values.ts";
import type { Measurement, SaveTimes } from "../checkpoints.ts";
import type { ParameterShape } from "../kinds/index.ts";

/** A module of the built library, of the copy that has all modules: the saver has no entry in the other one. */
const built = (name: string): Promise<unknown> => import(new URL(`../../dist/${name}.js`, import.meta.url).href);
const { connect, distribute } = (await built("index")) as typeof import("heddle");
const { replicated, shardedOn } = (await built("plan/index")) as typeof import("heddle/plan");
const { openCheckpoint } = (await built("checkpoints/index")) as typeof import("heddle/checkpoints");
const { makeSaver } = (await built("train/saver")) as typeof import("../../src/train/saver.ts");
const { beginning, disposeState, importState } = (await built(
  "train/state",
)) as typeof import("../../src/train/state.ts");
const { folder, saves, states } = JSON.parse(readFileSync(process.argv[2] as string, "utf8")) as Measurement;
const runtime = await connect();
const { axes, rank } = runtime;
const split: Layout = shardedOn({ axes }, { data: 0 });
const barrier = async (): Promise<void> => void (await runtime.processes?.allGather(new Uint8Array(1), "barrier"));

/** Parameters and both moments, each divided over the processes. */
function stateOf(parameters: readonly ParameterShape[]): RunState {
  const values = (scale: number): Record<string, Tensor> =>
    Object.fromEntries(
      parameters.map(([path, shape]) => {
        const numbers = new Float32Array(shape.reduce((product, size) => product * size, 1));
        for (let index = 0; index < numbers.length; index++) numbers[index] = scale * ((index * 40_503) % 997);
        return [path, distribute(runtime, numbers, { shape, dtype: "f32" }, split)];
      }),
    );
  const tensors = { params: values(1), optimizer: { first: values(2), second: values(3) }, state: {} };
  const key = distribute(runtime, new Uint32Array([1, 2]), { shape: [2], dtype: "u32" }, replicated({ axes }));
  return {
    values: tensors as unknown as TrainState,
    key,
    position: beginning({ initialEpoch: 0 } as Parameters<typeof beginning>[0]),
  };
}

/** Saves and loads a state some times. */
async function measured(parameters: readonly ParameterShape[], directory: string): Promise<SaveTimes> {
  const state = stateOf(parameters);
  const group = Object.fromEntries(parameters.map(([path, shape]) => [path, { dtype: "f32", shape }]));
  const tensors = { params: group, optimizer: { first: group, second: group }, state: {} };
  const types = { state: tensors } as unknown as ModelTypes;
  const settings = {
    checkpoint: { directory, every: 1, keep: Infinity, format: "parts" },
    data: { describe: () => ({}), batchesPerEpoch: 1 },
    optimizer: { name: "adamW" },
    seed: 0,
  } as unknown as Parameters<typeof importState>[1];
  const given = { settings, runtime, names: [], metrics: [], whole: false, resumedFrom: undefined, continues: true };
  const saver = makeSaver({ ...given, tag: "bench0", lock: undefined, warn: console.error });
  if (saver === undefined) throw new Error("no saver");
  const times: SaveTimes = { stall: [], save: [], load: [] };
  // The first one warms up.
  for (let turn = 0; turn <= saves; turn++) {
    state.position.steps = turn + 1;
    await barrier();
    const started = performance.now();
    await saver.save("step", state);
    const stalled = performance.now();
    await saver.finished();
    const saved = performance.now();
    const path = saver.path as string;
    const open = await openCheckpoint(path);
    const loaded = await importState(open, settings, types, runtime, { kept: () => split } as never);
    await barrier();
    const ended = performance.now();
    await open.close();
    disposeState(loaded.values);
    loaded.key.dispose();
    if (rank === 0) rmSync(path, { recursive: true });
    if (turn === 0) continue;
    times.stall.push(stalled - started);
    times.save.push(saved - started);
    times.load.push(ended - saved);
  }
  disposeState(state.values);
  return times;
}

const found: Record<string, SaveTimes> = {};
for (const [name, parameters] of Object.entries(states)) found[name] = await measured(parameters, join(folder, name));
if (rank === 0) writeFileSync(join(folder, "times.json"), JSON.stringify({ states: found }));
process.exit(0);
