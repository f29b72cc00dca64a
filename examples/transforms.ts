/**
 * Functions of functions: gradients per example, computed at once by one batched program, and Hessian-vector products, from
 * which the conjugate gradient method finds a Newton step without the Hessian's matrix.
 *
 *     npx heddle run examples/transforms.ts     # 5 Newton steps: a gradient of 1e-6, 3 s
 */
import { grad, jit, jvp, random, sign, type Tensor, tensor, vmap } from "heddle";

/** Logistic regression: label y, 1 or -1, is as likely as sigmoid(y · w · x). The loss of one example. */
const loss = (w: Tensor, x: Tensor, y: Tensor): Tensor => x.matmul(w).mul(y).sigmoid().log().neg();

const [examples, features] = [64, 5];
const xs = random.normal(random.key(0), [examples, features], { dtype: "f64" });
const truth = tensor([2, -1, 0.5, 0, 1], { dtype: "f64" });
const noise = random.normal(random.key(1), [examples], { dtype: "f64" });
const ys = sign(xs.matmul(truth).add(noise));

// A function of one example becomes a function of all: w is the same for each (null), the others have examples along dim 0.
const dims = { inDims: [null, 0, 0] };
const perExample = vmap(grad(loss), dims);

const norms = await perExample(truth, xs, ys).pow(2).sum(1).sqrt().data();
const hardest = norms.indexOf(Math.max(...norms));
console.log(
  `gradients of ${norms.length} examples; that of example ${hardest} is the largest: ${norms[hardest]!.toFixed(3)}`,
);

/** Mean loss of all examples, and a little of |w|². */
const total = (w: Tensor): Tensor => vmap(loss, dims)(w, xs, ys).mean().add(w.mul(w).sum().mul(1e-3));

/** The Hessian of the total loss times v: how the gradient changes along v. */
const hessianTimes = (w: Tensor, v: Tensor): Tensor => jvp(grad(total), [w], [v]).tangent;

/** Solves H step = gradient by conjugate gradients: in exact arithmetic, as many steps as there are features. */
const newtonStep = jit((w: Tensor): Tensor => {
  let step = w.mul(0);
  let residual = grad(total)(w);
  let direction = residual;
  for (let iteration = 0; iteration < features; iteration++) {
    const curved = hessianTimes(w, direction);
    const squared = residual.mul(residual).sum();
    const length = squared.div(direction.mul(curved).sum());
    step = step.add(direction.mul(length));
    const next = residual.sub(curved.mul(length));
    direction = next.add(direction.mul(next.mul(next).sum().div(squared)));
    residual = next;
  }
  return step;
});

let w = truth.mul(0);
for (let iteration = 0; iteration <= 5; iteration++) {
  const slope = grad(total)(w);
  const [value, steepness] = [await total(w).item(), await slope.mul(slope).sum().sqrt().item()];
  console.log(`Newton step ${iteration}: loss ${value.toFixed(6)}, gradient ${steepness.toExponential(1)}`);
  w = w.sub(newtonStep(w));
}
