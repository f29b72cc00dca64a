/**
 * @module Composites: named ops that are defined by a body of other ops. The body is the meaning, the fallback and the oracle;
 * a kernel or a gradient rule may replace it, and is tested against it.
 */

import type { Equation } from "../ir/equation.ts";
import { inlineGraph, traceGraph } from "../ir/graph.ts";
import type { LowerRule, OpForm } from "../ir/kernel.ts";
import {
  type Absent,
  type Attrs,
  absent,
  type BatchRule,
  type Dual,
  type ForwardContext,
  type GradientContext,
  type Graph,
  type HostTensor,
  type Node,
  type OpDef,
  type OpExample,
} from "../ir/node.ts";
import { enter } from "../ir/op.ts";
import { sameType, type TensorType } from "../ir/shape.ts";
import { Trace } from "../ir/trace.ts";
import { flopsTo } from "../ir/walk.ts";
import { faultError } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { evaluateGraph } from "./evaluate.ts";

export interface CompositeDef<A extends Attrs> extends Pick<OpDef<A>, "says"> {
  readonly name: string;
  readonly doc: string;
  readonly example: OpExample<A> | Absent;
  readonly body: (inputs: readonly Node[], attrs: A) => readonly Node[];
  /** Absent: the planner looks into the body. */
  readonly equation: ((inputs: readonly TensorType[], attrs: A) => Equation) | Absent;
  readonly linear: readonly (readonly number[])[];
  /** Absent: the body is differentiated. */
  readonly gradient: ((context: GradientContext<A>) => readonly (Node | undefined)[]) | Absent;
  /** Values and tangents. Default: derived from the gradient or the body. */
  readonly forward?: (context: ForwardContext<A>) => readonly Dual[];
  /** Absent: the body is batched. */
  readonly batch: BatchRule<A> | Absent;
  /** Absent: passes replace the op by its body. */
  readonly form: OpForm<A> | Absent;
  /** The native kernel, where the form is `kernel`; executors without it run the body. */
  readonly lower?: LowerRule<A> | Absent;
  /** Default: attributes hold no sizes. */
  readonly localize?: OpDef<A>["localize"];
  /** Default: what its body costs. */
  readonly cost?: OpDef<A>["cost"];
  /** Checks the input types before the body does, for better messages. */
  readonly check?: (inputs: readonly TensorType[], attrs: A) => void;
  /** The fault of values that make the run fail, for a better message than the body's. */
  readonly refuse?: (inputs: readonly HostTensor[], attrs: A) => Fault | undefined;
}

/** The body of a composite as a graph over inputs of these types. */
export function bodyGraph<A extends Attrs>(
  op: Pick<OpDef<A>, "name" | "body">,
  inputs: readonly TensorType[],
  attrs: A,
): Graph {
  const { body } = op;
  if ("absent" in body) throw new TypeError(`${op.name} is a primitive`);
  const specs = inputs.map((type, index) => ({ name: `x${index}`, type }));
  const trace = (placed: boolean): Graph =>
    traceGraph(op.name, specs, (...nodes) => body(nodes, attrs), new Trace(placed));
  try {
    // A body is traced often, and its nodes take the composite's position: positions in the body are captured for errors only.
    return trace(false);
  } catch {
    return trace(true);
  }
}

/** Defines a composite op. */
export function defineComposite<A extends Attrs>(definition: CompositeDef<A>): OpDef<A> {
  const { check, refuse, forward = absent("follows from its gradient or its body"), ...rest } = definition;
  const graphOf = (inputs: readonly TensorType[], attrs: A): Graph => bodyGraph(rest, inputs, attrs);
  // A node is evaluated many times, always with the same attributes and types.
  const evaluated = new WeakMap<A, Graph>();
  const graphFor = (inputs: readonly TensorType[], attrs: A): Graph => {
    const known = evaluated.get(attrs);
    if (known?.inputs.every((node, index) => sameType(node, inputs[index] as TensorType)) === true) return known;
    const graph = graphOf(inputs, attrs);
    evaluated.set(attrs, graph);
    return graph;
  };
  const op: OpDef<A> = enter<A>({
    ...rest,
    infer: (inputs, attrs) => {
      check?.(inputs, attrs);
      return graphOf(inputs, attrs).outputs.map((output) => output.types[0] as TensorType);
    },
    localize: definition.localize ?? absent("attributes hold no sizes"),
    forward,
    control: absent("owns no graphs"),
    communication: absent("its body may"),
    cost: definition.cost ?? ((inputs, _outputs, attrs) => flopsTo(graphOf(inputs, attrs).outputs)),
    reference: (inputs, attrs, _outputs, context) => {
      const refused = refuse?.(inputs, attrs);
      if (refused !== undefined) throw faultError(refused);
      return evaluateGraph(graphFor(inputs, attrs), inputs, context).map((output) => output.data);
    },
  });
  return op;
}

/** Replaces a composite node by its body, on the given inputs, in the current trace. */
export function expandNode(node: Node, inputs: readonly Node[]): Node[] {
  const graph = bodyGraph(
    node.op,
    inputs.map((input) => input.types[0] as TensorType),
    node.attrs,
  );
  return inlineGraph(graph, inputs);
}
