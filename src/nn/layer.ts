/**
 * @module What a layer is: a record of two pure functions. State is explicit; nothing is kept between calls.
 *
 *     const layer = nn.linear(10);
 *     const { params, state, output } = layer.init(random.key(0), { shape: [128, 784], dtype: "f32" });
 *     const { y } = layer.apply({ params, state }, x, { train: false });
 */
import type { TensorType } from "../ir/shape.ts";
import { evalShape, random, type Tensor, type Tensors } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { capturePosition, describePosition, type SourcePosition } from "../util/source.ts";

/** What a layer computes with: parameters, which are trained, and state, which it changes itself. */
export interface Variables {
  readonly params: Tensors;
  readonly state: Tensors;
}

/** Fresh variables, and what the layer makes of its input. */
export interface Initialised extends Variables {
  readonly output: TensorType;
}

/** How a layer is applied. */
export interface ApplyOptions {
  /** True while training: dropout drops. Default false. */
  readonly train?: boolean | undefined;
  /** Random key (u32[2]) of this application; only layers that draw while training need it. */
  readonly key?: Tensor | undefined;
}

/** What a layer gives: its result and its new state. */
export interface Applied {
  readonly y: Tensor;
  readonly state: Tensors;
}

/** A part of a network. Any object with these functions is one. */
export interface Layer {
  /** What messages call it, such as `"linear"`. */
  readonly kind: string;
  /**
   * Makes variables for an input of this shape (batch dim first) and dtype.
   *
   * @throws HeddleError `shape` or `dtype` when the input does not fit.
   */
  init(key: Tensor, input: TensorType): Initialised;
  apply(variables: Variables, x: Tensor, options?: ApplyOptions): Applied;
}

/** A layer, or a function of one tensor that stands for a layer without variables. */
export type LayerLike = Layer | ((x: Tensor) => Tensor);

/** A layer without variables: `y = fn(x)`. */
export function activation(fn: (x: Tensor) => Tensor, kind: string = fn.name === "" ? "activation" : fn.name): Layer {
  return positioned({
    kind,
    init: (_key, input) => ({ params: {}, state: {}, output: evalShape(fn, input) }),
    apply: (_variables, x) => ({ y: fn(x), state: {} }),
  });
}

/** The layer that a function stands for. */
export const asLayer = (layer: LayerLike): Layer => (typeof layer === "function" ? activation(layer) : layer);

const positions = new WeakMap<Layer, SourcePosition>();

/** Remembers where the user made a layer, for errors that only show when its input is known. */
export function positioned(layer: Layer): Layer {
  positions.set(layer, capturePosition());
  return layer;
}

/** A scope's own key: no two names of a scope, and no two ordinals, share one. */
export function scopeKey(key: Tensor, scope: string | number): Tensor {
  return random.foldIn(key, typeof scope === "number" ? scope : hashOf(scope));
}

// foldIn takes i32 below 2^30; ordinals take the small numbers, names the upper half.
function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  return 2 ** 29 + ((hash ^ (hash >>> 15)) & (2 ** 29 - 1));
}

/** Path and kind of the layers that an error came through. */
const paths = new WeakMap<HeddleError, { readonly path: string; readonly kind: string; readonly text: string }>();

/** Runs a part of a layer's child; its errors name the child's path: `layer 3 (linear): …`. */
export function inLayer<Result>(name: string, layer: Layer, body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof HeddleError)) throw error;
    throw withPath(error, name, layer);
  }
}

function withPath(error: HeddleError, name: string, layer: Layer): HeddleError {
  const inner = paths.get(error);
  const path = inner === undefined ? name : `${name}.${inner.path}`;
  const kind = inner?.kind ?? layer.kind;
  const text = inner?.text ?? error.plain;
  const where = inner === undefined ? (describePosition(positions.get(layer)) ?? error.where) : error.where;
  const located = new HeddleError(error.code, `layer ${path} (${kind}): ${text}`, {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(where === undefined ? {} : { where }),
    cause: error,
  });
  paths.set(located, { path, kind, text });
  return located;
}
