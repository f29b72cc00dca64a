/**
 * @module Random tensors. A key (u32[2]) stands for a stream. The same key and shape give the same numbers on any mesh, as each number
 * depends only on the key and its position in the whole tensor.
 */
export { beta, cauchy, dirichlet, exponential, gamma, gumbel, laplace, logistic } from "./random-continuous.ts";
export {
  type ChoiceOptions,
  categorical,
  choice,
  permutation,
  type RandintOptions,
  randint,
} from "./random-discrete.ts";
export { bernoulli, bits, type FloatOptions, foldIn, key, normal, uniform } from "./random-uniform.ts";
