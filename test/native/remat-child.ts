/** Runs the gradient of a deep network, kept and rematerialised; prints predicted and resident peaks of both. */
import { grad, jit, mesh, planFunction, random, remat, type Tensor } from "../../src/index.ts";
import { lowerProgram } from "../../src/lower/index.ts";

type Block = (w: Tensor, x: Tensor) => Tensor;
const block: Block = (w, x) => {
  let y = x;
  for (let layer = 0; layer < 4; layer++) y = y.matmul(w).tanh();
  return y;
};
const gradientOf = (one: Block) => {
  const loss = (ws: Tensor[], x: Tensor): Tensor => ws.reduce((y, w) => one(w, y), x).mean();
  return grad(loss);
};
const ws = Array.from({ length: 8 }, (_unused, index) => random.normal(random.key(index), [64, 64]).mul(0.1));
const x = random.normal(random.key(9), [8192, 64]);

/** Megabytes that the process has held at most. */
const peak = (): number => process.resourceUsage().maxRSS / 1024;

const found: { predicted: number; grown: number; gradient: number[] }[] = [];
for (const one of [remat(block), block]) {
  const { program } = planFunction(gradientOf(one), [ws, x], mesh({}));
  const predicted = lowerProgram(program, { slots: 2 }).arenaBytes / 2 ** 20;
  const before = peak();
  const gradients = jit(gradientOf(one))(ws, x);
  const gradient = [...(await (gradients[0] as Tensor).data())].map(Number);
  found.push({ predicted, grown: peak() - before, gradient });
}
console.log(JSON.stringify(found));
