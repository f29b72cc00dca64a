/** @module remat: a function whose values are computed again for its gradient instead of being kept. */
import { parameterOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { checkFunction } from "./arguments.ts";
import { capturedNodes, graphName, named, nodesOf, traceBody, traced } from "./nested.ts";
import { isTensor, Tensor } from "./tensor.ts";
import type { AnyFunction } from "./transforms.ts";

/** A value within the function, as a policy sees it. */
export interface RematValue extends TensorType {
  /** Name of the op that makes it, such as `"dot"` or `"tanh"`. */
  readonly op: string;
}

/**
 * Which values within are kept for the gradient, besides the arguments: `"nothing"` (the default), `"products"` (results of
 * matrix products and convolutions, which are dear to compute again), or whether to keep a value.
 */
export type RematPolicy = "nothing" | "products" | ((value: RematValue) => boolean);

export interface RematOptions {
  readonly policy?: RematPolicy;
}

const policies: { readonly [name: string]: (value: RematValue) => boolean } = {
  nothing: () => false,
  products: ({ op }) => op === "dot" || op === "conv",
};

function policyOf(policy: RematPolicy = "nothing"): (value: RematValue) => boolean {
  const found = typeof policy === "function" ? policy : policies[policy];
  if (found !== undefined) return found;
  throw new HeddleError("option", `remat: there is no policy ${shown(policy)}`, {
    hint: 'give "nothing", "products", or a function of a value that says whether to keep it',
  });
}

/** The graph with what a policy keeps as further results. */
function withSaved(graph: Graph, keeps: (value: RematValue) => boolean): { body: Graph; saved: number } {
  const made = new Set<Node>(graph.outputs);
  const saved = topological(graph.outputs).filter((node) => {
    if (node.op === parameterOp || node.types.length !== 1 || made.has(node)) return false;
    return keeps({ op: node.op.name, dtype: node.dtype, shape: node.shape });
  });
  return { body: { ...graph, outputs: [...graph.outputs, ...saved] }, saved: saved.length };
}

/**
 * The same function, whose gradient computes the values within again instead of keeping them (gradient checkpointing). In
 * `grad` of a chain of n such blocks, what is kept is the blocks' arguments, for the price of one more forward pass. Values are
 * the same to the last bit, as far as the executor fuses both passes alike; random numbers follow their keys and are the same.
 *
 * It composes with `grad`, `jvp`, `vmap`, `jit` and loops in any order; without a gradient it changes nothing.
 *
 * @param fn a function over trees of tensors
 * @param options.policy which values within are kept all the same
 * @throws HeddleError `option` for an unknown policy.
 * @example grad((params, x) => remat(block)(params.b, remat(block)(params.a, x)).sum())
 */
export function remat<F extends AnyFunction>(fn: F, options: RematOptions = {}): F {
  checkFunction("remat", fn);
  checkOptions("remat", options, ["policy"]);
  const keeps = policyOf(options.policy);
  const run = (...inputs: unknown[]): unknown =>
    traced("remat", () => {
      const given = flattenTree(inputs, isTensor);
      const body = traceBody(graphName(fn, "function"), named(given, "x", given.leaves), (leaves) =>
        fn(...(unflattenTree(given.shape, leaves) as unknown[])),
      );
      const results = body.output.leaves.length;
      if (results === 0) return unflattenTree(body.output.shape, []);
      const attrs = withSaved(body.graph, keeps);
      const made = ops.resultsOf(ops.call("remat", [...nodesOf(given.leaves), ...capturedNodes(body.captured)], attrs));
      return unflattenTree(body.output.shape, made.slice(0, results).map(Tensor.ofNode));
    });
  return run as F;
}
