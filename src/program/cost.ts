/** @module The cost of graphs and programs: their steps as tasks, timed by the one model of `src/cost`. */

import { peakOf, type Task } from "../cost/cost.ts";
import { type Cost, costOfTasks, type Machine, machineFor } from "../cost/index.ts";
import { sendingOf } from "../cost/machine.ts";
import { type Places, TaskList, tasksOf, totalBytes } from "../cost/tasks.ts";
import type { Graph } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { devicesOf, isTransfer, type Program, type WorkStep } from "./program.ts";

/**
 * What one run of a graph or of a program costs on one device, without running it. For several programs, of devices along
 * an axis that send each other messages (a pipeline), the cost is their sum, with the seconds until the last one ends and
 * the largest peak.
 *
 * @param machine default: the machine that plans assume; its devices share the resources of the program's mesh
 */
export function costOf(source: Graph | Program | readonly Program[], machine?: Machine): Cost {
  if (!("steps" in source)) {
    if ("outputs" in source) return costOfTasks(tasksOf(source), machineFor(1, machine));
    const lists = source.map(tasksOfProgram);
    const cost = costOfTasks(mergeTasks(source, lists), machineFor(devicesOf(source[0] as Program), machine));
    return { ...cost, peak: Math.max(...lists.map(peakOf)) };
  }
  return costOfTasks(tasksOfProgram(source), machineFor(devicesOf(source), machine));
}

function tasksOfProgram(program: Program): readonly Task[] {
  const list = new TaskList();
  const inputTasks = program.inputs.map(({ type }) => list.add({ makes: bytesOf(type), stays: true }));
  const tasksOfValue = addSteps(program, list, inputTasks);
  program.outputs.forEach(({ value }, index) => {
    // An output in a donated input's memory needs no memory of its own.
    list.keep(tasksOfValue.get(value) as Places, program.donated[index] === undefined ? undefined : 0);
  });
  return list.tasks;
}

/** The tasks of several devices as one list, in which each receive waits for its send. */
function mergeTasks(programs: readonly Program[], lists: readonly (readonly Task[])[]): Task[] {
  const peers = programs.map(({ steps }) =>
    steps.flatMap((step) => (step.kind === "collective" && isTransfer(step) ? [step.attrs["peer"] as number] : [])),
  );
  const merged: Task[] = [];
  const places: number[][] = lists.map(() => []);
  const mailboxes = new Map<string, number[]>();
  const mailbox = (from: number, to: number): number[] => {
    const queue = mailboxes.get(`${from} ${to}`) ?? [];
    mailboxes.set(`${from} ${to}`, queue);
    return queue;
  };
  const advance = (device: number): boolean => {
    const [placesOfDevice, list] = [places[device] as number[], lists[device] as readonly Task[]];
    const task = list[placesOfDevice.length];
    if (task === undefined) return false;
    const after = task.after.map((place) => placesOfDevice[place] as number);
    const name = task.sends?.name;
    if (name === "receive") {
      const sent = mailbox(peers[device]?.[0] as number, device).shift();
      if (sent === undefined) return false;
      after.push(sent);
    }
    placesOfDevice.push(merged.push({ ...task, after, device }) - 1);
    if (name === "send") mailbox(device, peers[device]?.[0] as number).push(merged.length - 1);
    if (name === "send" || name === "receive") peers[device]?.shift();
    return true;
  };
  for (let progress = true; progress; ) {
    progress = false;
    for (const device of lists.keys()) while (advance(device)) progress = true;
  }
  return merged;
}

/** Adds the steps of a program; returns the tasks of each value. */
function addSteps(program: Program, list: TaskList, inputTasks: readonly Places[]): Map<number, Places> {
  const tasksOfValue = new Map(inputTasks.entries());
  for (const step of program.steps) {
    if (step.kind === "free") continue;
    const results = addStep(
      program,
      step,
      list,
      step.arguments.map((value) => tasksOfValue.get(value) as Places),
    );
    step.results.forEach((value, index) => {
      tasksOfValue.set(value, results[index] as Places);
    });
  }
  return tasksOfValue;
}

function addStep(
  program: Program,
  step: WorkStep,
  list: TaskList,
  argumentTasks: readonly Places[],
): readonly Places[] {
  if (step.kind === "run") return list.addGraph(step.region, argumentTasks);
  const after = [...new Set(argumentTasks.flat())];
  const typesOf = (values: readonly number[]): TensorType[] =>
    values.map((value) => program.values[value] as TensorType);
  const makes = totalBytes(typesOf(step.results));
  const run = (program: Program): Places => {
    const tasksOfValue = addSteps(
      program,
      list,
      program.inputs.map(() => after),
    );
    return program.outputs.flatMap(({ value }) => tasksOfValue.get(value) as Places);
  };
  const add = (): Places => {
    if (step.kind === "branch")
      return list.addInner(
        1,
        step.branches.map((branch) => () => run(branch)),
        makes,
      );
    if (step.kind === "collective")
      return list.add({ makes, after, sends: sendingOf(step.op, typesOf(step.arguments), step.attrs) });
    const round = step.condition === undefined ? [step.body] : [step.body, step.condition];
    return list.addInner(step.length ?? 1, [() => round.flatMap(run)], makes);
  };
  const place = add();
  return step.results.map(() => place);
}
