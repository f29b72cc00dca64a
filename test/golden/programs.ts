/** Ten small programs whose graph, plan and program are kept as text: together they pass through most of the spine. */
import {
  cond,
  conv2d,
  cumsum,
  grad,
  jvp,
  maxPool2d,
  optim,
  random,
  scan,
  softmaxCrossEntropy,
  type Tensor,
  valueAndGrad,
  vmap,
  whileLoop,
} from "heddle";
import { type PlannedFunction, planFunction } from "../../src/functions/index.ts";
import type { TensorType } from "../../src/ir/index.ts";
import { type Layout, type Mesh, mesh, shardedOn } from "../../src/plan/index.ts";

const f32 = (...shape: number[]): TensorType => ({ shape, dtype: "f32" });
const i32 = (...shape: number[]): TensorType => ({ shape, dtype: "i32" });

interface Golden {
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: functions of any arguments
  readonly fn: (...inputs: any[]) => unknown;
  /** Each argument: its name, type, and what is split of it on which axis. */
  readonly inputs: { readonly [name: string]: [TensorType, ({ readonly [axis: string]: number } | undefined)?] };
  readonly axes?: { readonly [axis: string]: number };
  /** Arguments that are kept in parts and used whole. */
  readonly gathered?: readonly string[];
  /** Layouts wanted of outputs, by their paths. */
  readonly outputs?: { readonly [path: string]: { readonly [axis: string]: number } };
  readonly donate?: readonly number[];
}

/** Two layers and a loss. */
function loss(w1: Tensor, w2: Tensor, x: Tensor, y: Tensor): Tensor {
  return softmaxCrossEntropy(x.matmul(w1).relu().matmul(w2), y).mean();
}

/** A step of gradient descent on both weights. */
function step(w1: Tensor, w2: Tensor, x: Tensor, y: Tensor): { w1: Tensor; w2: Tensor; loss: Tensor } {
  const { value, grad: gradient } = valueAndGrad((w: { w1: Tensor; w2: Tensor }) => loss(w.w1, w.w2, x, y))({ w1, w2 });
  return { w1: w1.sub(gradient.w1.mul(0.1)), w2: w2.sub(gradient.w2.mul(0.1)), loss: value };
}

const network = { w1: [f32(6, 8)], w2: [f32(8, 4)], x: [f32(8, 6)], y: [i32(8)] } satisfies Golden["inputs"];

export const goldens: readonly Golden[] = [
  {
    name: "softmax-regression",
    fn: (w: Tensor, x: Tensor, y: Tensor) =>
      w.sub(grad((v: Tensor) => softmaxCrossEntropy(x.matmul(v), y).mean())(w).mul(0.5)),
    inputs: { w: [f32(6, 3)], x: [f32(8, 6)], y: [i32(8)] },
    donate: [0],
  },
  {
    name: "data-parallel",
    fn: step,
    inputs: { ...network, x: [f32(8, 6), { data: 0 }], y: [i32(8), { data: 0 }] },
    axes: { data: 2 },
    donate: [0, 1],
  },
  {
    name: "tensor-parallel",
    fn: step,
    inputs: { ...network, w1: [f32(6, 8), { model: 1 }], w2: [f32(8, 4), { model: 0 }] },
    axes: { model: 2 },
    outputs: { w1: { model: 1 }, w2: { model: 0 } },
    donate: [0, 1],
  },
  {
    name: "fully-sharded",
    fn: step,
    inputs: {
      w1: [f32(6, 8), { data: 0 }],
      w2: [f32(8, 4), { data: 0 }],
      x: [f32(8, 6), { data: 0 }],
      y: [i32(8), { data: 0 }],
    },
    gathered: ["w1", "w2"],
    axes: { data: 2 },
    outputs: { w1: { data: 0 }, w2: { data: 0 } },
    donate: [0, 1],
  },
  {
    name: "convolution",
    fn: (kernel: Tensor, x: Tensor) =>
      grad((k: Tensor) => maxPool2d(conv2d(x, k, { padding: "same" }).relu(), 2).sum())(kernel),
    inputs: { kernel: [f32(2, 1, 3, 3)], x: [f32(4, 1, 4, 4), { data: 0 }] },
    axes: { data: 2 },
  },
  {
    name: "recurrent",
    fn: (w: Tensor, h: Tensor, xs: Tensor) =>
      grad((v: Tensor) => {
        const [last] = scan((state: Tensor, x: Tensor) => [state.matmul(v).add(x).tanh(), state], h, xs);
        return last.sum();
      })(w),
    inputs: { w: [f32(4, 4)], h: [f32(8, 4), { data: 0 }], xs: [f32(3, 8, 4), { data: 1 }] },
    axes: { data: 2 },
  },
  {
    name: "while",
    fn: (x: Tensor) =>
      whileLoop(
        (state: Tensor) => state.max().lt(100),
        (state: Tensor) => state.mul(2),
        x,
      ),
    inputs: { x: [f32(8), { data: 0 }] },
    axes: { data: 2 },
  },
  {
    name: "branch-and-random",
    fn: (key: Tensor, x: Tensor) =>
      cond(
        x.sum().gt(0),
        (value: Tensor) => value.mul(random.uniform(key, value.shape)),
        (value: Tensor) => value.neg(),
        x,
      ),
    inputs: { key: [{ shape: [2], dtype: "u32" }], x: [f32(8, 2), { data: 0 }] },
    axes: { data: 2 },
  },
  {
    name: "adam-on-a-batch-of-examples",
    fn: (w: Tensor, x: Tensor, y: Tensor) => {
      const each = vmap((row: Tensor, label: Tensor) => grad((v: Tensor) => row.mul(v).sum().sub(label).abs())(w))(
        x,
        y,
      );
      const optimizer = optim.adam({ learningRate: 0.01 });
      const params = { w };
      return optimizer.update({ w: each.mean(0) }, optimizer.init(params), params, { step: 0 }).params;
    },
    inputs: { w: [f32(6)], x: [f32(8, 6), { data: 0 }], y: [f32(8), { data: 0 }] },
    axes: { data: 2 },
  },
  {
    name: "forward-mode",
    fn: (x: Tensor, v: Tensor) => jvp((p: Tensor) => cumsum(p.exp(), 1).sum(0), [x], [v]),
    inputs: { x: [f32(4, 3), { data: 0 }], v: [f32(4, 3), { data: 0 }] },
    axes: { data: 2 },
  },
];

/** Plans one of them. */
export function planGolden({
  name,
  fn,
  inputs,
  axes = {},
  gathered = [],
  outputs = {},
  donate = [],
}: Golden): PlannedFunction {
  const on: Mesh = mesh(axes);
  const names = Object.keys(inputs);
  const layout = (path: string): Layout | undefined => {
    const split = inputs[path.split(".")[0] as string]?.[1];
    return split === undefined ? undefined : shardedOn(on, split);
  };
  return planFunction(
    fn,
    Object.values(inputs).map(([type]) => type),
    on,
    {
      name,
      argumentNames: names,
      layouts: layout,
      uses: (path) => (gathered.includes(path) ? shardedOn(on, {}) : undefined),
      outputLayouts: (path) => (outputs[path] === undefined ? undefined : shardedOn(on, outputs[path])),
      donate,
    },
  );
}
