/**
 * Your own optimizer: sign descent with momentum. An optimizer is a record of two pure functions over trees of
 * parameters; `train({ optimizer })` takes it like a built-in one.
 *
 *     heddle run examples/extend/optimizer.ts     # finds the minimum at 3, -1; 2 s
 */
import { grad, isTensor, type optim, sign, type Tensor, tensor, zerosLike } from "heddle";

type Tree = Parameters<optim.Optimizer["init"]>[0];

/** Applies a function to the leaves of trees of one form. */
function map(fn: (...leaves: Tensor[]) => Tensor, ...trees: Tree[]): Tree {
  const [first] = trees as [Tree];
  return Object.fromEntries(
    Object.entries(first).map(([name, value]) => {
      const leaves = trees.map((tree) => tree[name]);
      return [name, isTensor(value) ? fn(...(leaves as Tensor[])) : map(fn, ...(leaves as Tree[]))];
    }),
  ) as Tree;
}

function signDescent({ learningRate = 0.1, momentum = 0.9 } = {}): optim.Optimizer {
  return {
    name: "signDescent",
    learningRate,
    init: (params) => map((parameter) => zerosLike(parameter), params),
    update(grads, state, params, { step, learningRate: rateOption }) {
      const rate = rateOption ?? (typeof step === "number" ? learningRate * 0.97 ** step : learningRate);
      const next = map((slot, gradient) => slot.mul(momentum).add(gradient.mul(1 - momentum)), state, grads);
      return {
        params: map((parameter, slot) => parameter.sub(sign(slot).mul(rate)), params, next) as typeof params,
        state: next,
      };
    },
  };
}

const optimizer = signDescent();
const goal = tensor([3, -1]);
const gradient = grad((p: { x: Tensor }) => p.x.sub(goal).pow(2).sum());
let params = { x: tensor([0, 0]) };
let state = optimizer.init(params);
for (let step = 0; step < 150; step++)
  ({ params, state } = optimizer.update(gradient(params), state, params, { step }));
console.log("found", [...(await params.x.data())].map((value) => Number(value).toFixed(1)).join(" "));
