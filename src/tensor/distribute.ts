/** @module Between this process's data and values on a mesh. */

import type { TypedArray } from "../ir/dtype.ts";
import { bytesOf, formatType, type TensorType } from "../ir/shape.ts";
import { type Layout, localType, replicated, resolved } from "../plan/index.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { Cache } from "./cache.ts";
import { type Compiled, compileGraph, runCompiled } from "./compile.ts";
import { meshOf } from "./runtime.ts";
import { Tensor } from "./tensor.ts";
import { traceFunction } from "./tracing.ts";
import { distributedValue, onRuntime, type Value } from "./value.ts";

/** Puts host data of a whole value onto a runtime in a layout; every process gives the same data. */
export function distribute(runtime: Runtime, data: TypedArray, type: TensorType, layout: Layout): Tensor {
  return Tensor.ofValue(distributedValue(runtime, type, layout, data));
}

/** Makes a value from what this process's devices hold: one buffer per local device, of the local type's bytes. */
export function fromShards(
  runtime: Runtime,
  shards: readonly DeviceBuffer[],
  type: TensorType,
  layout: Layout,
): Tensor {
  const sized = resolved(type, layout, meshOf(runtime));
  const needed = runtime.local.map(({ coordinates }) => bytesOf(localType(type, sized, meshOf(runtime), coordinates)));
  if (shards.length !== needed.length || shards.some((shard, index) => shard.bytes < (needed[index] as number))) {
    throw new HeddleError("layout", `fromShards: ${formatType(type)} needs buffers of ${needed.join(", ")} bytes`);
  }
  return Tensor.ofValue({ type, runtime, layout: sized, shards });
}

/** The tensor on a runtime of this process: one-device tensors count as replicated. */
export const placeOn = (runtime: Runtime, x: Tensor): Tensor =>
  x.value.runtime === runtime ? x : Tensor.ofValue(onRuntime(x.value, runtime));

const relayouts = new Cache<Compiled>(256);

/** The value in another layout. Communicates; every process of the mesh must call it. */
export function redistribute(x: Tensor, wanted: Layout): Tensor {
  const { value } = x;
  const layout = resolved(value.type, wanted, meshOf(value.runtime));
  const key = JSON.stringify([value.type, value.layout, layout]);
  let compiled = relayouts.get(value.runtime, key);
  if (compiled === undefined) {
    const { graph } = traceFunction("redistribute", [{ name: "x", type: value.type }], (nodes) => nodes);
    compiled = compileGraph(graph, value.runtime, { inputs: [value.layout], outputs: [layout] });
    relayouts.set(value.runtime, key, compiled);
  }
  return Tensor.ofValue(runCompiled(compiled, [value])[0] as Value);
}

/** The whole value on every device. Communicates; every process of the mesh must call it. */
export const replicate = (x: Tensor): Tensor => redistribute(x, replicated(meshOf(x.value.runtime)));
