/**
 * Linear regression by conjugate gradient with `heddle/matrix`: the program of `regression-cg.dml` in TypeScript. The equations of the
 * normal form are solved without forming them. It prints the steps and the weights, 1, -2 and 3 up to the noise; 1 s.
 *
 *     npx heddle run examples/lectures/regression-cg.ts
 */
import { evaluate, matrix, rand, zeros } from "heddle/matrix";

const x = rand(1000, 3, { seed: 1, distribution: "normal" });
const y = x.matmul(matrix([1, -2, 3])).add(rand(1000, 1, { seed: 2 }).mul(0.01));
const lambda = 0.001;

let w = zeros(x.columns, 1);
let r = x.T.matmul(y).mul(-1);
let p = r.mul(-1);
let norm = r.mul(r).sum();
let steps = 0;
for (; steps < 50 && (await norm.item()) > 1e-18; steps++) {
  const q = x.T.matmul(x.matmul(p)).add(p.mul(lambda));
  const alpha = norm.div(p.mul(q).sum());
  w = w.add(alpha.mul(p));
  r = r.add(alpha.mul(q));
  const old = norm;
  norm = r.mul(r).sum();
  p = norm.div(old).mul(p).sub(r);
  evaluate(w, r, p, norm);
}
console.log(`steps ${steps}, weights ${(await w.array()).map(([weight]) => weight?.toFixed(2)).join(" ")}`);
