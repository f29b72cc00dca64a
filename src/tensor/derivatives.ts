/**
 * @module Derivatives of functions over trees of tensors: reverse mode (grad, valueAndGrad, vjp) and forward mode (jvp). They
 * nest in each other and in vmap, jit and loops, in any order.
 */

import { forwardGraph, gradients, pullback } from "../autodiff/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { inlineGraph } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import { formatType, sameType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { type FlatTree, flattenTree, treeKey, unflattenTree } from "../util/tree.ts";
import { checkFunction, checkNoMore, returned } from "./arguments.ts";
import { apart, capturedNodes, graphName, named, nodesOf, type Traced, traceBody, traced } from "./nested.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { jit } from "./transforms.ts";

const byTheFirst =
  "derivatives are by the first argument, a tree: for several write grad(({ a, b }) => …), for another grad((b) => f(a, b))";

/**
 * Value and gradient of a scalar function by its first argument, a tree of float tensors.
 *
 * @param fn returns a float scalar, or an array that begins with one; the rest of the array is passed on
 * @returns a function of the same arguments, compiled like one of {@link jit}
 * @throws HeddleError `gradient` if the function does not give a float scalar, a leaf is not float, or an op in between has
 *   no gradient.
 */
// biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; their own types are kept by the generics
export function valueAndGrad<P, Rest extends any[], Result extends Tensor | readonly [Tensor, ...unknown[]]>(
  fn: (params: P, ...rest: Rest) => Result,
  ...none: []
): (params: P, ...rest: Rest) => { value: Result; grad: P } {
  checkNoMore("valueAndGrad", none, byTheFirst);
  checkFunction("valueAndGrad", fn);
  const name = `gradient of ${fn.name === "" ? "function" : fn.name}`;
  const both = (params: P, ...rest: Rest): { value: Result; grad: P } => {
    if (typeof params !== "object" || params === null) {
      throw new HeddleError(
        "gradient",
        `grad: the first argument must be a tensor or a tree of them, got ${shown(params)}`,
      );
    }
    const flat = flattenTree(params, isTensor);
    return apart(graphName(fn, "function"), flat, (leaves) => {
      const value: unknown = returned(graphName(fn, "function"), fn(unflattenTree(flat.shape, leaves) as P, ...rest));
      const loss = Array.isArray(value) ? (value[0] as unknown) : value;
      if (!isTensor(loss)) {
        const message = "grad: the function must return a scalar tensor, or an array that begins with one";
        throw new HeddleError("gradient", `${message}, got ${shown(value)}`);
      }
      const grads = gradients(loss.node, nodesOf(leaves)).map(Tensor.ofNode);
      return { value: value as Result, grad: unflattenTree(flat.shape, grads) as P };
    });
  };
  return jit(both, { name }) as typeof both;
}

/** Gradient of a scalar function by its first argument, a tree of float tensors. See {@link valueAndGrad}. */
// biome-ignore lint/suspicious/noExplicitAny: see valueAndGrad
export function grad<P, Rest extends any[]>(
  fn: (params: P, ...rest: Rest) => Tensor | readonly [Tensor, ...unknown[]],
  ...none: []
): (params: P, ...rest: Rest) => P {
  checkNoMore("grad", none, byTheFirst);
  checkFunction("grad", fn);
  const both = valueAndGrad(fn);
  return (params, ...rest) => both(params, ...rest).grad;
}

/** A traced function and its arguments. */
interface Call {
  readonly flat: FlatTree<Tensor>;
  readonly body: Traced;
}

// biome-ignore lint/suspicious/noExplicitAny: see valueAndGrad
function callOf(fn: (...inputs: any[]) => unknown, inputs: readonly unknown[]): Call {
  const flat = flattenTree(inputs, isTensor);
  const body = traceBody(graphName(fn, "function"), named(flat, "x", flat.leaves), (leaves) =>
    fn(...(unflattenTree(flat.shape, leaves) as unknown[])),
  );
  return { flat, body };
}

/** Checks that a tree has the form, shapes and dtypes of another. */
function checkAlike(what: string, tree: FlatTree<Tensor>, like: FlatTree<Tensor>, of: string): void {
  const texts = [tree, like].map(({ paths }) => `[${listed(paths.map((path) => path || "(itself)"))}]`);
  if (treeKey(tree.shape) !== treeKey(like.shape))
    throw new HeddleError("argument", `${what} must have the form of ${of}: got ${texts[0]} for ${texts[1]}`);
  like.leaves.forEach((leaf, index) => {
    const got = tree.leaves[index] as Tensor;
    if (sameType(got, leaf)) return;
    const path = like.paths[index] === "" ? "" : ` at '${like.paths[index]}'`;
    throw new HeddleError("shape", `${what}${path}: ${formatType(got)} for ${of} ${formatType(leaf)}`);
  });
}

/**
 * Forward mode: value and directional derivative of a function in one pass (a Jacobian-vector product). It costs a small
 * multiple of the function, keeps nothing for a backward pass, and also works for {@link whileLoop}.
 *
 * @param fn a function over trees of tensors
 * @param primals its arguments
 * @param tangents the direction: a tensor for each tensor of the arguments, of the same shape and dtype; tangents of tensors that
 *   are not float are ignored
 * @returns `value`, and `tangent` in the same form: d/ds fn(primals + s · tangents) at s = 0; zeros for values that are not float
 * @throws HeddleError `argument` or `shape` for tangents that do not fit; `gradient` if an op in between has no gradient.
 * @example jvp((x) => x.mul(x), [tensor(3)], [tensor(1)]).tangent // 6
 */
export function jvp<Inputs extends readonly unknown[], Result>(
  fn: (...inputs: Inputs) => Result,
  primals: readonly [...Inputs],
  tangents: readonly [...Inputs],
): { value: Result; tangent: Result } {
  if (!Array.isArray(primals) || !Array.isArray(tangents))
    throw new HeddleError(
      "argument",
      "jvp: primals and tangents are arrays, with one for each argument of the function",
    );
  return traced("jvp", () => {
    const { flat, body } = callOf(fn, primals);
    const direction = flattenTree(tangents, isTensor);
    checkAlike("jvp: the tangents", direction, flat, "the primals");
    const duals = forwardGraph(body.graph, [
      ...flat.leaves.map(({ node, dtype }, index) => ({
        node,
        tangent: isFloat(dtype) ? (direction.leaves[index] as Tensor).node : undefined,
      })),
      ...capturedNodes(body.captured).map((node) => ({ node, tangent: undefined })),
    ]);
    const tree = (nodes: readonly Node[]): Result =>
      unflattenTree(body.output.shape, nodes.map(Tensor.ofNode)) as Result;
    return {
      value: tree(duals.map(({ node }) => node)),
      tangent: tree(duals.map(({ node, tangent }) => tangent ?? ops.zerosLike(node))),
    };
  });
}

/**
 * Reverse mode for functions of any result: the value, and a function from cotangents of the value to cotangents of the
 * arguments (a vector-Jacobian product).
 *
 * @param fn a function over trees of tensors
 * @returns `value`, and `pullback`, which takes a tree like the value and gives one like the arguments; zeros for tensors that are
 *   not float. Within {@link jit} the two share their work; outside of it the pullback runs the function again.
 * @throws HeddleError `argument` or `shape` for cotangents that do not fit; `gradient` if an op in between has no gradient.
 * @example vjp((x) => x.mul(x), tensor([1, 2])).pullback(tensor([1, 10])) // [[2, 40]]
 */
export function vjp<Inputs extends readonly unknown[], Result>(
  fn: (...inputs: Inputs) => Result,
  ...primals: Inputs
): { value: Result; pullback: (cotangent: Result) => Inputs } {
  let call: Call | undefined;
  const value = traced("vjp", () => {
    call = callOf(fn, primals);
    const { flat, body } = call;
    const outputs = inlineGraph(body.graph, [...nodesOf(flat.leaves), ...capturedNodes(body.captured)]);
    return unflattenTree(body.output.shape, outputs.map(Tensor.ofNode)) as Result;
  });
  const { flat, body } = call as unknown as Call;
  return {
    value,
    pullback: (cotangent) =>
      traced("vjp", () => {
        const flowing = flattenTree(cotangent, isTensor);
        checkAlike("pullback: the cotangents", flowing, body.output, "the value");
        const all = flattenTree([...flat.leaves, ...flowing.leaves], isTensor);
        const results = apart("pullback", all, (leaves) =>
          pulledBack(
            body.graph,
            nodesOf(leaves.slice(0, flat.leaves.length)),
            capturedNodes(body.captured),
            nodesOf(leaves.slice(flat.leaves.length)),
          ).map(Tensor.ofNode),
        );
        return unflattenTree(flat.shape, results) as unknown as Inputs;
      }),
  };
}

/** Cotangents of `inputs`; zeros for inputs that none reaches. */
function pulledBack(
  graph: Graph,
  inputs: readonly Node[],
  captured: readonly Node[],
  cotangents: readonly Node[],
): Node[] {
  const outputs = inlineGraph(graph, [...inputs, ...captured]);
  const flowing = outputs.map((output, index) => (isFloat(output.dtype) ? cotangents[index] : undefined));
  const smooth = inputs.filter(({ dtype }) => isFloat(dtype));
  const pulled = new Map(
    pullback(outputs, flowing, smooth, { independent: false }).map((value, at) => [smooth[at], value]),
  );
  return inputs.map((input) => pulled.get(input) ?? ops.zerosLike(input));
}
