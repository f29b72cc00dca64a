/** @module The plan of a training on parameter servers: what lives where, what moves in each clock, and what that costs. */

import { type Policy, policyNamed } from "../consistency/index.ts";
import type { Tensors } from "../functions/index.ts";
import type { TensorType } from "../ir/shape.ts";
import { isTensorType } from "../ir/shape.ts";
import { sgd } from "../optim/index.ts";
import { bytesOfPieces, type Shard, shardsOf } from "../parameter-server/shards.ts";
import type { TableSpec } from "../parameter-server/tables/table-spec.ts";
import { deviceCount, type Machine, type Mesh, machineFor, mesh } from "../plan/index.ts";
import { readEnvironment } from "../util/settings.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { modelTypes } from "./functions.ts";
import type { Settings } from "./options.ts";
import { tablesOf } from "./tables.ts";
import { gradientsOnly } from "./updates.ts";
import type { ModelTypes } from "./values.ts";

/** The mesh of one worker, which computes gradients alone. */
export const workerMesh: Mesh = mesh({ data: 1 });

/** Types of the trained parameters. */
export function trainedTypes({ trained, state }: ModelTypes): Tensors {
  const { leaves, paths, shape } = flattenTree<TensorType>(state.params, isTensorType);
  const parts = leaves.map((type, index) => (trained?.has(paths[index] as string) === false ? {} : type));
  return unflattenTree(shape, parts) as Tensors;
}

/** The shards of a training. */
export function trainingShards(
  { optimizer, dtype }: Settings,
  types: ModelTypes,
  servers: number,
  { tables = [], policy }: { readonly tables?: readonly TableSpec[] | undefined; readonly policy?: Policy } = {},
): Shard[] {
  const params = trainedTypes(types);
  // The servers add what they are sent: the optimizer and its state are the workers'.
  if (policy?.worker.carries === "difference")
    return shardsOf(sgd({ learningRate: 1 }), { params, slots: {}, dtype }, servers);
  return shardsOf(optimizer, { params, slots: types.state.optimizer as Tensors, dtype }, servers, tables);
}

/** The training of one of several workers: its rows of each batch, and gradients in place of the optimizer's state. */
export function workerTraining(whole: Settings, rank: number, world: number) {
  const settings: Settings = {
    ...whole,
    data: whole.data.share(rank, world),
    optimizer: gradientsOnly(whole.optimizer),
    ...(whole.tables === undefined ? {} : { tables: "window" }),
  };
  return { settings, types: modelTypes(settings) };
}

/** Lines about the servers of a run with a worker for each device of a mesh. */
export function serverLines(settings: Settings, types: ModelTypes, devices: Mesh, machine?: Machine): string[] {
  const { servers = ["?"], serve = false, policy } = readEnvironment();
  const workers = deviceCount(devices);
  const count = serve ? workers : servers.length;
  const shards = trainingShards(settings, types, count, {
    policy: policyNamed(settings.server?.policy ?? policy ?? "bsp"),
  });
  const copies = Math.min(2, count);
  const lines = [
    `servers    ${count}${serve ? ", on the workers" : ""}; policy ${settings.server?.policy ?? policy ?? "bsp"}; ` +
      `${workers} worker${workers === 1 ? "" : "s"}${copies === 1 ? "" : `; each shard on ${copies} servers`}`,
  ];
  for (const [index, { params, slots }] of shards.entries()) {
    const names = params.slice(0, 3).map(({ path, start, rows }) => `${path} ${start}:${start + rows}`);
    const more = params.length > 3 ? `, and ${params.length - 3} more` : "";
    lines.push(
      `  server ${index}  parameters ${size(bytesOfPieces(params))}, state ${size(bytesOfPieces(slots))}: ${names.join(", ")}${more}`,
    );
  }
  for (const { path, count: rows, size: width, dtype } of settings.tables === undefined ? [] : tablesOf(settings))
    lines.push(`  table     ${path}: ${dtype}[${rows}, ${width}] by rows, of which those exist that are pushed`);
  const each = shards.map(({ params }) => bytesOfPieces(params));
  const total = each.reduce((sum, bytes) => sum + bytes, 0);
  const { latency, bandwidth } = machineFor(workers + count, machine);
  // A clock of a worker: push, the word of server 0, pull. The fullest server takes pushes of all workers, and passes them to its copies.
  const most = Math.max(...each);
  const seconds = 6 * latency + (2 * total) / bandwidth;
  const server = (workers * most * (2 + copies - 1)) / bandwidth;
  lines.push(
    `  clock     a worker sends ${size(total)} and receives ${size(total)}: ${time(seconds)}; the fullest server moves ${size(workers * most * (2 + copies - 1))} for a clock of all workers: ${time(server)}`,
  );
  return lines;
}

function size(bytes: number): string {
  if (bytes < 1e3) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

const time = (seconds: number): string =>
  seconds < 1 ? `${(1000 * seconds).toFixed(2)} ms` : `${seconds.toFixed(1)} s`;
