/** @module What a graph has to do: its nodes as tasks, with what is known of fusing before anything is lowered. */
import { isCollective } from "../ir/communication.ts";
import { controlOf } from "../ir/control.ts";
import { movesElements } from "../ir/kernel.ts";
import { parameterOp } from "../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { flopsOf, topological, usersOf } from "../ir/walk.ts";
import type { Task } from "./cost.ts";
import { sendingOf } from "./machine.ts";

/** The indices of tasks in the list. */
export type TaskIds = readonly number[];

/** A list of tasks that grows. */
export class TaskList {
  /** In the order in which a device takes them up. */
  readonly tasks: Task[] = [];
  private times = 1;

  /** Adds a task; gives its index. */
  add(task: Partial<Task>): TaskIds {
    return [
      this.tasks.push({ flops: 0, bytes: 0, calls: 0, after: [], makes: 0, stays: false, times: this.times, ...task }) -
        1,
    ];
  }

  /** Says of the memory of tasks that it stays to the end, and whether it is another's. */
  keep(indices: TaskIds, makes?: number): void {
    for (const index of indices) {
      const task = this.tasks[index] as Task;
      this.tasks[index] = { ...task, makes: makes ?? task.makes, stays: true };
    }
  }

  /** Adds what is run so many times, of several ways (each a list) the one with most arithmetic, and then what it gives. */
  addInner<Inner>(
    times: number,
    ways: readonly (readonly Inner[])[],
    run: (inner: Inner) => TaskIds,
    makes: number,
  ): TaskIds {
    const around = this.times;
    this.times *= times;
    const tried = ways.map((way) => {
      const start = this.tasks.length;
      const after = way.flatMap(run);
      // The next way begins where this one did, so that indices stay valid.
      const tasks = this.tasks.splice(start);
      return { tasks, after, flops: sum(tasks.map((task) => task.times * task.flops)) };
    });
    const { tasks, after } = tried.reduce((most, way) => (way.flops > most.flops ? way : most));
    for (const task of tasks) this.tasks.push(task);
    this.times = around;
    return this.add({ makes, after });
  }

  /** Adds a graph whose parameters are made by the tasks given; gives the tasks of each output. */
  addGraph(graph: Pick<Graph, "inputs" | "outputs">, given: readonly TaskIds[]): TaskIds[] {
    const nodes = topological(graph.outputs);
    const users = usersOf(nodes);
    const results = new Set(graph.outputs);
    const made = new Map<Node, TaskIds>(graph.inputs.map((node, index) => [node, given[index] as TaskIds]));
    for (const node of nodes) {
      if (made.has(node)) continue;
      const after = [...new Set(node.inputs.flatMap((input) => made.get(input) as TaskIds))];
      const isRead = results.has(node) || (users.get(node) as Node[]).some((user) => kindOf(user) !== "pointwise");
      made.set(node, kindOf(node) === "view" ? after : this.addNode(node, after, isRead));
    }
    return graph.outputs.map((node) => made.get(node) as TaskIds);
  }

  private addNode(node: Node, after: TaskIds, isRead: boolean): TaskIds {
    const { op, inputs, attrs } = node;
    const control = controlOf(node);
    const makes = totalBytes(node.types);
    const run = (graph: Graph): TaskIds => {
      const given = graph.inputs.map(() => after);
      return this.addGraph(graph, given).flat();
    };
    if (control !== undefined) {
      const [times, ways] =
        control.kind === "branch"
          ? [1, control.branches.map((graph) => [graph])]
          : [control.length ?? 1, [[control.body, control.condition ?? []].flat()]];
      return this.addInner(times, ways, run, makes);
    }
    const types = inputs.flatMap((input) => input.types);
    if (isCollective(node)) return this.add({ makes, after, sends: sendingOf(op.name, types, attrs) });
    const isPointwise = kindOf(node) === "pointwise";
    const read = [...new Set(inputs)].filter((input) => !isPointwise || kindOf(input) !== "pointwise").map(bytesRead);
    const written = isPointwise && !isRead ? 0 : makes;
    const bytes = kernelBytes(node, read, written);
    return this.add({
      flops: flopsOf(node),
      bytes,
      calls: written === 0 ? 0 : 1,
      makes: written,
      after,
    });
  }
}

/** The tasks of a graph whose inputs and outputs are there to the end. */
export function tasksOf(graph: Graph): readonly Task[] {
  const list = new TaskList();
  const given = graph.inputs.map(({ types }) => list.add({ makes: totalBytes(types), stays: true }));
  list.keep(list.addGraph(graph, given).flat());
  return list.tasks;
}

/** A view costs nothing, and pointwise functions of one walk neither read nor write what is between them. */
function kindOf({ op, inputs }: Node): "view" | "pointwise" | "kernel" {
  if (op === parameterOp) return "view";
  if (isAbsent(op.form)) return "kernel";
  const { kind } = op.form;
  return kind === "element" || (kind === "pointwise" && inputs.length === 0) ? "view" : kind;
}

/** Bytes of values of these types. */
export const totalBytes = (types: readonly TensorType[]): number => sum(types.map(bytesOf));
const sum = (numbers: readonly number[]): number => numbers.reduce((total, value) => total + value, 0);

/** Bytes that a node by itself touches, of so many of each input and of the outputs: none where it may be a part of another's walk. */
export const bytesTouched = (node: Node, inputs: readonly number[], outputs: number): number =>
  kindOf(node) === "kernel" ? kernelBytes(node, inputs, outputs) : 0;

/** Bytes that a kernel touches: of what it moves as it is no more than it writes, of what it changes in place only that. */
function kernelBytes({ op: { form }, attrs }: Node, inputs: readonly number[], outputs: number): number {
  if (!isAbsent(form) && form.kind === "kernel" && form.updates) return 2 * sum(inputs.slice(1));
  return outputs + sum(movesElements(form, attrs) ? inputs.map((bytes) => Math.min(bytes, outputs)) : inputs);
}

/** Bytes read through a view: no more than what it shows; constants are made in registers. */
function bytesRead(node: Node): number {
  let bytes = totalBytes(node.types);
  let base = node;
  while (kindOf(base) === "view" && base.op !== parameterOp) {
    if (base.inputs.length === 0) return 0;
    base = base.inputs[0] as Node;
    bytes = Math.min(bytes, totalBytes(base.types));
  }
  return bytes;
}
