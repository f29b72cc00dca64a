/**
 * @module Rules for the layouts of parameters. A rule gets the name and shape of each parameter and decides which
 * dims are sharded over which mesh axes; the model is independent of rules. Optimizer state has the layout of its parameter.
 */
import { sizeOf, type TensorType } from "../ir/shape.ts";
import type { Mesh } from "../plan/index.ts";
import { asRecord } from "../util/options.ts";
import { matching } from "../util/pattern.ts";

/** The layout of one parameter. */
export interface ParameterLayout {
  /** The dim that is sharded over each named mesh axis: `{ model: 0 }`. Axes that the mesh does not have are ignored. */
  readonly shard: { readonly [axis: string]: number };
  /**
   * Axes over which the shards are gathered before each use and dropped afterwards; default none: ops compute on the shards.
   */
  readonly gather?: readonly string[];
  /** The dim of the parameter's optimizer state that is sharded over each named mesh axis; default: as `shard`. */
  readonly state?: { readonly [axis: string]: number };
  /** Whether devices may have parts of unequal sizes, where the number of devices does not divide a dim; default false. */
  readonly uneven?: boolean;
}

/** The argument of a rule: a parameter's name, such as `"0.weight"`, and its unsharded type. */
export interface Parameter extends TensorType {
  readonly name: string;
}

/** Gives the layout of a parameter, or undefined if the rule does not apply to it. */
export interface LayoutRule {
  (parameter: Parameter, mesh: Mesh): ParameterLayout | undefined;
  /** Patterns of names, each of which must match a parameter of the model. */
  readonly names?: readonly string[];
  /** The mesh axes that the rule shards over. */
  readonly axes?: readonly string[];
}

/**
 * Shards the named parameters: `layouts.named({ "0.weight": { model: 0 } })` shards dim 0 over the axis `model`. Names are patterns, such
 * as `"blocks.*.linear1.weight"`; the first pattern that matches decides. The weight of a linear layer is `[out, in]`: dim 0 shards its
 * outputs, dim 1 the contracted inputs (Shoeybi et al., "Megatron-LM", 2019). Parts differ by one element where the number of devices does
 * not divide the dim, except in a pipeline, which refuses that. Axes that the mesh does not have are ignored, so that the
 * same file runs without them.
 */
export function named(dims: { readonly [parameter: string]: { readonly [axis: string]: number } }): LayoutRule {
  asRecord("layouts.named", dims);
  for (const [name, axes] of Object.entries(dims)) asRecord(`layouts.named: '${name}'`, axes);
  const known = Object.entries(dims).map(([pattern, shard]) => ({
    matches: matching("layouts.named", pattern),
    shard,
  }));
  const rule = ({ name }: Parameter): ParameterLayout | undefined => {
    const found = known.find(({ matches }) => matches(name));
    return found === undefined ? undefined : { shard: found.shard, uneven: true };
  };
  return Object.assign(rule, {
    names: Object.keys(dims),
    axes: Object.values(dims).flatMap((dimOfAxis) => Object.keys(dimOfAxis)),
  });
}

/**
 * Shards every parameter, its gradient and its optimizer state over an axis, gathers parameters for each use
 * and reduce-scatters gradients (Rajbhandari et al., "ZeRO", 2020, stage 3). Each parameter is sharded along its first dim that
 * is divisible by the size of the axis; without such a dim, along its longest dim, in parts whose sizes differ by one. A parameter without
 * such a dim and with fewer than 64 elements for each device is replicated.
 *
 * On a mesh with an axis `hosts`, such as `hosts=2,data=4`, the devices of each host share the shards: parameters are gathered within a
 * host, and only sums of gradients of one shard travel between hosts (Zhao et al., "PyTorch FSDP", 2023, hybrid sharding).
 *
 * @param axis default `"data"`
 */
export const fullySharded = (axis = "data"): LayoutRule => divided(axis, (shard) => ({ shard, gather: [axis] }));

/**
 * Shards the optimizer state of every parameter over an axis, while all devices have the parameters: gradients are reduce-scattered,
 * each device updates its part, and the new parameters are gathered (Rajbhandari et al., "ZeRO", 2020, stages 1 and 2: no device ever has
 * the sum of a whole gradient). Dims, and the axis `hosts`, are treated as by {@link fullySharded}.
 *
 * @param axis default `"data"`
 */
export const shardedState = (axis = "data"): LayoutRule => divided(axis, (state) => ({ shard: {}, state }));

/** The fewest elements of a device's part for which unequal parts are worth messages of their own. */
const fewestUneven = 64;

/** A rule for the parameters with a dim that is divisible by the size of the axis, and for other large parameters. */
function divided(axis: string, layout: (shard: { readonly [axis: string]: number }) => ParameterLayout): LayoutRule {
  const rule = ({ shape }: Parameter, mesh: Mesh): ParameterLayout | undefined => {
    const parts = mesh.axes.find(({ name }) => name === axis)?.size ?? 1;
    if (parts === 1) return undefined;
    const dim = shape.findIndex((length) => length > 0 && length % parts === 0);
    if (dim >= 0) return layout({ [axis]: dim });
    const longest = shape.indexOf(Math.max(...shape));
    const isLarge = sizeOf(shape) >= fewestUneven * parts && (shape[longest] as number) >= parts;
    return isLarge ? { ...layout({ [axis]: longest }), uneven: true } : undefined;
  };
  return Object.assign(rule, { axes: [axis] });
}
