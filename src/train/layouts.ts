/** @module Layouts of all that a training changes, by the rules given. */

import { checkAxisNames } from "../compile/checks.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import {
  type Layout,
  localType,
  type Mesh,
  only,
  replicated,
  shardedOn,
  stageAxis,
  withPlacement,
} from "../plan/index.ts";
import { dataAxis } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { folded, matching } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { flattenTree } from "../util/tree.ts";
import type { Settings } from "./options.ts";
import { stageHolder } from "./pipeline.ts";
import type { LayoutRule, Parameter, ParameterLayout } from "./rules.ts";
import type { ModelTypes } from "./values.ts";

/** The axes that rules split over, where the mesh has them. */
export const layoutAxes = (rules: readonly LayoutRule[]): string[] => rules.flatMap(({ axes = [] }) => axes);

/** Layouts of all that a training changes, by path: `params.0.weight`, `optimizer.momentumBuffer.0.weight`. */
export interface StateLayouts {
  /** Where a value is kept. */
  kept(path: string): Layout;
  /** The layout it is used in, where that is another. */
  used(path: string): Layout | undefined;
  /** Whether every value is whole on every device. */
  readonly whole: boolean;
  /** Whether some value is kept in parts along the axis at this place of the mesh. */
  isSplit(place: number): boolean;
}

/** Where a value is kept, and in which layout it is used. */
export interface Both {
  readonly kept: Layout;
  readonly used: Layout;
}

/** Every value whole on every device. */
export function wholeLayouts(mesh: Mesh): StateLayouts {
  const everywhere = replicated(mesh);
  return { kept: () => everywhere, used: () => undefined, whole: true, isSplit: () => false };
}

/**
 * Applies rules, the first that has something to say of a parameter; a given plan comes before them. What is of a stage of a pipeline is kept there only.
 *
 * @throws HeddleError `option` for a name that no parameter has or an axis that is nearly one of the mesh, `layout` for a dim that cannot be split so, `pipeline`
 * for a parameter without a stage.
 */
export function stateLayouts(
  { layoutRules: rules, pipeline, plan }: Pick<Settings, "layoutRules" | "pipeline" | "plan">,
  types: ModelTypes,
  mesh: Mesh,
): StateLayouts {
  const leaves = flattenTree(types.state.params, isTensorType);
  checkNames(rules, leaves.paths);
  checkAxisNames("train: layout splits over", layoutAxes(rules), mesh);
  const everywhere = replicated(mesh);
  const holder = pipeline === undefined ? undefined : stageHolder(pipeline, leaves.paths);
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
      const given = planned.get(`params.${name}`);
      if (given !== undefined) return [name, given];
      const both = placedBy(rules, { name, ...type }, mesh, pipeline !== undefined);
      return [name, { kept: held(name, both.kept), used: held(name, both.used) }];
    }),
  );
  const slots = flattenTree(types.state.optimizer, isTensorType);
  const both = new Map([...layouts].map(([name, layout]) => [`params.${name}`, layout]));
  slots.paths.forEach((path, index) => {
    // A slot's tree holds the tree of parameters: "momentumBuffer.0.weight".
    const name = suffixes(path).find((suffix) => layouts.has(suffix));
    if (name === undefined) return;
    const sameShape = `${shapes.get(name)}` === `${slots.leaves[index]?.shape}`;
    const kept = sameShape ? (layouts.get(name) as Both).kept : held(name, everywhere);
    both.set(`optimizer.${path}`, { kept, used: kept });
  });
  for (const [path, given] of planned) if (/^(optimizer|state)\./.test(path)) both.set(path, given);
  return {
    kept: (path) => both.get(path)?.kept ?? everywhere,
    used: (path) => both.get(path)?.used,
    whole: [...both.values()].every(({ kept }) => kept.every(({ kind }) => kind === "replicate")),
    isSplit: (place) => [...both.values()].some(({ kept }) => kept[place]?.kind === "shard"),
  };
}

/**
 * Where the first rule that has something to say of a parameter keeps it and has it used; else whole everywhere.
 *
 * @throws HeddleError as {@link stateLayouts}
 */
export function placedBy(rules: readonly LayoutRule[], parameter: Parameter, mesh: Mesh, isPipeline = false): Both {
  const found = rules.reduce<ParameterLayout | undefined>((known, rule) => known ?? rule(parameter, mesh), undefined);
  checkParameterLayout(found, parameter.name, isPipeline, mesh);
  checkAxisNames("train: layout splits over", [...Object.keys(found?.shard ?? {}), ...(found?.gather ?? [])], mesh);
  const everywhere = replicated(mesh);
  return found === undefined
    ? { kept: everywhere, used: everywhere }
    : layoutOf(parameter.name, parameter, found, mesh);
}

/** `"a.b.c"`: `"b.c"`, `"c"`. */
function suffixes(path: string): string[] {
  const parts = path.split(".");
  return parts.slice(1).map((_part, index) => parts.slice(index + 1).join("."));
}

function layoutOf(name: string, type: TensorType, { shard, gather = [] }: ParameterLayout, mesh: Mesh): Both {
  const onMesh = Object.entries(shard).filter(([axis]) => mesh.axes.some((other) => other.name === axis));
  const kept = shardedOn(mesh, Object.fromEntries(onMesh));
  try {
    localType(type, kept, mesh);
  } catch (error) {
    if (!(error instanceof HeddleError)) throw error;
    throw new HeddleError("layout", `train: parameter "${name}": ${error.message}`, { cause: error });
  }
  const used = shardedOn(mesh, Object.fromEntries(onMesh.filter(([axis]) => !gather.includes(axis))));
  return { kept, used };
}

/** What a rule may say of a parameter; beside a pipeline, whose stages and micro-batches have their axes, less. */
function checkParameterLayout(found: ParameterLayout | undefined, name: string, isPipeline: boolean, mesh: Mesh): void {
  if (found === undefined) return;
  if (typeof found !== "object" || typeof found.shard !== "object")
    throw new HeddleError(
      "option",
      `train: a rule of layout must give { shard }, but gave ${shown(found)} for "${name}"`,
      {
        ...(typeof found === "function" ? { hint: "call what makes the rule, as in layouts.fullySharded()" } : {}),
      },
    );
  const taken = Object.keys(found.shard).find(
    (axis) => (axis === stageAxis || axis === dataAxis) && mesh.axes.some((other) => other.name === axis),
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
