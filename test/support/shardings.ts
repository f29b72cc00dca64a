/** @module The legal shardings of a node over one mesh axis, as the definition of equations says; kept apart from the planner's. */
import type { Equation } from "../../src/ir/equation.ts";
import { elementOp } from "../../src/ir/leaf.ts";
import { isAbsent, type Node } from "../../src/ir/node.ts";
import type { TensorType } from "../../src/ir/shape.ts";

/** `"S(0), R -> P(sum)"` for each letter that may be split and each set of inputs that is linear. */
export function legalShardings(given: Node): string[] {
  // One of several results stands for the op that made them.
  const node = given.op === elementOp ? (given.inputs[0] as Node) : given;
  const { equation: rule, linear: sets } = node.op;
  if (isAbsent(rule)) return [];
  const inputs = node.inputs.map((input) => input.types[0] as TensorType);
  const equation: Equation = rule(inputs, node.attrs);
  // What is only waited for is split or not as it comes.
  const read = equation.inputs.filter((_operand, index) => equation.waits?.includes(index) !== true);
  const letters = new Set([...read, ...equation.outputs].flat());
  const place = (operand: readonly string[], letter: string, missing: string): string =>
    operand.includes(letter) ? `S(${operand.indexOf(letter)})` : missing;
  const line = (left: readonly string[], right: readonly string[]): string =>
    `${left.join(", ")} -> ${right.join(", ")}`.trim();
  const split = [...letters]
    .filter((letter) => !equation.whole.has(letter))
    .map((letter) =>
      line(
        equation.inputs.map((operand) => place(operand, letter, "R")),
        equation.outputs.map((operand) => place(operand, letter, `P(${equation.reduction})`)),
      ),
    );
  const linear = (typeof sets === "function" ? sets(node.attrs, inputs) : sets).map((set) =>
    line(
      inputs.map((_input, index) => (set.includes(index) ? "P(sum)" : "R")),
      equation.outputs.map(() => "P(sum)"),
    ),
  );
  return [...split, ...linear];
}
