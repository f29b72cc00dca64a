/** @module The cost of graphs and programs: their steps as tasks, timed by the one model of `src/cost`. */
import { type Cost, costOfTasks, type Machine, machineFor } from "../cost/index.ts";
import { sendingOf } from "../cost/machine.ts";
import { type Places, TaskList, tasksOf, totalBytes } from "../cost/tasks.ts";
import type { Graph } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { devicesOf, type Program, type WorkStep } from "./program.ts";

/**
 * What one run of a graph or of a program costs on one device, without running it.
 *
 * @param machine default: the one that plans assume; its devices share what they do on the program's mesh
 */
export function costOf(source: Graph | Program, machine?: Machine): Cost {
  if (!("steps" in source)) return costOfTasks(tasksOf(source), machineFor(1, machine));
  const list = new TaskList();
  const given = source.inputs.map(({ type }) => list.add({ makes: bytesOf(type), stays: true }));
  const made = addSteps(source, list, given);
  source.outputs.forEach(({ value }, index) => {
    // What takes over an input's memory needs none of its own.
    list.keep(made.get(value) as Places, source.donated[index] === undefined ? undefined : 0);
  });
  return costOfTasks(list.tasks, machineFor(devicesOf(source), machine));
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
  const results = { makes: totalBytes(typesOf(step.results)), after };
  const run = (one: Program): unknown =>
    addSteps(
      one,
      list,
      one.inputs.map(() => after),
    );
  const add = (): Places => {
    if (step.kind === "branch")
      return list.addInner(
        1,
        step.branches.map((one) => () => run(one)),
        results,
      );
    if (step.kind === "loop") {
      const round = step.condition === undefined ? [step.body] : [step.body, step.condition];
      return list.addInner(step.length ?? 1, [() => round.forEach(run)], results);
    }
    return list.add({ ...results, sends: sendingOf(step.op, typesOf(step.arguments), step.attrs) });
  };
  const place = add();
  return step.results.map(() => place);
}
