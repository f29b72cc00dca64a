/** @module ONNX's branches and loops. */

import { HeddleError } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { range } from "../../ir/index.ts";
import { type NodeContext, type Result, type Rows, row, Value } from "./context.ts";
import { hostInts, moved } from "./helpers.ts";
import { int64 } from "./tensors.ts";

/** One branch where the condition is known, else a branch of the program. */
function branch(c: NodeContext): Result[] {
  const build = (name: string): Tensor[] => c.buildGraph(c.graph(name), []).map((value) => value.tensor);
  const { host } = c.value(0);
  if (host !== undefined) {
    const chosen = Number(host.data[0]) !== 0 ? "then_branch" : "else_branch";
    return c.buildGraph(c.graph(chosen), []).map((value) => value.result);
  }
  return h.cond(
    c.x().reshape([]),
    () => build("then_branch"),
    () => build("else_branch"),
  );
}

/** Carries states over slices along an axis of each of the last inputs; the results of each slice are stacked. */
function scan(c: NodeContext): Tensor[] {
  const slices = c.int("num_scan_inputs");
  const states = c.count - slices;
  const body = c.graph("body");
  const outputs = c.results - states;
  const list = (name: string, size: number): readonly number[] => c.ints(name, new Array<number>(size).fill(0));
  const [axes, directions] = [list("scan_input_axes", slices), list("scan_input_directions", slices)];
  const [outAxes, outDirections] = [list("scan_output_axes", outputs), list("scan_output_directions", outputs)];
  const xs = range(slices).map((index) => {
    const x = c.x(states + index);
    const [axis] = c.dims([axes[index] as number], x.shape.length) as [number];
    const first = x.transpose(moved(x.shape.length, axis, 0));
    return directions[index] === 1 ? h.reverse(first, [0]) : first;
  });
  const step = (held: readonly Tensor[], parts: readonly Tensor[]): [Tensor[], Tensor[]] => {
    const results = c
      .buildGraph(
        body,
        [...held, ...parts].map((x) => new Value(x)),
      )
      .map((value) => value.tensor);
    return [results.slice(0, states), results.slice(states)];
  };
  const [last, ys] = h.scan(
    step,
    range(states).map((index) => c.x(index)),
    xs,
  );
  const stacked = ys.map((y, index) => {
    const ordered = outDirections[index] === 1 ? h.reverse(y, [0]) : y;
    const [axis] = c.dims([outAxes[index] as number], y.shape.length) as [number];
    return ordered.transpose(moved(y.shape.length, 0, axis));
  });
  return [...last, ...stacked];
}

/** The most iterations of a loop that is unrolled, as a loop must be whose shapes change. */
const mostUnrolled = 256;

/**
 * A loop whose count and condition are known is unrolled; a loop with a computed condition becomes a loop of the
 * program.
 */
function loop(c: NodeContext): Result[] {
  const body = c.graph("body");
  const carries = c.count - 2;
  const trip = c.has(0) ? c.value(0).host : undefined;
  const count = trip === undefined ? Infinity : Number(trip.data[0]);
  if (c.has(0) && trip === undefined) c.host(0);
  let going: Value = c.has(1) ? c.value(1) : new Value({ dtype: "bool", shape: [], data: Uint8Array.of(1) });
  let held = range(carries).map((index) => c.value(2 + index));
  const stacked: Tensor[][] = range(c.results - carries).map(() => []);
  for (let index = 0; index < count; index++) {
    if (going.host === undefined) return whileOf(c, count, index, going, held);
    if (Number(going.host.data[0]) === 0) break;
    if (index === mostUnrolled)
      throw new HeddleError("op", `a loop of more than ${mostUnrolled} iterations is not imported`);
    const results = c.buildGraph(body, [new Value(hostInts([index], [])), going, ...held]);
    going = results[0] as Value;
    held = results.slice(1, 1 + carries);
    for (const [stack, value] of results.slice(1 + carries).entries()) stacked[stack]?.push(value.tensor);
  }
  const ys = stacked.map((list) => {
    if (list.length === 0) throw new HeddleError("op", "a loop that stacks nothing is not imported");
    return h.concat(
      list.map((y) => y.reshape([1, ...y.shape])),
      0,
    );
  });
  return [...held.map((value) => value.result), ...ys];
}

/** The rest of a loop from iteration `start` on, as long as its condition, which is computed, holds. */
function whileOf(c: NodeContext, count: number, start: number, going: Value, held: readonly Value[]): Tensor[] {
  if (c.results > held.length)
    throw new HeddleError("op", "a loop with a computed condition that stacks results is not imported");
  const body = c.graph("body");
  const more = (index: Tensor): Tensor => index.lt(Math.min(count, 2 ** 31 - 1) - start);
  const [, last] = h.whileLoop(
    ([condition]: readonly [Tensor, readonly Tensor[]], index) => h.and(condition, more(index)),
    ([condition, carried], index) => {
      const operands = [index.add(start).cast(int64), condition, ...carried].map((x) => new Value(x));
      const results = c.buildGraph(body, operands).map((value) => value.tensor);
      return [(results[0] as Tensor).reshape([]), results.slice(1)] as const;
    },
    [going.tensor.reshape([]), held.map((value) => value.tensor)] as const,
  );
  return [...last];
}

export const controlRows: Rows = {
  If: row(1, branch),
  Loop: row(1, loop),
  Scan: row(9, scan),
};
