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
  /** Number of attention heads, which must divide the size of the inputs. */
  readonly heads: number;
  /** Width of the hidden layer of the feed-forward part; default 2,048; for `decoderBlock` four times the size. */
  readonly feedForward?: number;
  /** Probability of dropping attention weights, hidden values and the terms added to the residual; default 0.1. */
  readonly dropout?: number;
  /** Activation between the two feed-forward layers; default `"relu"`, for `decoderBlock` `"gelu"`. */
  readonly activation?: "relu" | "gelu" | ((x: Tensor) => Tensor);
  /** Norms before each part (Xiong et al., 2020) instead of after the residual; default false, for `decoderBlock` true. */
  readonly preNorm?: boolean;
  /** Epsilon of the norms; default 1e-5. */
  readonly epsilon?: number;
  /** Kind of the norms: `"layer"` (default) or `"rms"`. */
  readonly norm?: "layer" | "rms";
  /** Biases in attention, feed-forward layers and norms; default true. */
  readonly bias?: boolean;
  /** Each position attends to itself and earlier positions only; default false, for `decoderBlock` and decoders true. */
  readonly causal?: boolean;
  /** Number of heads of keys and values, which must divide `heads`; default `heads`. */
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

/** A layer's parts: children by PyTorch's names, and how they are combined. */
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
  const attentionOptions = {
    heads,
    dropout,
    bias,
    ...(options.groups === undefined ? {} : { groups: options.groups }),
  };
  const selfOptions = { ...attentionOptions, causal: options.causal ?? cross, rotary: options.rotary ?? false };
  return {
    children: {
      self_attn: multiHeadAttention(selfOptions),
      ...(cross ? { multihead_attn: multiHeadAttention(attentionOptions) } : {}),
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
    throw new HeddleError("shape", `takes [batch, positions, size], got ${formatType(input)}`);
  return size;
}

function initParts({ children }: Parts, key: Tensor, input: TensorType): Initialised {
  const hidden = { ...input };
  const params: { [name: string]: Tensors } = {};
  let inner = input;
  for (const [name, child] of Object.entries(children)) {
    const childInput = name === "linear2" ? inner : hidden;
    const initialised = inLayer(name, child, () => child.init(scopeKey(key, name), childInput));
    if (name === "linear1") inner = initialised.output;
    if (Object.keys(initialised.params).length > 0) params[name] = initialised.params;
  }
  return { params, state: {}, output: input };
}

/** Runs the parts of a layer by name, each with its own key and variables. */
interface Running {
  readonly precision: ApplyOptions["precision"];
  readonly run: (name: string, x: Tensor) => Tensor;
  readonly attend: (name: string, x: Tensor, options: AttendOptions) => Tensor;
}

function running({ children }: Parts, params: Tensors, options: ApplyOptions): Running {
  const childOf = (name: string): { child: Layer; variables: Variables; applyOptions: ApplyOptions } => {
    const key = options.key === undefined ? undefined : scopeKey(options.key, name);
    const variables = { params: (params[name] ?? {}) as Tensors, state: {} };
    return {
      child: children[name] as Layer,
      variables,
      applyOptions: { train: options.train, key, precision: options.precision },
    };
  };
  return {
    precision: options.precision,
    run(name, x) {
      const { child, variables, applyOptions } = childOf(name);
      // Norms give f32; the input of the next part and the sums of the residual have the dtype `precision`.
      return inLayer(name, child, () =>
        castFloat(applyLayer(child, variables, x, applyOptions).y, applyOptions.precision),
      );
    },
    attend(name, x, more) {
      const { child, variables, applyOptions } = childOf(name);
      const cast = { params: castFloats(variables.params, applyOptions.precision), state: {} };
      const memory = more.memory === undefined ? undefined : castFloat(more.memory, applyOptions.precision);
      const query = castFloat(x, applyOptions.precision);
      return inLayer(name, child, () =>
        (child as AttentionLayer).attend(cast, query, { ...more, memory, ...applyOptions }),
      );
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
  /** Broadcasts to `[batch, heads, positions, positions]`; bool, or floats that are added to the scores. */
  readonly mask?: Tensor | undefined;
  /** bool `[batch, positions]`: which positions are not padding. */
  readonly present?: Tensor | undefined;
}

/** An encoder layer. */
export interface TransformerLayer extends Layer {
  /** As {@link Layer.apply}, with masks. */
  apply(variables: Variables, x: Tensor, options?: ApplyOptions & TransformerMasks): Applied;
  /** As `apply`, with masks. */
  encode(variables: Variables, x: Tensor, options?: ApplyOptions & TransformerMasks): Tensor;
}

/**
 * Self-attention and two feed-forward layers, each with a residual and a norm, over `[batch, positions, size]`. Parameters as PyTorch's
 * `TransformerEncoderLayer`: `self_attn.in_proj_weight`, `linear1.weight`, `norm1.weight`, …
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the heads do not divide the size
 */
export const transformerEncoderLayer = (options: TransformerOptions): TransformerLayer =>
  madeBy(encoderLayer("transformerEncoderLayer", options), "transformerEncoderLayer", options);

/**
 * A GPT block: causal self-attention and two feed-forward layers with GELU, norms before both. The options and parameters of
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

function encoderLayer(kind: string, options: TransformerOptions, widthFactor?: number): TransformerLayer {
  check(kind, options);
  const parts = (size: number): Parts =>
    partsOf(kind, widthFactor === undefined ? options : { feedForward: widthFactor * size, ...options }, size, false);
  const encode = (variables: Variables, x: Tensor, applyOptions: ApplyOptions & TransformerMasks = {}): Tensor => {
    const layerParts = parts(sizeOf(x));
    const runningParts = running(layerParts, variables.params, applyOptions);
    const { run, attend } = runningParts;
    const { mask, present } = applyOptions;
    return residual(x, layerParts, runningParts, [
      ["norm1", (y) => run("dropout1", attend("self_attn", y, { mask, present }))],
      ["norm2", (y) => run("dropout2", fedForward(layerParts, run, y))],
    ]);
  };
  const layer = positioned(
    {
      kind,
      passesPrecision: true,
      init: (key, input) => initParts(parts(sizeOf(input)), key, input),
      apply: (variables, x, applyOptions = {}): Applied => ({ y: encode(variables, x, applyOptions), state: {} }),
    },
    ["mask", "present"],
  );
  return Object.assign(layer, { encode });
}

const fedForward = ({ activate }: Parts, run: Running["run"], x: Tensor): Tensor =>
  run("linear2", run("dropout", activate(run("linear1", x))));

/** A decoder layer takes two inputs, so it is not a {@link Layer}. */
export interface TransformerDecoderLayer {
  readonly kind: string;
  /** Makes variables for an input `[batch, positions, size]`. */
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
      decode(variables, x, memory, applyOptions = {}) {
        const layerParts = parts(sizeOf(x));
        const runningParts = running(layerParts, variables.params, applyOptions);
        const { run, attend } = runningParts;
        const { mask, present, memoryPresent } = applyOptions;
        return residual(x, layerParts, runningParts, [
          ["norm1", (y) => run("dropout1", attend("self_attn", y, { mask, present }))],
          ["norm2", (y) => run("dropout2", attend("multihead_attn", y, { memory, present: memoryPresent }))],
          ["norm3", (y) => run("dropout3", fedForward(layerParts, run, y))],
        ]);
      },
    },
    "transformerDecoderLayer",
    options,
  );
}

/** Options of {@link transformerEncoder}. */
export interface TransformerEncoderOptions extends TransformerOptions {
  /** Number of encoder layers. */
  readonly layers: number;
  /** Add a norm after the last layer; default `preNorm`. */
  readonly finalNorm?: boolean;
}

/**
 * A stack of encoder layers. Parameters as PyTorch's `TransformerEncoder`: `layers.0.self_attn.in_proj_weight`, …, and `norm`.
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
  const hasFinalNorm = finalNorm ?? preNorm;
  const encode = (variables: Variables, x: Tensor, applyOptions: ApplyOptions & TransformerMasks = {}): Tensor => {
    const { layers: layerParams, norm: normParams } = variables.params as {
      layers: { [name: string]: Tensors };
      norm?: Tensors;
    };
    const y = children.reduce((value, child, index) => {
      const name = `layers.${index}`;
      const key = applyOptions.key === undefined ? undefined : scopeKey(applyOptions.key, name);
      const params = layerParams[String(index)] as Tensors;
      return inLayer(name, child, () => child.encode({ params, state: {} }, value, { ...applyOptions, key }));
    }, x);
    if (!hasFinalNorm) return y;
    const { precision } = applyOptions;
    return castFloat(applyLayer(norm, { params: normParams ?? {}, state: {} }, y, { precision }).y, precision);
  };
  const layer = positioned(
    {
      kind,
      passesPrecision: true,
      init(key, input) {
        const childParams = children.map((child, index) => {
          const name = `layers.${index}`;
          return [String(index), inLayer(name, child, () => child.init(scopeKey(key, name), input)).params] as const;
        });
        const normEntry = hasFinalNorm ? { norm: norm.init(key, input).params } : {};
        return { params: { layers: Object.fromEntries(childParams), ...normEntry }, state: {}, output: input };
      },
      apply: (variables, x, applyOptions = {}): Applied => ({ y: encode(variables, x, applyOptions), state: {} }),
    },
    ["mask", "present"],
  );
  return madeBy(Object.assign(layer, { encode }), "transformerEncoder", options);
}
