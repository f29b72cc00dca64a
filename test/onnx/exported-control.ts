/** @module Functions with loops and branches that are exported to ONNX: recurrent networks, and what they are made of. */
import { nn, random, type Tensor } from "heddle";
import * as h from "../../src/functions/index.ts";
import type { TensorType } from "../../src/ir/shape.ts";
import type { Exported } from "./exported.ts";

const f32 = (...shape: number[]): TensorType => ({ dtype: "f32", shape });
const i32 = (...shape: number[]): TensorType => ({ dtype: "i32", shape });
const sequences = f32(2, 5, 3);

/** A recurrent layer on sequences; the lengths of the batch's are an input too. */
function recurrent(name: string, layer: nn.RecurrentLayer, lengths = false): Exported {
  const variables = layer.init(random.key(1), sequences);
  const inputs: Exported["inputs"] = lengths ? { x: sequences, lengths: i32(2) } : { x: sequences };
  return {
    name,
    // The examples are below 4: lengths from 1 to 4.
    fn: (given) => {
      const held = given["lengths"];
      const own = held === undefined ? {} : { lengths: held.abs().clamp(0, 3).add(1) };
      return layer.apply(variables, given["x"] as Tensor, own).y;
    },
    inputs,
    names: variables.params,
  };
}

const one = (name: string, fn: (x: Tensor) => Tensor, type: TensorType): Exported => ({
  name,
  fn: ({ x }) => fn(x as Tensor),
  inputs: { x: type },
});

const step = ([held]: readonly [Tensor], [part]: readonly [Tensor], at: Tensor) => {
  const next = held.mul(0.5).add(part.mul(at.add(1).cast("f32")));
  return [[next], [next.tanh(), at]] as [[Tensor], [Tensor, Tensor]];
};

/** Carry and stacks of a scan, in one tensor. */
const scanned = (reverse: boolean) => (x: Tensor) => {
  const [[last], [stack, counts]] = h.scan(step, [h.zeros([3])] as readonly [Tensor], [x] as readonly [Tensor], {
    reverse,
  });
  return h.concat(
    [
      last.reshape([1, 3]),
      stack,
      counts
        .cast("f32")
        .reshape([-1, 1])
        .broadcastTo([x.shape[0] as number, 3]),
    ],
    0,
  );
};

export const exportedControl: readonly Exported[] = [
  recurrent("rnn", nn.rnn({ hidden: 4 })),
  recurrent("gru", nn.gru({ hidden: 4 })),
  recurrent("lstm", nn.lstm({ hidden: 4 })),
  recurrent("lstm, its last state", nn.lstm({ hidden: 4, output: "last" })),
  recurrent("gru, both directions, two layers", nn.gru({ hidden: 4, layers: 2, bidirectional: true })),
  recurrent("lstm with lengths", nn.lstm({ hidden: 4 }), true),
  recurrent("lstm, both directions with lengths", nn.lstm({ hidden: 4, layers: 2, bidirectional: true }), true),
  one("scan", scanned(false), f32(4, 3)),
  one("scan in reverse", scanned(true), f32(4, 3)),
  one("scan of no iterations", scanned(false), f32(0, 3)),
  one(
    "scan within a scan, with a value from around both",
    (x) => {
      const outer = x.sum(0);
      const [total] = h.scan(
        (held: Tensor, row: Tensor) => {
          const [inner] = h.scan(
            (sum: Tensor, cell: Tensor) => [sum.add(cell.mul(outer.slice([0], [1]).reshape([]))), []] as [Tensor, []],
            h.zeros([]),
            row,
          );
          return [held.add(inner), []] as [Tensor, []];
        },
        h.zeros([]),
        x,
      );
      return total;
    },
    f32(3, 4),
  ),
  one(
    "while",
    (x) =>
      h.whileLoop(
        (held: Tensor) => held.sum().lt(100),
        (held: Tensor, at: Tensor) => held.abs().mul(2).add(at.cast("f32")),
        x,
      ),
    f32(3),
  ),
  one(
    "while with a bound",
    (x) =>
      h.whileLoop(
        (_held: Tensor, at: Tensor) => at.lt(3),
        (held: Tensor) => held.mul(held),
        x,
        { maxIterations: 5 },
      ),
    f32(3),
  ),
  ...[1, -1].map((sign) =>
    one(
      `cond, ${sign}`,
      (x) =>
        h.cond(
          x.abs().sum().mul(sign).gt(0),
          () => x.mul(2),
          () => x.add(1),
        ),
      f32(3),
    ),
  ),
];
