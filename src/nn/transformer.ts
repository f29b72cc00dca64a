/** @module Transformer layers (Vaswani et al., 2017): PyTorch's parameter names, order of operations and defaults. */

import type { Tensor, Tensors } from "../functions/index.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { type AttendOptions, type AttentionLayer, multiHeadAttention, type RotaryOptions } from "./attention.ts";
import { dropout as dropoutLayer } from "./dropout.ts";
import * as functional from "./functional.ts";
import {
  type Applied,
  type ApplyOptions,
  applyLayer,
  castFloat,
  castFloats,
  type Initialised,
  inLayer,
  type Layer,
  madeBy,
  positioned,
  scopeKey,
  type Variables,
} from "./layer.ts";
import { linear } from "./linear.ts";
import { layerNorm, rmsNorm } from "./norms.ts";

/** Options of {@link transformerEncoderLayer} and {@link transformerDecoderLayer}. */
export interface TransformerOptions {
  /** Heads of attention, which divide the size of the inputs. */
  readonly heads: number;
  /** Width of the hidden layer of the feed-forward part; default 2,048, of `decoderBlock` four times the size. */
  readonly feedForward?: number;
  /** Probability of dropping weights of attention, hidden values and what is added to the residual; default 0.1. */
  readonly dropout?: number;
  /** Between the two feed-forward layers; default `"relu"`, of `decoderBlock` `"gelu"`. */
  readonly activation?: "relu" | "gelu" | ((x: Tensor) => Tensor);
  /** Norms before each part (Xiong et al., 2020) instead of after the residual; default false, of `decoderBlock` true. */
  readonly preNorm?: boolean;
  /** Of the norms; default 1e-5. */
  readonly epsilon?: number;
  /** `"layer"` (default) or `"rms"`. */
  readonly norm?: "layer" | "rms";
  /** Biases in attention, feed-forward layers and norms; default true. */
  readonly bias?: boolean;
  /** Each place sees itself and earlier ones only; default false, of `decoderBlock` and of decoders true. */
  readonly causal?: boolean;
  /** Heads of keys and values, which divide `heads`; default as many. */
  readonly groups?: number;
  /** Rotary embeddings of queries and keys in self-attention; default none. */
  readonly rotary?: boolean | RotaryOptions;
}

const optionNames = [
  "heads",
  "feedForward",
  "dropout",
  "activation",
  "preNorm",
  "epsilon",
  "norm",
  "bias",
  "causal",
  "groups",
  "rotary",
];

/** A layer's parts: children by PyTorch's names, and how they are put together. */
interface Parts {
  readonly children: { readonly [name: string]: Layer };
  readonly preNorm: boolean;
  readonly activate: (x: Tensor) => Tensor;
}

function activationOf(kind: string, activation: TransformerOptions["activation"]): (x: Tensor) => Tensor {
  if (typeof activation === "function") return activation;
  if (activation === undefined || activation === "relu") return functional.relu;
  if (activation === "gelu") return (x) => functional.gelu(x);
  throw new HeddleError("option", `${kind}: activation must be relu, gelu or a function, got ${String(activation)}`);
}

function partsOf(kind: string, options: TransformerOptions, size: number, cross: boolean): Parts {
  const { heads, feedForward = 2048, dropout = 0.1, preNorm = false, epsilon = 1e-5, bias = true } = options;
  const norm = (): Layer => (options.norm === "rms" ? rmsNorm({ epsilon }) : layerNorm({ epsilon, bias }));
  const shared = { heads, dropout, bias, ...(options.groups === undefined ? {} : { groups: options.groups }) };
  const own = { ...shared, causal: options.causal ?? cross, rotary: options.rotary ?? false };
  return {
    children: {
      self_attn: multiHeadAttention(own),
      ...(cross ? { multihead_attn: multiHeadAttention(shared) } : {}),
      linear1: linear(feedForward, { bias }),
      linear2: linear(size, { bias }),
      norm1: norm(),
      norm2: norm(),
      ...(cross ? { norm3: norm() } : {}),
      dropout: dropoutLayer(dropout),
      dropout1: dropoutLayer(dropout),
      dropout2: dropoutLayer(dropout),
      ...(cross ? { dropout3: dropoutLayer(dropout) } : {}),
    },
    preNorm,
    activate: activationOf(kind, options.activation),
  };
}

function check(kind: string, options: TransformerOptions): void {
  checkOptions(kind, options, optionNames);
  checkInteger(kind, "heads", options.heads, 1);
  if (options.feedForward !== undefined) checkInteger(kind, "feedForward", options.feedForward, 1);
  checkNumber(kind, "dropout", options.dropout ?? 0.1, 0, 1);
  checkNumber(kind, "epsilon", options.epsilon ?? 1e-5, 0);
  activationOf(kind, options.activation);
  if (options.norm !== undefined && options.norm !== "layer" && options.norm !== "rms")
    throw new HeddleError("option", `${kind}: norm must be layer or rms, got ${String(options.norm)}`);
}

function sizeOf(input: TensorType): number {
  const size = input.shape[2];
  if (input.shape.length !== 3 || size === undefined)
    throw new HeddleError("shape", `takes [batch, places, size], got ${formatType(input)}`);
  return size;
}

function initParts({ children }: Parts, key: Tensor, input: TensorType): Initialised {
  const hidden = { ...input };
  const params: { [name: string]: Tensors } = {};
  let inner = input;
  for (const [name, child] of Object.entries(children)) {
    const given = name === "linear2" ? inner : hidden;
    const made = inLayer(name, child, () => child.init(scopeKey(key, name), given));
    if (name === "linear1") inner = made.output;
    if (Object.keys(made.params).length > 0) params[name] = made.params;
  }
  return { params, state: {}, output: input };
}

/** How an application runs the parts: by name, with keys and variables of their own. */
interface Running {
  readonly precision: ApplyOptions["precision"];
  readonly run: (name: string, x: Tensor) => Tensor;
  readonly attend: (name: string, x: Tensor, options: AttendOptions) => Tensor;
}

function running({ children }: Parts, params: Tensors, options: ApplyOptions): Running {
  const of = (name: string): { child: Layer; variables: Variables; own: ApplyOptions } => {
    const key = options.key === undefined ? undefined : scopeKey(options.key, name);
    const variables = { params: (params[name] ?? {}) as Tensors, state: {} };
    return {
      child: children[name] as Layer,
      variables,
      own: { train: options.train, key, precision: options.precision },
    };
  };
  return {
    precision: options.precision,
    run(name, x) {
      const { child, variables, own } = of(name);
      // Norms give f32; what the next part takes, and the sums of the residual, are of the precision.
      return inLayer(name, child, () => castFloat(applyLayer(child, variables, x, own).y, own.precision));
    },
    attend(name, x, more) {
      const { child, variables, own } = of(name);
      const cast = { params: castFloats(variables.params, own.precision), state: {} };
      const memory = more.memory === undefined ? undefined : castFloat(more.memory, own.precision);
      const query = castFloat(x, own.precision);
      return inLayer(name, child, () => (child as AttentionLayer).attend(cast, query, { ...more, memory, ...own }));
    },
  };
}

/** Residual parts one after another, each with its norm before or after. */
function residual(
  x: Tensor,
  { preNorm }: Parts,
  { run, precision }: Running,
  steps: readonly (readonly [norm: string, step: (x: Tensor) => Tensor])[],
): Tensor {
  return steps.reduce(
    (value, [norm, step]) => (preNorm ? value.add(step(run(norm, value))) : run(norm, value.add(step(value)))),
    castFloat(x, precision),
  );
}

/** Masks of a transformer layer: as of `multiHeadAttention`'s `attend`. */
export interface TransformerMasks {
  /** Broadcasts to `[batch, heads, places, places]`; bool, or added. */
  readonly mask?: Tensor | undefined;
  /** bool `[batch, places]`: which places are there. */
  readonly present?: Tensor | undefined;
}

/** An encoder layer. */
export interface TransformerLayer extends Layer {
  /** As `apply`, with masks. */
  encode(variables: Variables, x: Tensor, options?: ApplyOptions & TransformerMasks): Tensor;
}

/**
 * Self-attention and two feed-forward layers, each with a residual and a norm, over `[batch, places, size]`. Parameters as PyTorch's
 * `TransformerEncoderLayer`: `self_attn.in_proj_weight`, `linear1.weight`, `norm1.weight`, …
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the heads do not divide the size
 */
export const transformerEncoderLayer = (options: TransformerOptions): TransformerLayer =>
  madeBy(encoderLayer("transformerEncoderLayer", options), "transformerEncoderLayer", options);

/**
 * A block as of GPT: causal self-attention and two feed-forward layers with GELU, norms before both. The options and parameters of
 * {@link transformerEncoderLayer}; the hidden layer is four times as wide as the input by default.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the heads do not divide the size
 */
export const decoderBlock = (options: TransformerOptions): TransformerLayer =>
  madeBy(
    encoderLayer("decoderBlock", { preNorm: true, activation: "gelu", causal: true, ...options }, 4),
    "decoderBlock",
    options,
  );

function encoderLayer(kind: string, options: TransformerOptions, wide?: number): TransformerLayer {
  check(kind, options);
  const parts = (size: number): Parts =>
    partsOf(kind, wide === undefined ? options : { feedForward: wide * size, ...options }, size, false);
  const encode = (variables: Variables, x: Tensor, given: ApplyOptions & TransformerMasks = {}): Tensor => {
    const own = parts(sizeOf(x));
    const parted = running(own, variables.params, given);
    const { run, attend } = parted;
    const { mask, present } = given;
    return residual(x, own, parted, [
      ["norm1", (y) => run("dropout1", attend("self_attn", y, { mask, present }))],
      ["norm2", (y) => run("dropout2", fedForward(own, run, y))],
    ]);
  };
  const layer = positioned(
    {
      kind,
      passesPrecision: true,
      init: (key, input) => initParts(parts(sizeOf(input)), key, input),
      apply: (variables, x, given = {}): Applied => ({ y: encode(variables, x, given), state: {} }),
    },
    ["mask", "present"],
  );
  return Object.assign(layer, { encode });
}

const fedForward = ({ activate }: Parts, run: Running["run"], x: Tensor): Tensor =>
  run("linear2", run("dropout", activate(run("linear1", x))));

/** A decoder layer takes two inputs, so it is no {@link Layer}. */
export interface TransformerDecoderLayer {
  readonly kind: string;
  /** Variables for `[batch, places, size]`. */
  init(key: Tensor, input: TensorType): Initialised;
  /** Self-attention, attention to the memory `[batch, m, size]`, feed-forward. `memoryPresent`: bool `[batch, m]`. */
  decode(
    variables: Variables,
    x: Tensor,
    memory: Tensor,
    options?: ApplyOptions & TransformerMasks & { readonly memoryPresent?: Tensor | undefined },
  ): Tensor;
}

/**
 * Self-attention, attention to a memory and two feed-forward layers, each with a residual and a norm. Parameters as PyTorch's
 * `TransformerDecoderLayer`; self-attention is causal unless `causal: false` is given.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the heads do not divide the size
 */
export function transformerDecoderLayer(options: TransformerOptions): TransformerDecoderLayer {
  const kind = "transformerDecoderLayer";
  check(kind, options);
  const parts = (size: number): Parts => partsOf(kind, options, size, true);
  return madeBy(
    {
      kind,
      init: (key, input) => initParts(parts(sizeOf(input)), key, input),
      decode(variables, x, memory, given = {}) {
        const own = parts(sizeOf(x));
        const parted = running(own, variables.params, given);
        const { run, attend } = parted;
        const { mask, present, memoryPresent } = given;
        return residual(x, own, parted, [
          ["norm1", (y) => run("dropout1", attend("self_attn", y, { mask, present }))],
          ["norm2", (y) => run("dropout2", attend("multihead_attn", y, { memory, present: memoryPresent }))],
          ["norm3", (y) => run("dropout3", fedForward(own, run, y))],
        ]);
      },
    },
    "transformerDecoderLayer",
    options,
  );
}

/** Options of {@link transformerEncoder}. */
export interface TransformerEncoderOptions extends TransformerOptions {
  /** Encoder layers one above the other. */
  readonly layers: number;
  /** A norm behind the last layer; default as `preNorm`. */
  readonly finalNorm?: boolean;
}

/**
 * Encoder layers one above the other. Parameters as PyTorch's `TransformerEncoder`: `layers.0.self_attn.in_proj_weight`, …, and `norm`.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the heads do not divide the size
 */
export function transformerEncoder(options: TransformerEncoderOptions): TransformerLayer {
  const kind = "transformerEncoder";
  const { layers, finalNorm, ...rest } = asRecord(kind, options);
  checkInteger(kind, "layers", layers, 1);
  check(kind, rest);
  const children = Array.from({ length: layers }, () => encoderLayer(kind, rest));
  const { epsilon = 1e-5, bias = true, preNorm = false } = rest;
  const norm = rest.norm === "rms" ? rmsNorm({ epsilon }) : layerNorm({ epsilon, bias });
  const ends = finalNorm ?? preNorm;
  const encode = (variables: Variables, x: Tensor, given: ApplyOptions & TransformerMasks = {}): Tensor => {
    const { layers: own, norm: last } = variables.params as { layers: { [name: string]: Tensors }; norm?: Tensors };
    const y = children.reduce((value, child, index) => {
      const name = `layers.${index}`;
      const key = given.key === undefined ? undefined : scopeKey(given.key, name);
      const params = own[String(index)] as Tensors;
      return inLayer(name, child, () => child.encode({ params, state: {} }, value, { ...given, key }));
    }, x);
    if (!ends) return y;
    const { precision } = given;
    return castFloat(applyLayer(norm, { params: last ?? {}, state: {} }, y, { precision }).y, precision);
  };
  const layer = positioned(
    {
      kind,
      passesPrecision: true,
      init(key, input) {
        const made = children.map((child, index) => {
          const name = `layers.${index}`;
          return [String(index), inLayer(name, child, () => child.init(scopeKey(key, name), input)).params] as const;
        });
        const last = ends ? { norm: norm.init(key, input).params } : {};
        return { params: { layers: Object.fromEntries(made), ...last }, state: {}, output: input };
      },
      apply: (variables, x, given = {}): Applied => ({ y: encode(variables, x, given), state: {} }),
    },
    ["mask", "present"],
  );
  return madeBy(Object.assign(layer, { encode }), "transformerEncoder", options);
}
