/** @module What the `null` executor does with a program: counts arithmetic, memory traffic and communication. */

import { communicationNamed } from "../ir/communication.ts";
import { parameterOp } from "../ir/leaf.ts";
import { isAbsent, type Node } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { topological, usersOf } from "../ir/walk.ts";
import { type CollectiveStep, isTransfer, type Program, type Step } from "./program.ts";

/** The collectives of one kind on one axis. */
export interface CollectiveCount {
  readonly op: string;
  readonly axis: string;
  readonly count: number;
  /** Bytes that each device sends in one run, by the ring algorithms. */
  readonly bytesSent: number;
}

/** What one device does in one run of a program. */
export interface ProgramCount {
  /** Arithmetic operations, by the ops' own cost. */
  readonly operations: number;
  /** Estimate of bytes read and written, as if elementwise neighbours were fused. */
  readonly bytesMoved: number;
  /** In order of first appearance. */
  readonly collectives: readonly CollectiveCount[];
  readonly bytesSent: number;
  /** Bytes of inputs, and of outputs that take over no input. */
  readonly argumentBytes: number;
}

interface Work {
  readonly operations: number;
  readonly bytesMoved: number;
  readonly collectives: readonly CollectiveCount[];
}

const nothing: Work = { operations: 0, bytesMoved: 0, collectives: [] };

function together(one: Work, other: Work): Work {
  const collectives = new Map<string, CollectiveCount>();
  for (const each of [...one.collectives, ...other.collectives]) {
    const key = `${each.op} ${each.axis}`;
    const known = collectives.get(key) ?? { ...each, count: 0, bytesSent: 0 };
    collectives.set(key, {
      ...known,
      count: known.count + each.count,
      bytesSent: known.bytesSent + each.bytesSent,
    });
  }
  return {
    operations: one.operations + other.operations,
    bytesMoved: one.bytesMoved + other.bytesMoved,
    collectives: [...collectives.values()],
  };
}

const repeated = (work: Work, times: number): Work => ({
  operations: work.operations * times,
  bytesMoved: work.bytesMoved * times,
  collectives: work.collectives.map((one) => ({ ...one, count: one.count * times, bytesSent: one.bytesSent * times })),
});

const workOf = (program: Program): Work =>
  program.steps.reduce((total, step) => together(total, workOfStep(program, step)), nothing);

function workOfStep(program: Program, step: Step): Work {
  switch (step.kind) {
    case "free":
      return nothing;
    case "run":
      return { ...countNodes(topological(step.region.outputs), new Set(step.region.outputs)), collectives: [] };
    case "collective":
      return {
        ...nothing,
        collectives: [{ op: step.op, axis: step.axis, count: 1, bytesSent: bytesSent(program, step) }],
      };
    case "loop": {
      // How often a condition holds is not known: one iteration is what can be said.
      const test = step.condition === undefined ? nothing : workOf(step.condition);
      return together(repeated(workOf(step.body), step.length ?? 1), test);
    }
    case "branch": {
      const [left, right] = step.branches.map(workOf) as [Work, Work];
      return left.operations >= right.operations ? left : right;
    }
  }
}

/**
 * Counts one run of a program on one device, without running it: of a loop all iterations (one where a condition ends
 * it), of a branch the one with more arithmetic.
 */
export function countProgram(program: Program): ProgramCount {
  const { operations, bytesMoved, collectives } = workOf(program);
  const arguments_ = program.inputs.reduce((sum, input) => sum + bytesOf(input.type), 0);
  const results = program.outputs.reduce(
    (sum, output, index) => (program.donated[index] === undefined ? sum + bytesOf(output.type) : sum),
    0,
  );
  return {
    operations,
    bytesMoved,
    collectives,
    bytesSent: collectives.reduce((sum, one) => sum + one.bytesSent, 0),
    argumentBytes: arguments_ + results,
  };
}

/** Bytes that one device sends for a collective, as its op says. */
export function bytesSent(program: Program, step: CollectiveStep): number {
  const given = step.arguments.map((value) => program.values[value] as TensorType);
  // A transfer is one message.
  if (isTransfer(step)) return given.reduce((sum, type) => sum + bytesOf(type), 0);
  return communicationNamed(step.op).traffic(given, step.attrs).bytes;
}

type Kind = "view" | "scalar" | "other";

function kindOf(node: Node): Kind {
  const { form } = node.op;
  if (node.op === parameterOp) return "view";
  if (isAbsent(form)) return "other";
  if (form.kind === "view" || form.kind === "element") return "view";
  return form.kind === "pointwise" ? (node.inputs.length === 0 ? "view" : "scalar") : "other";
}

const bytesOfNode = (node: Node): number => node.types.reduce((sum, type) => sum + bytesOf(type), 0);

/** Bytes read through a view: no more than what it shows; constants are made in registers. */
function bytesRead(node: Node): number {
  let bytes = bytesOfNode(node);
  let base = node;
  while (kindOf(base) === "view" && base.op !== parameterOp) {
    if (base.inputs.length === 0) return 0;
    base = base.inputs[0] as Node;
    bytes = Math.min(bytes, bytesOfNode(base));
  }
  return bytes;
}

function countNodes(nodes: readonly Node[], results: ReadonlySet<Node>): { operations: number; bytesMoved: number } {
  const users = usersOf(nodes);
  let operations = 0;
  let bytesMoved = 0;
  for (const node of nodes) {
    const kind = kindOf(node);
    if (kind === "view") continue;
    operations += node.op.cost(
      node.inputs.flatMap((input) => input.types),
      node.types,
      node.attrs,
    );
    const inMemory = (input: Node): boolean => kind === "other" || kindOf(input) !== "scalar";
    for (const input of new Set(node.inputs)) if (inMemory(input)) bytesMoved += bytesRead(input);
    const stored =
      kind === "other" || results.has(node) || (users.get(node) as Node[]).some((user) => kindOf(user) !== "scalar");
    if (stored) bytesMoved += bytesOfNode(node);
  }
  return { operations, bytesMoved };
}
