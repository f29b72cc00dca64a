/**
 * @module What a layer is: a record of two pure functions. State is explicit; nothing is kept between calls.
 *
 *     const layer = nn.linear(10);
 *     const { params, state, output } = layer.init(random.key(0), { shape: [128, 784], dtype: "f32" });
 *     const { y } = layer.apply({ params, state }, x, { train: false });
 */

import { evalShape, isTensor, random, type Tensor, type Tensors } from "../functions/index.ts";
import { type DType, dtypeNames, isFloat } from "../ir/dtype.ts";
import { formatType, isTensorType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { capturePosition, describePosition, type SourcePosition, speakerNow, speakingAs } from "../util/source.ts";
import { flattenTree, isRecord, unflattenTree } from "../util/tree.ts";

/** The tree of a layer that has no parameters. */
export type NoTensors = { readonly [Name in never]: Tensor };

/** Parameters of a layer with a weight and, unless the option says false, a bias. */
export type Weighted<Bias extends boolean = true> = Bias extends false
  ? { readonly weight: Tensor }
  : { readonly weight: Tensor; readonly bias: Tensor };

/** The option `bias`; the type of the parameters depends on it. */
export interface Biased<Bias extends boolean> {
  readonly bias?: Bias;
}

/** What a layer computes with: parameters, which are trained, and state, which it changes itself. */
export interface Variables<Params = Tensors> {
  readonly params: Params;
  readonly state: Tensors;
}

/** Fresh variables, and the type of the layer's output. */
export interface Initialised<Params = Tensors> extends Variables<Params> {
  readonly output: TensorType;
}

/** How a layer is applied. */
export interface ApplyOptions {
  /** True while training, so that dropout drops. Default false. */
  readonly train?: boolean | undefined;
  /** Random key (u32[2]) of this application; only layers that draw random numbers while training need it. */
  readonly key?: Tensor | undefined;
  /** Compute in 16-bit floats where that is safe: see {@link applyLayer}. Default: in the dtype of the input. */
  readonly precision?: DType | undefined;
}

/** A layer's result: the output and the new state. */
export interface Applied {
  readonly y: Tensor;
  readonly state: Tensors;
}

/** A part of a network, typed by its tree of parameters. Any object with these functions is a layer. */
export interface Layer<Params = Tensors> {
  /** The layer's name in messages, such as `"linear"`. */
  readonly kind: string;
  /**
   * Makes variables for an input of this shape (batch dim first) and dtype.
   *
   * @throws HeddleError `shape` or `dtype` when the input does not fit.
   */
  init(key: Tensor, input: TensorType): Initialised<Params>;
  apply(variables: Variables<Params>, x: Tensor, options?: ApplyOptions): Applied;
  /** Whether the layer needs the range or precision of f32: then it computes in f32 even with a 16-bit `precision`. Norms and softmaxes do. */
  readonly needsRange?: boolean;
  /**
   * Whether the layer passes `precision` on to the layers inside it, which cast their own parameters: those of norms stay f32. Then the
   * layer gets its input and parameters uncast.
   */
  readonly passesPrecision?: boolean;
  /** The layers inside, by the dotted names of their variables. The layer passes `precision` on to them. */
  readonly layers?: { readonly [name: string]: Layer };
  /** The layer that this one wraps; both have the same variables. */
  readonly wraps?: Layer;
}

/** One value, or several by name. */
export type OneOrMore<Value> = Value | { readonly [name: string]: Value };

/** A model of several columns or several outputs: like a layer, but its input or output, or both, may be a record of tensors. */
export interface RecordModel<Params = Tensors> {
  /** The model's name in messages. */
  readonly kind: string;
  /** `input` is `{ shape, dtype }`, or for several columns a record of these; so is `output`. */
  // biome-ignore lint/suspicious/noExplicitAny: the names of columns are the user's
  init(key: Tensor, input: any): Variables<Params> & { readonly output: OneOrMore<TensorType> };
  apply(
    variables: Variables<Params>,
    // biome-ignore lint/suspicious/noExplicitAny: a tensor, or a record of tensors under the user's names
    x: any,
    options?: ApplyOptions,
  ): { readonly y: OneOrMore<Tensor>; readonly state: Tensors };
}

/** A layer, or a function of one tensor that stands for a layer without variables. */
export type LayerLike = Layer | ((x: Tensor) => Tensor);

/** The tree of parameters of a layer or model. */
export type ParamsOf<L> = L extends Layer<infer Params> | RecordModel<infer Params> ? Params : NoTensors;

/** A layer without variables: `y = fn(x)`. */
export function activation(
  fn: (x: Tensor) => Tensor,
  kind: string = typeof fn === "function" && fn.name !== "" ? fn.name : "activation",
  options: Pick<Layer, "needsRange"> = {},
): Layer<NoTensors> {
  if (typeof fn !== "function") throw new HeddleError("argument", `${kind}: takes a function, got ${shown(fn)}`);
  const apply = (x: Tensor): Tensor => {
    const y: unknown = fn(x);
    if (!isTensor(y))
      throw new HeddleError("model", `a layer's function must return a tensor, but returned ${shown(y)}`);
    return y;
  };
  return positioned({
    ...options,
    kind,
    init: (_key, input) => ({ params: {}, state: {}, output: evalShape(apply, input) }),
    apply: (_variables, x) => ({ y: apply(x), state: {} }),
  });
}

/** The layer that a function stands for. */
export const asLayer = (layer: LayerLike): Layer => (typeof layer === "function" ? activation(layer) : layer);

/** Whether a value is a layer, or a function that stands for a layer. */
export const isLayerLike = (value: unknown): value is LayerLike =>
  typeof value === "function" ||
  (typeof (value as Partial<Layer> | undefined)?.init === "function" && typeof (value as Layer).apply === "function");

/** The function of `nn` that made a layer, and its arguments: a model file stores these, and reading the file makes the layer again. */
export interface Recipe {
  readonly make: string;
  readonly args: readonly unknown[];
}

const recipes = new WeakMap<object, Recipe>();

/** Remembers which function of `nn` made a layer, and from which arguments. */
export function madeBy<L extends object>(layer: L, make: string, ...args: readonly unknown[]): L {
  recipes.set(layer, { make, args });
  return layer;
}

/** How a layer is made again; undefined for a layer that the user's code made. */
export const recipeOf = (layer: object): Recipe | undefined => recipes.get(layer);

const positions = new WeakMap<object, SourcePosition>();

/** Dtypes that `precision` can be. */
const floats: readonly DType[] = dtypeNames.filter(isFloat);

/**
 * A layer that checks its arguments and remembers where the user made it, since its errors appear only later. `more` names the
 * options of `apply` besides those of every layer; with `records` the input may be a record.
 */
export function positioned<Params>(
  layer: Layer<Params>,
  more: readonly string[] = [],
  { records = false }: { readonly records?: boolean } = {},
): Layer<Params> {
  const names = ["train", "key", "precision", ...more];
  const isType = (type: unknown): boolean => isTensorType(type) || (records && recordOf(type, isTensorType));
  const isInput = (x: unknown): boolean => isTensor(x) || (records && recordOf(x, isTensor));
  const checked: Layer<Params> = {
    ...layer,
    init(key, input) {
      if (!isTensor(key)) throw new HeddleError("argument", `${layer.kind}: init takes a key, such as random.key(0)`);
      if (recordOf(input, isTensorType) && !records)
        throw new HeddleError("argument", `${layer.kind}: init takes one input, got ${shown(input)}`, {
          hint: "nn.module({ … }, (l, { image, meta }) => …) makes a model of several columns",
        });
      if (!isType(input))
        throw new HeddleError("argument", `${layer.kind}: init takes { shape, dtype } of the input after the key`);
      return ofLayer(layer.kind, () => layer.init(key, input));
    },
    apply(variables, x, options) {
      if (typeof variables?.params !== "object" || typeof variables.state !== "object")
        throw new HeddleError("argument", `${layer.kind}: apply takes { params, state } first, as init gives them`);
      if (!isInput(x)) throw new HeddleError("argument", `${layer.kind}: apply takes a tensor, got ${shown(x)}`);
      if (options !== undefined) checkOptions(`${layer.kind}: apply`, options, names);
      const precision: unknown = options?.precision;
      if (precision !== undefined && !floats.includes(precision as DType))
        throw new HeddleError(
          "option",
          `${layer.kind}: apply: precision must be ${floats.join(" or ")}, got ${shown(precision)}`,
        );
      return ofLayer(layer.kind, () => layer.apply(variables, x, options));
    },
  };
  positions.set(checked, capturePosition());
  return checked;
}

/**
 * Applies any layer. With `precision`, a layer without layers inside (neither `layers` nor `passesPrecision`) computes in that dtype: its
 * input and parameters are cast to it, and gradients are cast back. Layers with `needsRange` compute in f32.
 *
 * @throws HeddleError `model` when the layer's result is not `{ y, state }`.
 */
export function applyLayer(layer: Layer, variables: Variables, x: Tensor, options: ApplyOptions = {}): Applied {
  if (typeof layer?.apply !== "function") throw new HeddleError("model", `${shown(layer)} is no layer`);
  const { precision } = options;
  const passes = layer.layers !== undefined || layer.passesPrecision === true;
  if (precision === undefined || passes) return checkedApply(layer, variables, x, options);
  const { params, state } = variables;
  const dtype = layer.needsRange === true ? "f32" : precision;
  const applied = checkedApply(layer, { params: castFloats(params, dtype), state }, castInput(x, dtype), options);
  const types = flattenTree(state, isTensor).leaves.map((leaf) => leaf.dtype);
  const newState = flattenTree(applied.state, isTensor);
  // The state keeps its dtype.
  const newLeaves = newState.leaves.map((leaf, index) => castFloat(leaf, types[index] ?? leaf.dtype));
  return { y: applied.y, state: unflattenTree(newState.shape, newLeaves) as Tensors };
}

/** @throws HeddleError `shape` for an input whose width does not fit the layer's parameters. */
export function checkWidth(x: TensorType, size: number, dim = -1): void {
  if (x.shape.at(dim) === size) return;
  const expected = dim === -1 ? `[…, ${size}]` : `[batch, ${size}, …]`;
  throw new HeddleError("shape", `takes ${expected}, as its parameters are for ${size} features, got ${formatType(x)}`);
}

/** Casts a float tensor to a dtype; gives the tensor itself without a dtype, and for other tensors. */
export const castFloat = (x: Tensor, dtype: DType | undefined): Tensor =>
  dtype === undefined ? x : isFloat(x.dtype) && x.dtype !== dtype ? x.cast(dtype) : x;

/** Casts the floats of a layer's input, a tensor or a record, to a dtype. */
export const castInput = (x: Tensor, dtype: DType | undefined): Tensor =>
  isTensor(x) ? castFloat(x, dtype) : (castFloats(x, dtype) as unknown as Tensor);

/** Casts the floats of a tree to a dtype. */
export function castFloats(tree: Tensors, dtype: DType | undefined): Tensors {
  const { leaves, shape } = flattenTree(tree, isTensor);
  return unflattenTree(
    shape,
    leaves.map((leaf) => castFloat(leaf, dtype)),
  ) as Tensors;
}

function checkedApply(layer: Layer, variables: Variables, x: Tensor, options: ApplyOptions): Applied {
  const applied: unknown = layer.apply(variables, x, options);
  const { y, state } = (applied ?? {}) as Partial<Applied>;
  // A record holds the outputs of a model of several outputs; `train` hands them to the losses.
  if ((isTensor(y) || recordOf(y, isTensor)) && typeof state === "object" && state !== null)
    return { y: y as Tensor, state };
  const what =
    isTensor(applied) || typeof applied !== "object" ? shown(applied) : `y: ${shown(y)}, state: ${shown(state)}`;
  throw new HeddleError(
    "model",
    `${layer.kind ?? "model"}: apply must give { y, state }, with a tensor y, but gave ${what}`,
  );
}

/** Whether a value is a record, not empty, whose values all pass the test. */
export const recordOf = (value: unknown, isOne: (element: unknown) => boolean): boolean =>
  isRecord(value) && Object.keys(value).length > 0 && Object.values(value).every(isOne);

/** The key of a scope inside another: different names, and different ordinals, give different keys. */
export function scopeKey(key: Tensor, scope: string | number): Tensor {
  if (typeof scope !== "number" && typeof scope !== "string")
    throw new HeddleError("argument", `scopeKey: a scope is a name or a number, got ${shown(scope)}`);
  return random.foldIn(key, typeof scope === "number" ? scope : hashOf(scope));
}

// foldIn takes i32 below 2^30; ordinals take the small numbers, names the upper half.
function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  return 2 ** 29 + ((hash ^ (hash >>> 15)) & (2 ** 29 - 1));
}

/** Path and kind of the innermost layer that an error came from. */
const paths = new WeakMap<HeddleError, { readonly path: string; readonly kind: string; readonly text: string }>();

/** Errors of layers that begin with the layer's kind. */
const named = new WeakSet<HeddleError>();

/** Runs a part of a layer. Its errors name the layer's kind, unless they name the kind or a child's path already. */
export function ofLayer<Result>(kind: string, body: () => Result): Result {
  try {
    return speakingAs(speakerNow() ?? { name: kind }, body);
  } catch (error) {
    if (!(error instanceof HeddleError) || error.constructor !== HeddleError) throw error;
    if (paths.has(error) || named.has(error) || [kind, speakerNow()?.name ?? kind].includes(error.by ?? ""))
      throw error;
    const told = error.toldAs(kind, error.plain);
    named.add(told);
    throw told;
  }
}

/** Called after every inner layer that has run, with its path and result. */
type Watcher = (path: string, result: unknown) => void;
let watcher: Watcher | undefined;

/** Runs a part of a model; `watch` is called for each inner layer that runs meanwhile. */
export function watchingLayers<Result>(watch: Watcher, body: () => Result): Result {
  const outer = watcher;
  watcher = watch;
  try {
    return body();
  } finally {
    watcher = outer;
  }
}

/** Runs a part of a layer's child; its errors name the child's path: `layer 3 (linear): …`. */
export function inLayer<Result>(name: string, layer: Layer, body: () => Result): Result {
  const outerPath = speakerNow()?.path;
  const path = outerPath === undefined ? name : `${outerPath}.${name}`;
  const speaker = `layer ${path} (${layer.kind})`;
  try {
    const result = speakingAs({ name: speaker, path, madeAt: positions.get(layer) }, body);
    watcher?.(path, result);
    return result;
  } catch (error) {
    if (!(error instanceof HeddleError)) throw error;
    throw withPath(error, name, layer, speaker);
  }
}

/** Names the path of a layer. `speaker` is the name that errors of a run in this layer begin with. */
function withPath(error: HeddleError, name: string, layer: Layer, speaker: string): HeddleError {
  const inner = paths.get(error);
  const path = inner === undefined ? name : `${name}.${inner.path}`;
  const kind = inner?.kind ?? layer.kind;
  const text = inner?.text ?? (error.by === kind || error.by === speaker ? error.said : error.plain);
  const where = inner === undefined ? (describePosition(positions.get(layer)) ?? error.where) : error.where;
  const located = error.toldAs(`layer ${path} (${kind})`, text, where);
  paths.set(located, { path, kind, text });
  return located;
}
