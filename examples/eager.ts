/**
 * Tensors without a training loop: operations that run at once, gradients, a function compiled to one program.
 *
 *     npx heddle run examples/eager.ts     # a line fitted to a loss below 1e-6, 2 s
 */
import { grad, jit, optim, random, type Tensor, tensor, valueAndGrad } from "heddle";

// Operations run at once.
const a = tensor([
  [1, 2],
  [3, 4],
]);
console.log("a · a + 1 =", await a.matmul(a).add(1).data());

// The gradient of a function is a function.
const cube = (x: Tensor): Tensor => x.mul(x).mul(x).sum();
console.log("the gradient of x³ at 2 is", await grad(cube)(tensor(2)).item());

// Random numbers come from keys: the same key, the same numbers, on any number of machines.
const x = random.normal(random.key(1), [200, 3]);
const y = x.matmul(tensor([[2], [-1], [0.5]])).add(3);

// A linear model fitted by hand: parameters are a tree, and an optimizer is a pure function over the tree.
type Params = { weight: Tensor; bias: Tensor };
const loss = ({ weight, bias }: Params): Tensor => x.matmul(weight).add(bias).sub(y).pow(2).mean();
const optimizer = optim.sgd({ learningRate: 0.1, momentum: 0.5 });

const step = jit((params: Params, state: ReturnType<typeof optimizer.init>) => {
  const { value, grad: grads } = valueAndGrad(loss)(params);
  return { value, ...optimizer.update(grads, state, params, { step: 0 }) };
});

let params: Params = { weight: tensor([[0], [0], [0]]), bias: tensor([0]) };
let state = optimizer.init(params);
for (let count = 0; count < 100; count++) {
  const updated = step(params, state);
  ({ params, state } = updated);
  if (count % 25 === 0) console.log(`step ${count}: loss ${(await updated.value.item()).toFixed(6)}`);
}
console.log("weight", await params.weight.data(), "bias", await params.bias.data());
