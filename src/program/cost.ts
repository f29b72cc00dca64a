/** @module The cost of graphs and programs: their steps as tasks, timed by the one model of `src/cost`. */

import { peakOf, type Task } from "../cost/cost.ts";
import { type Cost, costOfTasks, type Machine, machineFor } from "../cost/index.ts";
import { sendingOf } from "../cost/machine.ts";
import { type Places, TaskList, tasksOf, totalBytes } from "../cost/tasks.ts";
import type { Graph } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { devicesOf, isTransfer, type Program, type WorkStep } from "./program.ts";

/**
 * What one run of a graph or of a program costs on one device, without running it. Of several programs, of the devices along an axis
 * that send each other messages (a pipeline), it is the sum, with the seconds until the last one is done and the largest peak.
 *
 * @param machine default: the one that plans assume; its devices share what they do on the program's mesh
 */
export function costOf(source: Graph | Program | readonly Program[], machine?: Machine): Cost {
  if (!("steps" in source)) {
    if ("outputs" in source) return costOfTasks(tasksOf(source), machineFor(1, machine));
    const lists = source.map(tasksOfProgram);
    const cost = costOfTasks(together(source, lists), machineFor(devicesOf(source[0] as Program), machine));
    return { ...cost, peak: Math.max(...lists.map(peakOf)) };
  }
  return costOfTasks(tasksOfProgram(source), machineFor(devicesOf(source), machine));
}

function tasksOfProgram(program: Program): readonly Task[] {
  const list = new TaskList();
  const given = program.inputs.map(({ type }) => list.add({ makes: bytesOf(type), stays: true }));
  const made = addSteps(program, list, given);
  program.outputs.forEach(({ value }, index) => {
    // What takes over an input's memory needs none of its own.
    list.keep(made.get(value) as Places, program.donated[index] === undefined ? undefined : 0);
  });
  return list.tasks;
}

/** The tasks of several devices as one list, in which who receives a message waits for who sends it. */
function together(programs: readonly Program[], lists: readonly (readonly Task[])[]): Task[] {
  const peers = programs.map(({ steps }) =>
    steps.flatMap((step) => (step.kind === "collective" && isTransfer(step) ? [step.attrs["peer"] as number] : [])),
  );
  const merged: Task[] = [];
  const places: number[][] = lists.map(() => []);
  const mail = new Map<string, number[]>();
  const boxOf = (from: number, to: number): number[] => {
    const box = mail.get(`${from} ${to}`) ?? [];
    mail.set(`${from} ${to}`, box);
    return box;
  };
  const advance = (device: number): boolean => {
    const [own, list] = [places[device] as number[], lists[device] as readonly Task[]];
    const task = list[own.length];
    if (task === undefined) return false;
    const after = task.after.map((place) => own[place] as number);
    const name = task.sends?.name;
    if (name === "receive") {
      const sent = boxOf(peers[device]?.[0] as number, device).shift();
      if (sent === undefined) return false;
      after.push(sent);
    }
    own.push(merged.push({ ...task, after, device }) - 1);
    if (name === "send") boxOf(device, peers[device]?.[0] as number).push(merged.length - 1);
    if (name === "send" || name === "receive") peers[device]?.shift();
    return true;
  };
  for (let moved = true; moved; ) {
    moved = false;
    for (const device of lists.keys()) while (advance(device)) moved = true;
  }
  return merged;
}

/** Adds the steps of a program; gives the tasks of each value. */
function addSteps(program: Program, list: TaskList, given: readonly Places[]): Map<number, Places> {
  const made = new Map(given.entries());
  for (const step of program.steps) {
    if (step.kind === "free") continue;
    const results = addStep(
      program,
      step,
      list,
      step.arguments.map((value) => made.get(value) as Places),
    );
    step.results.forEach((value, index) => {
      made.set(value, results[index] as Places);
    });
  }
  return made;
}

function addStep(program: Program, step: WorkStep, list: TaskList, given: readonly Places[]): readonly Places[] {
  if (step.kind === "run") return list.addGraph(step.region, given);
  const after = [...new Set(given.flat())];
  const typesOf = (values: readonly number[]): TensorType[] =>
    values.map((value) => program.values[value] as TensorType);
  const makes = totalBytes(typesOf(step.results));
  const run = (one: Program): Places => {
    const made = addSteps(
      one,
      list,
      one.inputs.map(() => after),
    );
    return one.outputs.flatMap(({ value }) => made.get(value) as Places);
  };
  const add = (): Places => {
    if (step.kind === "branch")
      return list.addInner(
        1,
        step.branches.map((one) => () => run(one)),
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
