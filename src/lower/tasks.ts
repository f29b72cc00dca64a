/** @module Lowered programs as tasks of the one cost model: kernel calls that wait for those whose memory they touch. */
import { type Cost, costOfTasks, type Machine, machineFor, type Task } from "../cost/index.ts";
import { type TaskIds, TaskList } from "../cost/tasks.ts";
import { type Access, coveredBytes, descriptionOf } from "../kernels/index.ts";
import { devicesOf } from "../program/program.ts";
import { allAccesses, collide } from "./access.ts";
import { callCost } from "./cost.ts";
import type { LoweredStep } from "./json.ts";
import type { LoweredProgram } from "./lowered.ts";
import { nestedIn } from "./nest.ts";

/**
 * What one run of a lowered program costs on one device: as of the program that it was lowered from, but with the calls and the
 * memory traffic that there are. The peak is all memory that a run needs.
 *
 * @param machine default: the machine that plans assume; its devices share the resources of the program's mesh
 */
export const costOf = (lowered: LoweredProgram, machine?: Machine): Cost =>
  costOfTasks(tasksOf(lowered), machineFor(devicesOf(lowered), machine));

type Touched = readonly (Access & { readonly tasks: TaskIds })[];

function tasksOf({ json, axes, peakBytes }: LoweredProgram): readonly Task[] {
  const list = new TaskList();
  list.add({ makes: peakBytes, stays: true });
  const sizes = axes.map(({ size }) => size);
  const started = new Map<unknown, readonly Access[]>();
  const addCalls = (calls: readonly LoweredStep[], before: TaskIds): TaskIds => {
    let touched: Touched = [];
    return calls.flatMap((call): TaskIds => {
      const { control } = descriptionOf(call);
      const { handle } = call;
      const own = allAccesses(call, sizes);
      // What waits for an async collective waits for all that it touches.
      const accesses = started.get(handle) ?? own;
      if (handle !== undefined) started.set(handle, own);
      const conflicts = touched.filter((earlier) => accesses.some((access) => collide(earlier, access)));
      const after = [...new Set([...before, ...conflicts.flatMap(({ tasks }) => tasks)])];
      const work = { ...callCost(call, sizes), calls: 1, after, beside: handle !== undefined };
      const ways = control === "branch" ? nestedIn(call).map((steps) => [steps]) : [[nestedIn(call).flat()]];
      const run = (steps: readonly LoweredStep[]): TaskIds => addCalls(steps, after);
      const tasks = control === undefined ? list.add(work) : list.addInner(Number(call["count"] ?? 1), ways, run, 0);
      // Who waits for memory that is written over waits for the call that does it.
      const written = accesses.filter(({ role }) => role !== "read");
      const left = touched.filter((earlier) => !written.some((access) => covers(access, earlier)));
      touched = [...left, ...accesses.map((access) => ({ ...access, tasks }))];
      return tasks;
    });
  };
  addCalls(json.steps, []);
  return list.tasks;
}

function covers(access: Access, other: Access): boolean {
  const [outer, inner] = [coveredBytes(access), coveredBytes(other)];
  return access.at[0] === other.at[0] && outer.low <= inner.low && outer.high >= inner.high;
}
