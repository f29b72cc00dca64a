/** @module Layouts of parameters, optimizer state and layer state, from the rules of the option `layout`. */

import { checkAxisNames } from "../compile/checks.ts";
import { compressionLayout, parameterOfOwn } from "../compression/state.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import {
  type Layout,
  localType,
  type Mesh,
  only,
  replicated,
  resolved,
  shardedOn,
  stageAxis,
  withPlacement,
} from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { folded, matching } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { flattenTree } from "../util/tree.ts";
import { byWorker, isByWorker } from "./local-training.ts";
import type { Settings } from "./options.ts";
import { stageHolder } from "./pipeline.ts";
import type { LayoutRule, Parameter, ParameterLayout } from "./rules.ts";
import type { ModelTypes } from "./values.ts";

/** The mesh axes that rules shard over. */
export const layoutAxes = (rules: readonly LayoutRule[]): string[] => rules.flatMap(({ axes = [] }) => axes);

/** Layouts of all values that a training changes, by path: `params.0.weight`, `optimizer.momentumBuffer.0.weight`. */
export interface StateLayouts {
  /** The layout in which a value is stored between steps. */
  kept(path: string): Layout;
  /** The layout in which a step uses the value, if it is not the stored layout. */
  used(path: string): Layout | undefined;
  /** Whether every value is replicated. */
  readonly whole: boolean;
  /** Whether a value is sharded along the mesh axis with this index. */
  isSplit(axis: number): boolean;
}

/** The layouts in which a value is stored and used. */
export interface Both {
  readonly kept: Layout;
  readonly used: Layout;
  /** The layout of the parameter's optimizer state; default `kept`. */
  readonly state?: Layout;
}

/**
 * The layouts of a training. For each parameter the first rule that applies decides; a given plan has priority. The values of a
 * pipeline stage are only on the devices of that stage.
 *
 * @throws HeddleError `option` for a name that no parameter has or a misspelt axis, `layout` for a dim that cannot be sharded so,
 * `pipeline` for a parameter without a stage.
 */
export function stateLayouts(
  {
    layoutRules: rules,
    pipeline,
    plan,
    compression,
    localSteps,
  }: Pick<Settings, "layoutRules" | "pipeline" | "plan"> & Partial<Pick<Settings, "compression" | "localSteps">>,
  types: ModelTypes,
  mesh: Mesh,
): StateLayouts {
  const leaves = flattenTree(types.state.params, isTensorType);
  checkNames(rules, leaves.paths);
  checkAxisNames("train: layout splits over", layoutAxes(rules), mesh);
  const everywhere = replicated(mesh);
  const holder = pipeline === undefined ? undefined : stageHolder(pipeline, leaves.paths, mesh);
  const stage = mesh.axes.findIndex(({ name }) => name === stageAxis);
  /** The layout on the devices of the stage that holds a parameter. */
  const held = (name: string, layout: Layout): Layout =>
    holder === undefined || stage < 0 ? layout : withPlacement(layout, stage, only(holder(name)));
  const planned = new Map(
    plan?.inputs.map(({ name, layout, used }): [string, Both] => [name, { kept: layout, used: used ?? layout }]),
  );
  const shapes = new Map(leaves.paths.map((path, index) => [path, leaves.leaves[index]?.shape]));
  const layouts = new Map(
    leaves.leaves.map((type, index): [string, Both] => {
      const name = leaves.paths[index] as string;
      const fromPlan = planned.get(`params.${name}`);
      if (fromPlan !== undefined) return [name, fromPlan];
      const both = placedBy(rules, { name, ...type }, mesh, pipeline !== undefined);
      return [
        name,
        {
          kept: held(name, both.kept),
          used: held(name, both.used),
          state: held(name, both.state ?? both.kept),
        },
      ];
    }),
  );
  const slots = flattenTree(types.state.optimizer, isTensorType);
  const both = new Map([...layouts].map(([name, layout]) => [`params.${name}`, layout]));
  slots.paths.forEach((path, index) => {
    if (localSteps !== undefined && isByWorker(`optimizer.${path}`)) {
      both.set(`optimizer.${path}`, { kept: byWorker(mesh), used: byWorker(mesh) });
      return;
    }
    // The path of a slot ends in the path of its parameter: "momentumBuffer.0.weight".
    const sent = /^compression\.(.*)$/.exec(path)?.[1];
    const own = sent === undefined ? undefined : parameterOfOwn(sent);
    const name = own ?? suffixes(path).find((suffix) => layouts.has(suffix));
    if (name === undefined) return;
    if (sent !== undefined && compression !== undefined) {
      const whole = { everywhere: held(name, everywhere), mesh };
      const layout = compressionLayout(compression, sent, { parameter: (layouts.get(name) as Both).used, ...whole });
      both.set(`optimizer.${path}`, { kept: layout, used: layout });
      return;
    }
    const sameShape = `${shapes.get(name)}` === `${slots.leaves[index]?.shape}`;
    const { kept, state = kept } = layouts.get(name) as Both;
    const stored = sameShape ? state : held(name, everywhere);
    both.set(`optimizer.${path}`, { kept: stored, used: stored });
  });
  for (const [path, layout] of planned) if (/^(optimizer|state)\./.test(path)) both.set(path, layout);
  return {
    kept: (path) => both.get(path)?.kept ?? everywhere,
    used: (path) => both.get(path)?.used,
    whole: [...both.values()].every(({ kept }) => kept.every(({ kind }) => kind === "replicate")),
    isSplit: (axis) => [...both.values()].some(({ kept }) => kept[axis]?.kind === "shard"),
  };
}

/**
 * The layouts of a parameter by the first rule that applies to it; replicated if no rule applies.
 *
 * @throws HeddleError as {@link stateLayouts}
 */
export function placedBy(rules: readonly LayoutRule[], parameter: Parameter, mesh: Mesh, isPipeline = false): Both {
  const found = rules.reduce<ParameterLayout | undefined>((known, rule) => known ?? rule(parameter, mesh), undefined);
  checkParameterLayout(found, parameter.name, isPipeline, mesh);
  const { shard = {}, gather = [], state = {} } = found ?? {};
  checkAxisNames("train: layout splits over", [...Object.keys(shard), ...gather, ...Object.keys(state)], mesh);
  const everywhere = replicated(mesh);
  // The stages of a pipeline have no programs for parts of unequal sizes.
  const isWhole =
    isPipeline && Object.keys(shard).every((axis) => gather.includes(axis)) && !divides(parameter, found, mesh);
  return found === undefined || isWhole
    ? { kept: everywhere, used: everywhere }
    : layoutOf(parameter.name, parameter, isPipeline ? { ...found, uneven: false } : found, mesh);
}

/** `"a.b.c"`: `"b.c"`, `"c"`. */
function suffixes(path: string): string[] {
  const parts = path.split(".");
  return parts.slice(1).map((_part, index) => parts.slice(index + 1).join("."));
}

/** Whether the devices of each axis have equal parts. */
function divides(type: TensorType, found: ParameterLayout | undefined, mesh: Mesh): boolean {
  const parts = (axis: string): number => mesh.axes.find(({ name }) => name === axis)?.size ?? 1;
  return [found?.shard ?? {}, found?.state ?? {}].every((dims) =>
    Object.entries(dims).every(([axis, dim]) => (type.shape[dim] ?? 0) % parts(axis) === 0),
  );
}

function layoutOf(
  name: string,
  type: TensorType,
  { shard, gather = [], state = shard, uneven = false }: ParameterLayout,
  mesh: Mesh,
): Both {
  const onMesh = (dims: ParameterLayout["shard"]): [string, number][] =>
    Object.entries(dims).filter(([axis]) => mesh.axes.some((other) => other.name === axis));
  const [kept, ofState] = [shard, state].map((dims) => {
    const layout = shardedOn(mesh, Object.fromEntries(onMesh(dims)));
    return uneven ? resolved(type, layout, mesh) : layout;
  }) as [Layout, Layout];
  try {
    for (const layout of [kept, ofState]) localType(type, layout, mesh);
  } catch (error) {
    if (!(error instanceof HeddleError)) throw error;
    throw new HeddleError("layout", `train: parameter "${name}": ${error.message}`, { cause: error });
  }
  const used = shardedOn(mesh, Object.fromEntries(onMesh(shard).filter(([axis]) => !gather.includes(axis))));
  return { kept, used, state: ofState };
}

/** Checks the result of a rule; with a pipeline, a rule may not use the axis of stages. */
function checkParameterLayout(found: ParameterLayout | undefined, name: string, isPipeline: boolean, mesh: Mesh): void {
  if (found === undefined) return;
  if (typeof found !== "object" || typeof found.shard !== "object")
    throw new HeddleError(
      "option",
      `train: a rule of layout must give { shard }, but gave ${shown(found)} for "${name}"`,
      {
        ...(typeof found === "function"
          ? { hint: "call the function that makes the rule, as in layouts.fullySharded()" }
          : {}),
      },
    );
  const taken = [...Object.keys(found.shard), ...Object.keys(found.state ?? {})].find(
    (axis) => axis === stageAxis && mesh.axes.some((other) => other.name === axis),
  );
  if (!isPipeline || taken === undefined) return;
  throw new HeddleError("pipeline", `train: layout splits "${name}" over '${taken}', which a pipeline uses otherwise`, {
    hint: "split over another axis, such as model",
  });
}

function checkNames(rules: readonly LayoutRule[], parameters: readonly string[]): void {
  for (const name of rules.flatMap((rule) => rule.names ?? [])) {
    if (parameters.some(matching("train: layout", name))) continue;
    const near = nearest(name, parameters);
    throw new HeddleError("option", `train: layout names "${name}", the model has no such parameter`, {
      hint: near === undefined ? `its parameters are ${folded(parameters)}` : `did you mean "${near}"?`,
    });
  }
}
