/** @module The cost of graphs and programs: their steps as tasks, timed by the one model of `src/cost`. */

import { peakOf, type Task } from "../cost/cost.ts";
import { type Cost, costOfTasks, type Machine, machineFor } from "../cost/index.ts";
import { sendingOf } from "../cost/machine.ts";
import { type TaskIds, TaskList, tasksOf, totalBytes } from "../cost/tasks.ts";
import type { Graph } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { inMessageOrder, type Message } from "./messages.ts";
import { devicesOf, type Program, programsOf, type WorkStep } from "./program.ts";
import { transfersOf } from "./transfers.ts";

/**
 * What one run of a graph or of a program costs on one device, without running it. For several programs, of devices along
 * an axis that send each other messages (a pipeline), the cost is their sum, with the seconds until the last one ends and
 * the largest peak.
 *
 * @param machine default: the machine that plans assume; its devices share the resources of the program's mesh
 */
export function costOf(source: Graph | Program | readonly Program[], machine?: Machine): Cost {
  if ("steps" in source) return costOfTasks(tasksOfProgram(source), machineFor(devicesOf(source), machine));
  if ("outputs" in source) return costOfTasks(tasksOf(source), machineFor(1, machine));
  const lists = source.map(tasksOfProgram);
  const cost = costOfTasks(mergeTasks(source, lists), machineFor(devicesOf(source[0] as Program), machine));
  return { ...cost, peak: Math.max(...lists.map(peakOf)) };
}

function tasksOfProgram(program: Program): readonly Task[] {
  const list = new TaskList();
  const given = program.inputs.map(({ type }) => list.add({ makes: bytesOf(type), stays: true }));
  addProgram(program, list, given).forEach((indices, index) => {
    // An output in a donated input's memory needs no memory of its own.
    list.keep(indices, program.donated[index] === undefined ? undefined : 0);
  });
  return list.tasks;
}

/** The tasks of several devices as one list, in which each receive waits for its send. */
function mergeTasks(programs: readonly Program[], lists: readonly (readonly Task[])[]): Task[] {
  const messages = lists.map((list, device) => {
    const peers = (programs[device] as Program).steps.flatMap(transfersOf).map(({ attrs }) => attrs["peer"] as number);
    return list.map(({ sends }): Message => {
      const isMessage = sends?.name === "send" || sends?.name === "receive";
      return isMessage ? { [sends.name]: peers.shift() as number } : {};
    });
  });
  const merged: Task[] = [];
  const indices: number[][] = lists.map(() => []);
  inMessageOrder<number>(messages, (device, index, sent) => {
    const ofDevice = indices[device] as number[];
    const task = lists[device]?.[index] as Task;
    const after = [...task.after.map((other) => ofDevice[other] as number), ...(sent === undefined ? [] : [sent])];
    ofDevice.push(merged.push({ ...task, after, device }) - 1);
    return merged.length - 1;
  });
  return merged;
}

/** Adds a program whose inputs are made by the tasks given; gives the tasks of each output. */
function addProgram(program: Program, list: TaskList, given: readonly TaskIds[]): TaskIds[] {
  const made = new Map(given.entries());
  const tasksOfValue = (value: number): TaskIds => made.get(value) as TaskIds;
  for (const step of program.steps) {
    if (step.kind === "free") continue;
    const results = addStep(program, step, list, step.arguments.map(tasksOfValue));
    for (const [index, value] of step.results.entries()) made.set(value, results[index] as TaskIds);
  }
  return program.outputs.map(({ value }) => tasksOfValue(value));
}

function addStep({ values }: Program, step: WorkStep, list: TaskList, given: readonly TaskIds[]): readonly TaskIds[] {
  if (step.kind === "run") return list.addGraph(step.region, given);
  const after = [...new Set(given.flat())];
  const types = (of: readonly number[]): TensorType[] => of.map((value) => values[value] as TensorType);
  const makes = totalBytes(types(step.results));
  const run = (inner: Program): TaskIds => {
    const innerGiven = inner.inputs.map(() => after);
    return addProgram(inner, list, innerGiven).flat();
  };
  const add = (): TaskIds => {
    if (step.kind === "collective")
      return list.add({ makes, after, sends: sendingOf(step.op, types(step.arguments), step.attrs) });
    const ways = step.kind === "branch" ? step.branches.map((branch) => [branch]) : [programsOf(step)];
    return list.addInner(step.kind === "loop" ? (step.length ?? 1) : 1, ways, run, makes);
  };
  const indices = add();
  return step.results.map(() => indices);
}
