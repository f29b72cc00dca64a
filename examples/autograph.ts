/**
 * Plain control flow on tensors: Newton's method with an early return, and a loop whose end depends on the data, compiled as one
 * program. The directive turns on the transform of `heddle run` (docs/autograph.md).
 *
 *     heddle run examples/autograph.ts     # roots of 2, 9 and 1,000,000 in 4, 5 and 13 steps, 0 for -4; 2 s
 */
import { grad, jit, type Tensor, tensor, vmap } from "heddle";

/** The square root of a by Newton's method, and the number of steps. */
function root(a: Tensor): [Tensor, Tensor] {
  "use heddle";
  let x = a;
  let steps = tensor(0);
  if (isTrue(a.le(0))) return [a.mul(0), steps];
  while (isTrue(x.mul(x).sub(a).abs().gt(a.mul(1e-6)))) {
    x = x.add(a.div(x)).mul(0.5);
    steps = steps.add(1);
    if (isTrue(steps.ge(50))) break;
  }
  return [x, steps];
}

/** A tensor, typed as a condition for TypeScript. */
const isTrue = (test: Tensor): boolean => test as unknown as boolean;

/** The absolute value, by a branch. */
function size(x: Tensor): Tensor {
  "use heddle";
  return isTrue(x.lt(0)) ? x.neg() : x;
}

const [roots, steps] = vmap(jit(root))(tensor([2, 9, 1e6, -4]));
console.log("roots", [...(await roots.data())].map((root) => Number(root).toFixed(3)).join(" "));
console.log("steps", [...(await steps.data())].join(" "));
console.log("slopes", await grad(size)(tensor(-3)).data(), await grad(size)(tensor(3)).data());
