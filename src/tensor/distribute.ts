/** @module Moves data between this process and values on a mesh. */

import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import { compileSpread } from "../compile/spread.ts";
import { distributedValue, holdsPart, onRuntime, type Value } from "../compile/value.ts";
import type { TypedArray } from "../ir/dtype.ts";
import { bytesOf, formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import { type Layout, localType, replicated, resolved, sameLayout } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { checkDType, checkShape } from "./arguments.ts";
import { Cache } from "./cache.ts";
import { checkTensor, Tensor } from "./tensor.ts";
import { traceFunction } from "./tracing.ts";

/**
 * Puts host data of a whole value onto a runtime in a layout; every process gives the same data.
 *
 * @throws HeddleError `shape` if the data do not fill the shape; `layout` if the layout does not fit it.
 */
export function distribute(runtime: Runtime, data: TypedArray, type: TensorType, layout: Layout): Tensor {
  checkType("distribute", type);
  if (data?.length !== sizeOf(type.shape))
    throw new HeddleError(
      "shape",
      `distribute: ${data?.length ?? shown(data)} numbers do not fill ${formatType(type)}`,
    );
  return Tensor.ofValue(distributedValue(runtime, type, layout, data));
}

/**
 * Makes a value from the parts on this process's devices: one buffer per local device, with the bytes of the local type; empty on
 * devices of other stages.
 *
 * @throws HeddleError `layout` for missing or too small buffers
 */
export function fromShards(
  runtime: Runtime,
  shards: readonly DeviceBuffer[],
  type: TensorType,
  layout: Layout,
): Tensor {
  checkType("fromShards", type);
  const mesh = meshOf(runtime);
  const sized = resolved(type, layout, mesh);
  const own = (at: readonly number[]): number => (holdsPart(sized, at) ? bytesOf(localType(type, sized, mesh, at)) : 0);
  const needed = runtime.local.map(({ coordinates }) => own(coordinates));
  if (shards.length !== needed.length || shards.some((shard, index) => shard.bytes < (needed[index] as number)))
    throw new HeddleError("layout", `fromShards: ${formatType(type)} needs buffers of ${needed.join(", ")} bytes`);
  return Tensor.ofValue({ type, runtime, layout: sized, shards });
}

/** The tensor on a runtime of this process; one-device tensors count as replicated. @throws HeddleError `layout` for a tensor of another runtime */
export function placeOn(runtime: Runtime, x: Tensor): Tensor {
  checkTensor("placeOn", x);
  meshOf(runtime);
  return x.value.runtime === runtime ? x : Tensor.ofValue(onRuntime(x.value, runtime));
}

/** Checks a type. @throws HeddleError `shape` or `dtype` */
function checkType(what: string, type: unknown): void {
  const { shape, dtype } = (type ?? {}) as Partial<TensorType>;
  checkShape(what, shape);
  checkDType(what, dtype);
}

const relayouts = new Cache<Compiled>(256);

/** The value in another layout. Communicates; every process of the mesh must call it. */
export function redistribute(x: Tensor, wanted: Layout): Tensor {
  checkTensor("redistribute", x);
  const { value } = x;
  const layout = resolved(value.type, wanted, meshOf(value.runtime));
  const held = value.layout.findIndex(({ kind }) => kind === "only");
  const key = JSON.stringify([value.type, value.layout, layout]);
  const compiled = relayouts.of(value.runtime, key, () => {
    const { graph } = traceFunction("redistribute", [{ name: "x", type: value.type }], (nodes) => nodes);
    return held < 0
      ? compileGraph(graph, value.runtime, { inputs: [value.layout], outputs: [layout] })
      : compileSpread(value.type, value.layout, held, value.runtime);
  });
  const moved = runCompiled(compiled, [value])[0] as Value;
  return sameLayout(moved.layout, layout) ? Tensor.ofValue(moved) : redistribute(Tensor.ofValue(moved), layout);
}

/** The whole value on every device. Communicates; every process of the mesh must call it. */
export function replicate(x: Tensor): Tensor {
  checkTensor("replicate", x);
  return redistribute(x, replicated(meshOf(x.value.runtime)));
}

/** Whether a tensor is on one stage of a pipeline only; other stages can use it only after `replicate`. */
export function isOnStage(x: Tensor): boolean {
  checkTensor("isOnStage", x);
  return x.value.layout.some(({ kind }) => kind === "only");
}
