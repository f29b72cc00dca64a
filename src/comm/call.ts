/** @module A collective as users call it: in a function of `perDevice` as a node, elsewhere as a program of one collective. */
import { formatType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { deviceCount, formatLayout, type MeshAxis } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { meshOf } from "../runtime/mesh.ts";
import { Cache } from "../tensor/cache.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { deviceFunction } from "./per-device.ts";
import { runtimeFor } from "./runtime.ts";
import { type AxisOptions, axisOf, type Scope, scopeNow } from "./scope.ts";

/** Options of every collective. */
export interface CommOptions extends AxisOptions {
  /** The devices, outside of `perDevice`. Default: those of the tensor, else those of the last `comm.connect()`. */
  readonly runtime?: Runtime;
}

/** Where a collective stands: a device, and the mesh axis along which it communicates. */
export interface Place {
  readonly what: string;
  readonly scope: Scope;
  readonly axis: MeshAxis;
  /** Number of devices that take part. */
  readonly parts: number;
  /** What all devices say alike, such as `root 1 f32[2]`: devices that differ in it are an error. */
  readonly said: string;
}

type Build<Options> = (x: Tensor, place: Place, options: Options) => Tensor;

/** The eager functions are kept for all runtimes; each keeps its programs per runtime. */
const owner = {};
const eager = new Cache<ReturnType<typeof deviceFunction>>(256);

/** A collective that users call, for those that try them all. */
export interface Registered {
  readonly name: string;
  /** Names of its own options. */
  readonly options: readonly string[];
  readonly call: (x: Tensor, options: CommOptions & { readonly [name: string]: unknown }) => Tensor;
}

const all: Registered[] = [];

/** Every collective, in the order of their definitions. */
export const registered = (): readonly Registered[] => all;

/** The device whose function is being traced, if one is. @throws HeddleError `option` for a runtime, which the function has already */
export function scopeFor(what: string, { runtime }: CommOptions): Scope | undefined {
  const scope = scopeNow();
  if (scope === undefined || runtime === undefined) return scope;
  throw new HeddleError("option", `${what}: a function of comm.perDevice has the runtime of that function`);
}

/** What an option is if it is left out. */
const defaults: { readonly [name: string]: unknown } = { root: 0, reduction: "sum", dim: 0, split: 0 };
/** Options that devices may give differently. */
const ownOptions = ["sends", "receives"];

/** Options as text, also those that JSON leaves out or refuses. */
const textOf = (options: unknown): string =>
  JSON.stringify(options, (_name, value: unknown) =>
    ["bigint", "function", "symbol", "undefined"].includes(typeof value) ? shown(value) : value,
  );

/** The options of a call, and the type of its tensor unless that differs between devices. */
function saidOf(x: Tensor, names: readonly string[], options: { readonly [name: string]: unknown }): string {
  const given = names.filter((name) => options[name] !== undefined && !ownOptions.includes(name));
  const dims = ["dim", "split", "concat"];
  const words = given.flatMap((name) => {
    const value = dims.includes(name) ? ((options[name] as number) + x.shape.length) % x.shape.length : options[name];
    if (value === (name === "concat" ? (options["split"] ?? 0) : defaults[name])) return [];
    if (name !== "schedule" || typeof value === "string") return [`${name} ${textOf(value)}`];
    return [`schedule ${shown((value as { name?: unknown } | null)?.name)} ${fingerprint(textOf(value))}`];
  });
  const isUneven = [...ownOptions, "sizes"].some((name) => options[name] !== undefined);
  return [...words, ...(isUneven ? [x.dtype] : [formatType(x)])].join(" ");
}

/** A collective: `build` makes its nodes for one device. `names` are its own options. */
export function collective<Options extends CommOptions>(
  name: string,
  names: readonly string[],
  build: Build<Options>,
): (x: Tensor, options?: Options) => Tensor {
  const what = `comm.${name}`;
  const traced = (x: Tensor, scope: Scope, options: Options): Tensor => {
    const axis = axisOf(what, scope.mesh, options.axis);
    const said = saidOf(x, names, options as object as { readonly [name: string]: unknown });
    scope.calls.set(axis.name, [...(scope.calls.get(axis.name) ?? []), `${what} ${said}`]);
    return build(x, { what, scope, axis, parts: axis.size, said }, options);
  };
  const call = (x: Tensor, given?: Options): Tensor => {
    const options = given ?? ({} as Options);
    checkTensor(what, x);
    checkOptions(what, options, [...names, "axis", "runtime"]);
    const scope = scopeFor(what, options);
    if (scope !== undefined) return traced(x, scope, options);
    const { runtime: wanted, ...rest } = options;
    const isJoined = !x.isTraced && checkJoined(what, x, runtimeFor(what, wanted, [x]));
    const run = eager.of(owner, `${isJoined} ${name} ${textOf(rest)}`, () =>
      deviceFunction(what, (own: Tensor) =>
        traced(isJoined ? own.reshape(own.shape.slice(1)) : own, scopeNow() as Scope, options),
      ),
    );
    return run(wanted, [x]) as Tensor;
  };
  all.push({ name, options: names, call: (x, options) => call(x, options as object as Options) });
  return Object.defineProperty(call, "name", { value: name });
}

/** Whether the first dim is that of the devices of this process. @throws HeddleError `layout` for another split tensor there */
function checkJoined(what: string, x: Tensor, runtime: Runtime): boolean {
  const { value } = x;
  if (runtime.local.length === 1 || value.runtime !== runtime) return false;
  if (value.layout.every(({ kind }) => kind === "replicate")) return false;
  const count = deviceCount(meshOf(runtime));
  const isSplit = value.layout.every((placement) => placement.kind === "shard" && placement.dim === 0);
  if (isSplit && x.shape[0] === count) return true;
  throw new HeddleError("layout", `${what}: ${formatType(x)} is ${formatLayout(value.layout)}`, {
    hint: `a tensor of each of the ${count} devices is one tensor with a first dim of ${count}, split over all axes`,
  });
}

/** A collective op on a tensor of the trace in progress. Its label is the user's call, which all devices compare. */
export function emit(name: string, x: Tensor, { what, scope, axis, parts, said }: Place, attrs: object): Tensor {
  const label = `${scope.label(what)} ${said}`;
  return operate(what, (node) => ops.call(name, [node], { axis: axis.name, parts, label, ...attrs }), [x]);
}

/** The dim of an option, counted from the front. @throws HeddleError `option` */
export function dimOf(what: string, x: Tensor, dim: unknown, name = "dim"): number {
  const rank = x.shape.length;
  if (rank === 0) throw new HeddleError("shape", `${what}: ${formatType(x)} has no dims`, { hint: "x.reshape([1])" });
  checkInteger(what, name, dim as number, -rank, rank - 1);
  return (dim as number) < 0 ? (dim as number) + rank : (dim as number);
}

/** The coordinate of an option. @throws HeddleError `option` */
export function deviceOf({ what, parts }: Place, name: string, device: unknown): number {
  checkInteger(what, name, device as number, 0, parts - 1);
  return device as number;
}

/** The sizes of an option, one for each device. @throws HeddleError `option` */
export function sizesOf({ what, parts }: Place, name: string, sizes: unknown): readonly number[] {
  if (!Array.isArray(sizes) || sizes.length !== parts)
    throw new HeddleError("option", `${what}: ${name} is a size for each of ${parts} devices, got ${shown(sizes)}`);
  for (const size of sizes) checkInteger(what, name, size);
  return sizes;
}

/** Equal sizes of the parts of a dim. @throws HeddleError `shape` */
export function evenSizes({ what, parts }: Place, x: Tensor, dim: number): readonly number[] {
  const size = x.shape[dim] as number;
  if (size % parts === 0) return new Array<number>(parts).fill(size / parts);
  throw new HeddleError("shape", `${what}: dim ${dim} of ${formatType(x)} does not split into ${parts} equal parts`, {
    hint: "say the size of each device's part: { sizes: […] }",
  });
}

/** Where each part of a dim begins. */
export const startsOf = (sizes: readonly number[]): number[] =>
  sizes.map((_size, part) => sizes.slice(0, part).reduce((sum, size) => sum + size, 0));

/** Elements `[start, start + count)` of a dim. */
export function part(x: Tensor, dim: number, start: number, count: number): Tensor {
  const first = x.shape.map((_size, at) => (at === dim ? start : 0));
  return x.slice(
    first,
    x.shape.map((size, at) => (at === dim ? start + count : size)),
  );
}

/** Checks that a list is an array of pairs of devices. */
export function pairsOf(place: Place, pairs: unknown): readonly (readonly [number, number])[] {
  const { what } = place;
  if (!Array.isArray(pairs) || !pairs.every((pair) => Array.isArray(pair) && pair.length === 2))
    throw new HeddleError("argument", `${what}: takes pairs of devices, got ${shown(pairs)}`, {
      hint: "[[0, 1], [1, 2]] sends from 0 to 1 and from 1 to 2",
    });
  for (const side of [0, 1] as const) {
    const devices = pairs.map((pair) => deviceOf(place, "a device", pair[side]));
    const twice = devices.find((device, index) => devices.indexOf(device) !== index);
    if (twice === undefined) continue;
    throw new HeddleError("argument", `${what}: device ${twice} ${side === 0 ? "sends" : "receives"} twice`);
  }
  return pairs as (readonly [number, number])[];
}
