/**
 * @module Views: results of eager operations that hold elements of their operand in another order. What lies in one piece
 * shares the operand's memory. Of a transposition only the order of dims is noted: the operation that takes it reads by
 * strides, as it would in a compiled function.
 */

import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import type { Value } from "../compile/value.ts";
import { dtypes } from "../ir/dtype.ts";
import { denseOrder, isContiguous, permuteView, type View, wholeView } from "../ir/kernel.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { bytesOf, formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { Cache } from "./cache.ts";
import { traceFunction } from "./tracing.ts";

/** Where a result lies in the memory of the one operand. */
export interface Place {
  readonly type: TensorType;
  /** Bytes. */
  readonly offset: number;
  /** What lies there, row-major. */
  readonly laid: TensorType;
  /** Dim i of the result is dim `order[i]` of what lies there; undefined: they are the same. */
  readonly order: readonly number[] | undefined;
}

/** How the results of a graph lie in its only input; undefined where one of them is computed or has gaps. */
export function placesOf({ inputs, outputs }: Graph): readonly Place[] | undefined {
  if (inputs.length !== 1) return undefined;
  const places = outputs.map((output) => {
    const view = viewOf(output);
    return view === undefined ? undefined : placeOf(view);
  });
  return places.includes(undefined) ? undefined : (places as readonly Place[]);
}

/** What lowering takes a node for: strides over the graph's input. */
function viewOf(node: Node): View | undefined {
  const { op, inputs, attrs } = node;
  if (op.name === "parameter") return wholeView(node, node);
  if (inputs.length !== 1 || isAbsent(op.form) || op.form.kind !== "view") return undefined;
  const input = viewOf(inputs[0] as Node);
  return input === undefined ? undefined : op.form.view(input, attrs, node);
}

function placeOf(view: View): Place | undefined {
  const { dtype, shape } = view;
  // No elements lie anywhere, also in memory of no bytes.
  const offset = sizeOf(shape) === 0 ? 0 : view.offset * dtypes[dtype].bytes;
  const type: TensorType = { dtype, shape };
  if (isContiguous(view)) return { type, offset, laid: type, order: undefined };
  const dense = denseOrder(view);
  if (dense === undefined) return undefined;
  return {
    type,
    offset,
    laid: { dtype, shape: permuteView(view, dense).shape },
    order: shape.map((_size, dim) => dense.indexOf(dim)),
  };
}

/** Whether parts of a value can share its memory: it is whole, on the only device of its mesh, in this process. */
export const hasParts = ({ runtime, layout, shards }: Value): boolean =>
  runtime.local.length === 1 &&
  runtime.axes.every(({ size }) => size === 1) &&
  layout.every(({ kind }) => kind === "replicate") &&
  shards[0]?.part !== undefined;

/** The value that lies in a place of another one, whose memory it shares. */
export function valueAt({ runtime, layout, shards }: Value, { type, offset, laid, order }: Place): Value {
  const part = (shards[0] as Required<DeviceBuffer>).part(offset, bytesOf(laid));
  const value: Value = { type: laid, runtime, layout, shards: [part] };
  return order === undefined ? value : new Permuted(type, value, order);
}

/** Operations that read a transposed value by strides, before it is worth a copy. */
const mostReaders = 8;

/** A value whose dims lie in another order in memory, until somebody asks for its memory. */
export class Permuted implements Value {
  readonly type: TensorType;
  readonly runtime: Runtime;
  readonly layout: Value["layout"];
  /** Dim i is dim `order[i]` of what lies in memory. */
  readonly order: readonly number[];
  private source: Value | undefined;
  private copied: Value["shards"] | undefined;
  private readers = 0;

  constructor(type: TensorType, source: Value, order: readonly number[]) {
    this.type = type;
    this.runtime = source.runtime;
    this.layout = source.layout;
    this.order = order;
    this.source = source;
  }

  /** The elements in row-major order, copied when they are first asked for. */
  get shards(): Value["shards"] {
    if (this.copied !== undefined) return this.copied;
    const source = this.source as Value;
    this.copied = copy(source, this.order);
    this.source = undefined;
    // A handle of its own: the operand keeps its memory.
    for (const shard of source.shards) shard.dispose();
    return this.copied;
  }

  /** What an operation is to read by strides; undefined where there is a copy, or has been read so often that it gets one. */
  read(): Value | undefined {
    return this.readers++ < mostReaders ? this.source : undefined;
  }

  /** Memory that is this value's own. */
  get held(): Value["shards"] {
    return (this.source ?? this).shards;
  }
}

const copies = new Cache<Compiled>(64);

function copy(source: Value, order: readonly number[]): Value["shards"] {
  const { runtime, type } = source;
  const key = `${formatType(type)} ${order}`;
  let compiled = copies.get(runtime, key);
  if (compiled === undefined) {
    const { graph } = traceFunction("transpose", [{ name: "x", type }], ([x]) => [ops.transpose(x as Node, order)], {
      placed: false,
    });
    compiled = compileGraph(graph, runtime);
    copies.set(runtime, key, compiled);
  }
  return (runCompiled(compiled, [source])[0] as Value).shards;
}
