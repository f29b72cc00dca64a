/** @module Plans that run on named values, without the function that they were made from. */
import { loadPlan, runCompiled } from "../compile/compile.ts";
import { formatType, sameType } from "../ir/shape.ts";
import { type Plan, type PlannedValue, sameLayout } from "../plan/index.ts";
import { planTitle } from "../plan/plan.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { placeOn, redistribute } from "./distribute.ts";
import { checkTensor, Tensor } from "./tensor.ts";

const isRecordWith = (value: unknown, ...fields: readonly string[]): boolean =>
  typeof value === "object" && value !== null && fields.every((field) => field in value);

/** Tensors by the names that a plan gives them (`"params.0.weight"`). */
export interface NamedTensors {
  readonly [name: string]: Tensor;
}

/** A plan that is ready to run. */
export interface CompiledPlan {
  readonly plan: Plan;
  /** Enqueues a run; values in other layouts are redistributed first. Every worker must call it. */
  run(inputs: NamedTensors): NamedTensors;
}

/**
 * Makes a plan ready to run on a runtime of its mesh: a plan that `planFunction` made or `parsePlan` read.
 *
 * @param options.donate names of inputs whose memory outputs of their types and layouts may take over
 * @throws HeddleError `argument` unless given a plan and a runtime; `plan` for another mesh; `verify` if layouts and graphs do not
 * fit each other; `option` for a donated input that the plan does not have; from `run`, `argument` or `shape` for values that do not
 * fit the plan.
 */
export function compilePlan(
  plan: Plan,
  runtime: Runtime,
  options: { readonly donate?: readonly string[] } = {},
): CompiledPlan {
  if (!isRecordWith(plan, "local", "classes", "inputs"))
    throw new HeddleError(
      "argument",
      `compilePlan: takes a plan, as planFunction makes and parsePlan reads it, got ${shown(plan)}`,
    );
  if (!isRecordWith(runtime, "executor", "axes"))
    throw new HeddleError(
      "argument",
      `compilePlan: takes a runtime, as localRuntime and connect give it, got ${shown(runtime)}`,
    );
  checkOptions("compilePlan", options, ["donate"]);
  const names = plan.inputs.map(({ name }) => name);
  const donate = (options.donate ?? []).map((name) => {
    if (names.includes(name)) return names.indexOf(name);
    throw new HeddleError("option", `compilePlan: '${name}' cannot be donated: the inputs are ${listed(names)}`);
  });
  const compiled = loadPlan(plan, runtime, donate);
  return {
    plan,
    run: (inputs) => {
      const odd = Object.keys(inputs).find((name) => !names.includes(name));
      if (odd !== undefined) throw wrong(plan, `has no input '${odd}', only ${listed(names)}`);
      const operands = plan.inputs.map((planned) => laidOut(plan, planned, inputs[planned.name], runtime));
      const results = runCompiled(
        compiled,
        operands.map(({ value }) => value),
        operands,
      );
      return Object.fromEntries(
        plan.outputs.map(({ name }, index) => [name, Tensor.ofValue(results[index] as (typeof results)[number])]),
      );
    },
  };
}

const wrong = (plan: Plan, what: string): HeddleError => new HeddleError("argument", `${planTitle(plan)} ${what}`);

/** The tensor in the planned layout; a replicated tensor is also on its stage. */
function laidOut(plan: Plan, planned: PlannedValue, given: Tensor | undefined, runtime: Runtime): Tensor {
  const { name, type, layout } = planned;
  if (given === undefined) throw wrong(plan, `needs '${name}' ${formatType(type)}, which was not given`);
  checkTensor(`${planTitle(plan)}: '${name}'`, given);
  if (!sameType(type, given))
    throw new HeddleError("shape", `${planTitle(plan)}: '${name}' is ${formatType(type)}, got ${formatType(given)}`);
  const here = placeOn(runtime, given);
  const isStaged = layout.some(({ kind }) => kind === "only");
  return isStaged || sameLayout(here.value.layout, layout) ? here : redistribute(here, layout);
}
