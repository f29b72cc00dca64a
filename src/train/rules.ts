/**
 * @module Rules for where the parameters of a training live. A rule sees each parameter's name and shape and says which
 * dims are split over which axes of the mesh; the model knows nothing of it. Optimizer state lives where its parameter
 * does.
 */
import type { TensorType } from "../ir/shape.ts";
import type { Mesh } from "../plan/index.ts";
import { asRecord } from "../util/options.ts";
import { matching } from "../util/pattern.ts";

/** Where one parameter lives. */
export interface ParameterLayout {
  /** The dim that is split over each axis named: `{ model: 0 }`. Axes that the mesh does not have are passed over. */
  readonly shard: { readonly [axis: string]: number };
  /**
   * Axes over which the parts are gathered for each use and given up after it; default none: ops work on the parts.
   */
  readonly gather?: readonly string[];
}

/** A parameter as a rule sees it: its name, such as `"0.weight"`, and its whole type. */
export interface Parameter extends TensorType {
  readonly name: string;
}

/** Says where a parameter lives; undefined: this rule has nothing to say of it. */
export interface LayoutRule {
  (parameter: Parameter, mesh: Mesh): ParameterLayout | undefined;
  /** Patterns of names, each of which must match a parameter of the model. */
  readonly names?: readonly string[];
  /** Axes that it splits over, where the mesh has them. */
  readonly axes?: readonly string[];
}

/**
 * Splits the parameters named, each dim given over its axis: `layouts.named({ "0.weight": { model: 0 } })`. Names are patterns, such as
 * `"blocks.*.linear1.weight"`, of which the first that matches counts. A weight of
 * a linear layer is `[out, in]`: its columns of outputs are split by dim 0, what it contracts by dim 1 (Shoeybi et al.,
 * "Megatron-LM", 2019). Axes that the mesh does not have are passed over, so that the same file runs without them.
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
    return found === undefined ? undefined : { shard: found.shard };
  };
  return Object.assign(rule, {
    names: Object.keys(dims),
    axes: Object.values(dims).flatMap((one) => Object.keys(one)),
  });
}

/**
 * Keeps every parameter, its gradient and its optimizer state in parts over an axis, gathers parameters for each use
 * and reduce-scatters gradients (Rajbhandari et al., "ZeRO", 2020, stage 3). Each is split along its first dim that the
 * axis divides; one without such a dim stays whole.
 *
 * @param axis default `"data"`
 */
export function fullySharded(axis = "data"): LayoutRule {
  const rule = ({ shape }: Parameter, mesh: Mesh): ParameterLayout | undefined => {
    const parts = mesh.axes.find(({ name }) => name === axis)?.size ?? 1;
    const dim = shape.findIndex((length) => length > 0 && length % parts === 0);
    return parts === 1 || dim < 0 ? undefined : { shard: { [axis]: dim }, gather: [axis] };
  };
  return Object.assign(rule, { axes: [axis] });
}
