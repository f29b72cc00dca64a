/** @module Which results of a graph depend on which of its inputs, looking into loops, branches and composites. */
import { controlOf, type LoopControl } from "../ir/control.ts";
import { interpretGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { isGraph } from "../ir/trace.ts";
import { bodyGraph } from "./composite.ts";

type Flags = readonly boolean[];
const any = (flags: Flags): boolean => flags.includes(true);

/** For each output, whether its value depends on one of the inputs that are marked. */
export function dependentOutputs(graph: Graph, inputs: Flags): boolean[] {
  const results = interpretGraph<Flags>(
    graph,
    inputs.map((flag) => [flag]),
    (node, flags) =>
      node.op === elementOp
        ? [flags[0]?.[node.attrs["index"] as number] === true]
        : dependentResults(
            node,
            flags.map(([flag]) => flag === true),
          ),
  );
  return results.map(([flag]) => flag === true);
}

function dependentResults(node: Node, flags: Flags): Flags {
  const { op, attrs, types } = node;
  if (!any(flags)) return types.map(() => false);
  const inputs = node.inputs.map((input) => input.types[0] as TensorType);
  const control = controlOf(node);
  if (control?.kind === "loop") return dependentCarries(control, flags);
  if (control?.kind === "branch") {
    const [left, right] = control.branches.map((branch) =>
      dependentOutputs(branch, flags.slice(1)),
    ) as unknown as readonly [Flags, Flags];
    return types.map((_type, index) => flags[0] === true || left[index] === true || right[index] === true);
  }
  if (!isAbsent(op.body) && Object.values(attrs).some(isGraph))
    return dependentOutputs(bodyGraph(op, inputs, attrs), flags);
  const waits = isAbsent(op.equation) ? [] : (op.equation(inputs, attrs).waits ?? []);
  return types.map(() => flags.some((flag, index) => flag && !waits.includes(index)));
}

/** Which carries and stacks depend on the marked inputs after any number of iterations. */
function dependentCarries({ body, condition, carries }: LoopControl, inputs: Flags): Flags {
  let flags = [false, ...inputs];
  for (;;) {
    const results = dependentOutputs(body, flags);
    const ends = condition !== undefined && any(dependentOutputs(condition, flags));
    const grown = flags.map(
      (flag, index) => flag || (index > 0 && index <= carries && (ends || results[index - 1] === true)),
    );
    if (grown.every((flag, index) => flag === flags[index]))
      return results.map((flag, index) => flag || (index < carries && grown[index + 1] === true));
    flags = grown;
  }
}
