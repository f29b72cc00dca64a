/**
 * @module Views: results of eager operations that hold elements of their operand in another order. Elements in one contiguous piece
 * share the operand's memory. For a transposition only the order of dims is recorded: the operation that takes the result reads it by
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

/** The view of a result in the memory of the only operand. */
export interface MemoryView {
  readonly type: TensorType;
  /** Offset in bytes. */
  readonly offset: number;
  /** The type of the elements at that offset, row-major. */
  readonly laid: TensorType;
  /** Dim i of the result is dim `order[i]` of `laid`; undefined: both are the same. */
  readonly order: readonly number[] | undefined;
}

/** The views of a graph's results in its only input; undefined if a result is computed or has gaps. */
export function memoryViews({ inputs, outputs }: Graph): readonly MemoryView[] | undefined {
  if (inputs.length !== 1) return undefined;
  const views = outputs.map((output) => {
    const view = viewOf(output);
    return view === undefined ? undefined : memoryView(view);
  });
  return views.includes(undefined) ? undefined : (views as readonly MemoryView[]);
}

/** The view of the graph's input that lowering would use for a node. */
function viewOf(node: Node): View | undefined {
  const { op, inputs, attrs } = node;
  if (op.name === "parameter") return wholeView(node, node);
  if (inputs.length !== 1 || isAbsent(op.form) || op.form.kind !== "view") return undefined;
  const input = viewOf(inputs[0] as Node);
  return input === undefined ? undefined : op.form.view(input, attrs, node);
}

function memoryView(view: View): MemoryView | undefined {
  const { dtype, shape } = view;
  // An empty result has offset 0, which also empty memory has.
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

/** The value of a view of another value's memory, which both share. */
export function valueAt({ runtime, layout, shards }: Value, { type, offset, laid, order }: MemoryView): Value {
  const part = (shards[0] as Required<DeviceBuffer>).part(offset, bytesOf(laid));
  const value: Value = { type: laid, runtime, layout, shards: [part] };
  return order === undefined ? value : new Permuted(type, value, order);
}

/** The number of operations that read a transposed value by strides before it is copied. */
const mostReaders = 8;

/** A value whose dims have another order in memory, until its memory is used. */
export class Permuted implements Value {
  readonly type: TensorType;
  readonly runtime: Runtime;
  readonly layout: Value["layout"];
  /** Dim i is dim `order[i]` of the elements in memory. */
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

  /** The elements in row-major order, copied at first use. */
  get shards(): Value["shards"] {
    if (this.copied !== undefined) return this.copied;
    const source = this.source as Value;
    this.copied = copy(source, this.order);
    this.source = undefined;
    // The source has its own handle, so the operand keeps its memory.
    for (const shard of source.shards) shard.dispose();
    return this.copied;
  }

  /** The value for an operation to read by strides; undefined if there is a copy, or after so many reads that a copy is due. */
  read(): Value | undefined {
    return this.readers++ < mostReaders ? this.source : undefined;
  }

  /** The shards that this value owns. */
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
