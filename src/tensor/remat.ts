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

/** A value within the function, for a policy. */
export interface RematValue extends TensorType {
  /** Name of the op that makes it, such as `"dot"` or `"tanh"`. */
  readonly op: string;
}

/**
 * Which values within the function are kept for the gradient, besides the arguments: `"nothing"` (the default), `"products"`
 * (results of matrix products and convolutions, which are expensive to compute again), or a function that says whether to keep a
 * value.
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

/** The graph with the values that a policy keeps as further results. */
function withSaved(graph: Graph, keeps: (value: RematValue) => boolean): { body: Graph; saved: number } {
  const results = new Set<Node>(graph.outputs);
  const saved = topological(graph.outputs).filter((node) => {
    if (node.op === parameterOp || node.types.length !== 1 || results.has(node)) return false;
    return keeps({ op: node.op.name, dtype: node.dtype, shape: node.shape });
  });
  return { body: { ...graph, outputs: [...graph.outputs, ...saved] }, saved: saved.length };
}

/**
 * The same function, whose gradient computes values within it again instead of keeping them (gradient checkpointing). In `grad` of
 * a chain of n such blocks, only the blocks' arguments are kept, at the price of one more forward pass. Values are the same to the
 * last bit if the executor fuses both passes alike; random numbers follow their keys and are the same.
 *
 * It composes with `grad`, `jvp`, `vmap`, `jit` and loops in any order; without a gradient it changes nothing.
 *
 * @param fn a function over trees of tensors
 * @param options.policy which values within are kept nevertheless
 * @throws HeddleError `option` for an unknown policy.
 * @example grad((params, x) => remat(block)(params.b, remat(block)(params.a, x)).sum())
 */
export function remat<F extends AnyFunction>(fn: F, options: RematOptions = {}): F {
  checkFunction("remat", fn);
  checkOptions("remat", options, ["policy"]);
  const keeps = policyOf(options.policy);
  const run = (...inputs: unknown[]): unknown =>
    traced("remat", () => {
      const flat = flattenTree(inputs, isTensor);
      const body = traceBody(graphName(fn, "function"), named(flat, "x", flat.leaves), (leaves) =>
        fn(...(unflattenTree(flat.shape, leaves) as unknown[])),
      );
      const results = body.output.leaves.length;
      if (results === 0) return unflattenTree(body.output.shape, []);
      const attrs = withSaved(body.graph, keeps);
      const nodes = ops.resultsOf(ops.call("remat", [...nodesOf(flat.leaves), ...capturedNodes(body.captured)], attrs));
      return unflattenTree(body.output.shape, nodes.slice(0, results).map(Tensor.ofNode));
    });
  return run as F;
}
