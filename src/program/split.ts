/**
 * @module Cuts the graph of one device into a program: regions of compute, and collectives that are issued as soon as
 * their inputs exist, so that they run while computing continues.
 */

import { isCollective } from "../ir/communication.ts";
import { controlOf } from "../ir/control.ts";
import { isInteger } from "../ir/dtype.ts";
import type { Reduction } from "../ir/equation.ts";
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, atPositionOf } from "../ir/trace.ts";
import { topological, usersOf } from "../ir/walk.ts";
import { type Ordered, orderSteps } from "../prefetch/order.ts";
import { HeddleError } from "../util/errors.ts";
import type { Program, ProgramAxis, RunStep, Step, ValueId, WorkStep } from "./program.ts";

/** Options of {@link splitGraph}. */
export interface SplitOptions {
  readonly name?: string;
  /** Names of the outputs; `output 0` and so on by default. */
  readonly outputNames?: readonly string[];
  /** For each output the index of the input whose buffer it takes over. */
  readonly donated?: readonly (number | undefined)[];
}

/** Whether the op is a separate step: it communicates, or runs programs. */
const isSeparateStep = (node: Node): boolean => isCollective(node) || controlOf(node) !== undefined;

/** Whether a region that needs this value computes it again instead of taking it as input: views and constants cost nothing. */
export function isRepeated(node: Node): boolean {
  const { form } = node.op;
  if (isAbsent(form)) return false;
  return form.kind === "view" || (form.kind === "pointwise" && node.inputs.length === 0);
}

/** Splits a graph with one device's types into a program. Equal graphs give equal programs. */
export function splitGraph(graph: Graph, axes: readonly ProgramAxis[], options: SplitOptions = {}): Program {
  return new Splitter(graph, axes, options).program();
}

type Part = { readonly kind: "run"; readonly nodes: Node[] } | { readonly kind: "apart"; readonly node: Node };

class Splitter {
  private readonly graph: Graph;
  private readonly axes: readonly ProgramAxis[];
  private readonly options: SplitOptions;
  private readonly order: readonly Node[];
  private readonly parts: Part[] = [];
  /** Index of the part that computes a node. */
  private readonly position = new Map<Node, number>();
  private readonly ids = new Map<Node, ValueId>();
  private readonly types: TensorType[] = [];

  constructor(graph: Graph, axes: readonly ProgramAxis[], options: SplitOptions) {
    this.graph = graph;
    this.axes = axes;
    this.options = options;
    this.order = topological(graph.outputs);
  }

  program(): Program {
    for (const input of this.graph.inputs) this.define(input, input.types[0] as TensorType);
    for (const { node, needs } of this.separateSteps()) this.ensure([...needs, node]);
    this.ensure(this.graph.outputs);
    const steps = this.steps();
    const outputs = this.graph.outputs.map((node, index) => ({
      name: this.options.outputNames?.[index] ?? `output ${index}`,
      type: node.types[0] as TensorType,
      value: this.ids.get(node) as ValueId,
    }));
    return {
      name: this.options.name ?? this.graph.name,
      axes: this.axes,
      inputs: inputSpecs(this.graph),
      outputs,
      values: this.types,
      steps: withFrees(
        steps,
        this.graph.inputs.length,
        outputs.map((output) => output.value),
      ),
      donated: this.graph.outputs.map((_node, index) => this.options.donated?.[index]),
    };
  }

  /** Collectives, loops and branches in order, with what is computed before each. */
  private separateSteps(): Ordered[] {
    const steps = this.order.filter(isSeparateStep);
    const names = this.axes.map(({ name }) => name);
    for (const { op, attrs } of steps.filter(isCollective)) {
      if (names.includes(attrs["axis"] as string)) continue;
      const known = names.join(", ") || "none";
      throw new HeddleError("program", `${op.name}: the axis '${String(attrs["axis"])}' is not among ${known}`);
    }
    return orderSteps(this.order, steps);
  }

  /** Puts the nodes' inputs and the nodes into the open region, the one after the last separate step; separate steps among them stand apart. */
  private ensure(nodes: readonly Node[]): void {
    const missing = topological(nodes).filter((node) => !this.position.has(node) && node.op !== parameterOp);
    for (const node of missing) {
      const source = node.inputs[0] as Node;
      // An element is in the part of its tuple.
      if (node.op === elementOp) this.placeIn(this.position.get(source) as number, node);
      else if (isSeparateStep(node)) this.placeIn(this.parts.push({ kind: "apart", node }) - 1, node);
      else this.placeIn(this.openRegion(), node);
    }
  }

  private openRegion(): number {
    if (this.parts.at(-1)?.kind !== "run") this.parts.push({ kind: "run", nodes: [] });
    return this.parts.length - 1;
  }

  private placeIn(index: number, node: Node): void {
    const part = this.parts[index] as Part;
    if (part.kind === "run") part.nodes.push(node);
    this.position.set(node, index);
  }

  private define(node: Node, type: TensorType): ValueId {
    this.ids.set(node, this.types.length);
    this.types.push(type);
    return this.types.length - 1;
  }

  private steps(): WorkStep[] {
    const users = usersOf(this.order);
    const needed = new Set<Node>(this.graph.outputs);
    for (const part of this.parts) if (part.kind === "apart") for (const input of part.node.inputs) needed.add(input);
    const steps: WorkStep[] = [];
    this.parts.forEach((part, index) => {
      const step = part.kind === "run" ? this.run(part.nodes, index, users, needed) : this.workOf(part.node, users);
      if (step !== undefined) steps.push(step);
    });
    return steps;
  }

  private run(
    nodes: readonly Node[],
    index: number,
    users: ReadonlyMap<Node, readonly Node[]>,
    needed: ReadonlySet<Node>,
  ): RunStep | undefined {
    // A user of a view in another part is a user of the viewed value.
    const isUsedElsewhere = (node: Node): boolean =>
      (users.get(node) as readonly Node[]).some(
        (user) =>
          (this.position.get(user) !== index && !isSeparateStep(user)) || (isRepeated(user) && isUsedElsewhere(user)),
      );
    const results = nodes.filter(
      (node) => node.types.length === 1 && (needed.has(node) || (!isRepeated(node) && isUsedElsewhere(node))),
    );
    if (results.length === 0) return undefined;
    const inside = new Set(nodes.filter((node) => !isRepeated(node)));
    const members = walkWithin(results, (node) => node.op !== parameterOp && (inside.has(node) || isRepeated(node)));
    const computed = new Set(members);
    const inputs = [...new Set(members.flatMap((node) => node.inputs))].filter((node) => !computed.has(node));
    inputs.sort((left, right) => (this.ids.get(left) as ValueId) - (this.ids.get(right) as ValueId));
    const arguments_ = inputs.map((node) => this.ids.get(node) as ValueId);
    const region = regionGraph(`region${index}`, inputs, arguments_, members, results);
    return {
      kind: "run",
      region,
      arguments: arguments_,
      results: results.map((node) => this.define(node, node.types[0] as TensorType)),
    };
  }

  /** The step of a collective, a loop or a branch. */
  private workOf(node: Node, users: ReadonlyMap<Node, readonly Node[]>): WorkStep {
    const arguments_ = node.inputs.map((input) => this.ids.get(input) as ValueId);
    const results = node.types.map((type, index) => {
      const id = this.types.length;
      const element = (users.get(node) as readonly Node[]).find(
        (user) => user.op === elementOp && user.attrs["index"] === index,
      );
      this.define(element ?? node, type);
      if (node.types.length === 1) this.ids.set(node, id);
      return id;
    });
    const control = controlOf(node);
    if (control?.kind === "loop") {
      const { body, condition, length, reverse, carries, slices } = control;
      const parts = {
        body: this.ownedProgram(body),
        condition: condition === undefined ? undefined : this.ownedProgram(condition),
      };
      return { kind: "loop", ...parts, length, reverse, carries, slices, arguments: arguments_, results };
    }
    if (control?.kind === "branch") {
      const [onTrue, onFalse] = control.branches;
      const branches = [this.ownedProgram(onTrue), this.ownedProgram(onFalse)] as const;
      return { kind: "branch", branches, arguments: arguments_, results };
    }
    const { axis, reduction, label } = node.attrs as { axis: string; reduction?: Reduction; label?: string };
    return {
      kind: "collective",
      op: node.op.name,
      axis,
      ...(reduction === undefined ? {} : { reduction }),
      label: label ?? "",
      attrs: node.attrs,
      arguments: arguments_,
      results,
    };
  }

  private ownedProgram(graph: Graph): Program {
    return splitGraph(graph, this.axes);
  }
}

/** Whether a run may fail for the node's input values: only then its source position is kept. */
const canRefuse = (node: Node): boolean => isAbsent(node.op.form) || refusesValues(node);

/** Whether the op itself refuses some input values, and not only the ops of its body. */
export function refusesValues({ op: { form, name }, dtype }: Node): boolean {
  if (isAbsent(form)) return false;
  return form.kind === "kernel" || ((name === "div" || name === "rem") && isInteger(dtype));
}

/** The nodes that `results` need, inputs before users, without crossing nodes that are not `inside`. */
function walkWithin(results: readonly Node[], inside: (node: Node) => boolean): Node[] {
  const order: Node[] = [];
  const seen = new Set<Node>();
  const stack: { node: Node; next: number }[] = [];
  const enter = (node: Node): void => {
    if (seen.has(node) || !inside(node)) return;
    seen.add(node);
    stack.push({ node, next: 0 });
  };
  for (const result of results) {
    enter(result);
    while (stack.length > 0) {
      const top = stack.at(-1) as { node: Node; next: number };
      const input = top.node.inputs[top.next++];
      if (input !== undefined) enter(input);
      else {
        order.push(top.node);
        stack.pop();
      }
    }
  }
  return order;
}

/** The graph of `members` that computes `results` from `inputs`. */
function regionGraph(
  name: string,
  inputs: readonly Node[],
  ids: readonly ValueId[],
  members: readonly Node[],
  results: readonly Node[],
): Graph {
  const specs = inputs.map((node, index) => ({
    name: node.op === parameterOp ? String(node.attrs["name"]) : `v${ids[index]}`,
    type: node.types[0] as TensorType,
  }));
  return traceGraph(name, specs, (...copiedInputs) => {
    const copies = new Map<Node, Node>(inputs.map((node, index) => [node, copiedInputs[index] as Node]));
    for (const node of members) {
      const operands = node.inputs.map((input) => copies.get(input) as Node);
      const copy = (): Node => apply(node.op, operands, node.attrs);
      copies.set(node, canRefuse(node) ? atPositionOf(node, copy) : copy());
    }
    return results.map((node) => copies.get(node) as Node);
  });
}

/** Adds a free step after the last use of each value that is neither an input nor an output. */
export function withFrees(steps: readonly WorkStep[], inputs: number, outputs: readonly ValueId[]): Step[] {
  const last = new Map<ValueId, number>();
  steps.forEach((step, index) => {
    for (const value of [...step.results, ...step.arguments]) last.set(value, index);
  });
  const outputSet = new Set(outputs);
  return steps.flatMap((step, index): Step[] => {
    const unused = [...new Set([...step.arguments, ...step.results])].filter(
      (value) => value >= inputs && !outputSet.has(value) && last.get(value) === index,
    );
    return unused.length === 0 ? [step] : [step, { kind: "free", values: unused.sort((left, right) => left - right) }];
  });
}
