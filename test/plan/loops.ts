/** Small graphs with loops, shared by the tests of the planner, the program, lowering and the native executor. */
import { gradients } from "../../src/autodiff/index.ts";
import { type Graph, type InputSpec, type Node, type TensorType, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";

const f64 = (...shape: number[]): TensorType => ({ dtype: "f64", shape });
const like = (name: string, node: Node, drop = 0): InputSpec => ({
  name,
  type: { dtype: node.dtype, shape: node.shape.slice(drop) },
});
const count: InputSpec = { name: "i", type: { dtype: "i32", shape: [] } };

/** A recurrent layer with dropout on its state, from zeros: all states. */
function recurrent(x: Node, seed: Node, w: Node, u: Node): Node[] {
  const start = ops.full("f64", [x.shape[1] as number, u.shape[0] as number], 0);
  const specs = [count, like("h", start), like("x", x, 1), like("key", seed), like("w", w), like("u", u)];
  const body = traceGraph("cell", specs, (_i, h, slice, key, a, b) => {
    const keep = ops.lt(ops.randomBits(key as Node, start.shape), ops.constant("u32", 2 ** 31));
    const dropped = ops.select(keep, ops.mul(h as Node, 2), 0);
    const next = ops.tanh(ops.add(ops.matmul(slice as Node, a as Node), ops.matmul(dropped, b as Node)));
    return [next, next];
  });
  return ops.scan([start, x, seed, w, u], {
    body: ops.foldKeys(body, 3),
    length: x.shape[0] as number,
    carries: 1,
    slices: 1,
    reverse: false,
  });
}

/** One step of gradient descent on a recurrent network that reads a sequence: loss and new parameters. */
export function recurrentStep(batch = 4, length = 5): Graph {
  const inputs = [
    { name: "x", type: f64(length, batch, 2) },
    { name: "y", type: f64(batch, 1) },
    { name: "key", type: { dtype: "u32" as const, shape: [2] } },
    { name: "w", type: f64(2, 4) },
    { name: "u", type: f64(4, 4) },
    { name: "v", type: f64(4, 1) },
  ];
  return traceGraph("recurrent", inputs, (x, y, seed, ...params) => {
    const [w, u, v] = params as [Node, Node, Node];
    const [last] = recurrent(x as Node, seed as Node, w, u) as [Node];
    const error = ops.sub(ops.matmul(last, v), y as Node);
    const loss = ops.mean(ops.mul(error, error));
    const grads = gradients(loss, params);
    return [loss, ...params.map((param, index) => ops.sub(param, ops.mul(grads[index] as Node, 0.5)))];
  });
}

/** All states, for their masks. */
export function recurrentStates(batch = 4, length = 5): Graph {
  const inputs = [
    { name: "x", type: f64(length, batch, 2) },
    { name: "key", type: { dtype: "u32" as const, shape: [2] } },
    { name: "w", type: f64(2, 4) },
    { name: "u", type: f64(4, 4) },
  ];
  return traceGraph("states", inputs, (x, key, w, u) => [
    recurrent(x as Node, key as Node, w as Node, u as Node)[1] as Node,
  ]);
}

/** Power iteration until the vector moves little, then a branch on its sign; rows of the matrix may be split. */
export function powerIteration(size = 4): Graph {
  const inputs = [
    { name: "a", type: f64(size, size) },
    { name: "x", type: f64(size) },
  ];
  return traceGraph("power", inputs, (a, x) => {
    const specs = [count, like("x", x as Node), like("moved", ops.constant("f64", 0)), like("a", a as Node)];
    const condition = traceGraph("moving", specs, (i, _x, moved) => [
      ops.and(ops.lt(i as Node, 100), ops.gt(moved as Node, 1e-12)),
    ]);
    const body = traceGraph("multiply", specs, (_i, value, _moved, matrix) => {
      const y = ops.matmul(matrix as Node, value as Node);
      const next = ops.div(y, ops.sqrt(ops.sum(ops.mul(y, y))));
      const step = ops.sub(next, value as Node);
      return [next, ops.sum(ops.mul(step, step))];
    });
    const attrs = { condition, body, carries: 2 };
    const [vector] = ops.whileLoop([x as Node, ops.constant("f64", 1), a as Node], attrs) as [Node];
    const flip = (name: string, build: (v: Node) => Node): Graph =>
      traceGraph(name, [like("v", vector)], (v) => [build(v as Node)]);
    return ops.cond([ops.lt(ops.sum(vector), 0), vector], {
      onTrue: flip("negative", ops.neg),
      onFalse: flip("positive", (v) => ops.mul(v, 2)),
    });
  });
}
