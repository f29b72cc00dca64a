/** @module Attention layers, and embeddings of positions: rotary, sinusoidal and learned. */
import {
  and,
  arange,
  concat,
  cos,
  exp,
  random,
  scaledDotProductAttention,
  select,
  sin,
  type Tensor,
  type Tensors,
  zeros,
} from "../functions/index.ts";
import { isFloat, wideDType } from "../ir/dtype.ts";
import { formatType, sameShape, type TensorType } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { keyOf } from "./dropout.ts";
import { uniformByFanIn, xavierUniform } from "./initialise.ts";
import {
  type Applied,
  type ApplyOptions,
  checkWidth,
  type Layer,
  madeBy,
  type NoTensors,
  positioned,
  scopeKey,
  type Variables,
} from "./layer.ts";
import { linearly } from "./linear.ts";

/** Options of {@link rotaryEmbedding}. */
export interface RotaryOptions {
  /** Base of the wavelengths; default 10,000. */
  readonly base?: number;
  /** Position of the first row; default 0. */
  readonly offset?: number;
  /** Whether a pair is two neighbouring columns (as in the paper), or a column from each half (as in Llama; default). */
  readonly interleaved?: boolean;
}

/**
 * Rotary position embeddings (Su et al., 2021) of `[…, positions, size]`, size even. Pair i is rotated by `position · base^(-2i / size)`,
 * so that products of queries and keys depend on distances alone. Angles are computed in f64, and 16-bit floats are rotated in f32, so
 * that distant positions stay distinct.
 *
 * @throws HeddleError `shape` when the size is odd; `dtype` unless x is float
 */
export function rotaryEmbedding(x: Tensor, options: RotaryOptions = {}): Tensor {
  checkTensor("rotaryEmbedding", x);
  checkOptions("rotaryEmbedding", options, ["base", "offset", "interleaved"]);
  const { base = 10_000, offset = 0, interleaved = false } = options;
  checkNumber("rotaryEmbedding", "base", base, Number.MIN_VALUE);
  checkInteger("rotaryEmbedding", "offset", offset, 0);
  const [positions, size] = x.shape.slice(-2) as [number, number];
  if (x.shape.length < 2 || size % 2 !== 0)
    throw new HeddleError("shape", `rotaryEmbedding: takes […, positions, even size], got ${formatType(x)}`);
  if (!isFloat(x.dtype)) throw new HeddleError("dtype", `rotaryEmbedding: takes floats, got ${formatType(x)}`);
  const wide = wideDType(x.dtype);
  const [turnCos, turnSin] = turnsOf(positions, size, base, offset).map((part) => part.cast(wide)) as [Tensor, Tensor];
  const half = size / 2;
  const lead = x.shape.slice(0, -1);
  const pairs = x.cast(wide).reshape([...lead, ...(interleaved ? [half, 2] : [2, half])]);
  const pick = (index: number): Tensor => {
    const halfDim = interleaved ? pairs.shape.length - 1 : pairs.shape.length - 2;
    const bound = (value: number): number[] => pairs.shape.map((length, dim) => (dim === halfDim ? value : length));
    const start = pairs.shape.map((_length, dim) => (dim === halfDim ? index : 0));
    return pairs.slice(start, bound(index + 1)).reshape([...lead, half]);
  };
  const [first, second] = [pick(0), pick(1)];
  const turned = [first.mul(turnCos).sub(second.mul(turnSin)), second.mul(turnCos).add(first.mul(turnSin))];
  const shape = [...lead, ...(interleaved ? [half, 1] : [1, half])];
  return concat(
    turned.map((part) => part.reshape(shape)),
    shape.length - (interleaved ? 1 : 2),
  )
    .reshape(x.shape)
    .cast(x.dtype);
}

/**
 * Cosines and sines of `position / base^(2i / size)`, f64 `[count, size / 2]`. In f32 the angle of position 100,000 would be off by 0.004,
 * and in 16 bits neighbouring positions would be equal.
 */
function turnsOf(count: number, size: number, base: number, offset: number): [cosines: Tensor, sines: Tensor] {
  const positions = arange(count, { dtype: "f64" }).add(offset).reshape([count, 1]);
  const angles = positions.mul(exp(arange(size / 2, { dtype: "f64" }).mul((-2 * Math.log(base)) / size)));
  return [cos(angles), sin(angles)];
}

/** Options of {@link multiHeadAttention}. */
export interface MultiHeadAttentionOptions {
  /** Number of heads, which must divide the size of the inputs. */
  readonly heads: number;
  /** Number of heads of keys and values, which must divide `heads` (grouped-query attention); default `heads`. */
  readonly groups?: number;
  /** Probability of dropping an attention weight while training; default 0. */
  readonly dropout?: number;
  /** Add biases; default true. */
  readonly bias?: boolean;
  /** Each position attends to itself and earlier positions only; default false. */
  readonly causal?: boolean;
  /** Rotary embeddings of queries and keys; default none. */
  readonly rotary?: boolean | RotaryOptions;
}

/** Options of `multiHeadAttention`'s `attend`: memory and masks. */
export interface AttendOptions extends ApplyOptions {
  /** Source of keys and values, `[batch, m, size]`; default x. */
  readonly memory?: Tensor | undefined;
  /**
   * As in `scaledDotProductAttention`: broadcasts to `[batch, heads, n, m]`. A bool mask of two dims, without `present`, is refused
   * if `batch` is `n`: it could be meant as `present`.
   */
  readonly mask?: Tensor | undefined;
  /** bool `[batch, m]`, true for keys that are not padding (PyTorch's `key_padding_mask` is the opposite). */
  readonly present?: Tensor | undefined;
}

/** Attention as a layer: `apply` is self-attention. */
export interface AttentionLayer extends Layer {
  /** As {@link Layer.apply}: attention of x to itself, with masks, or to a memory. */
  apply(variables: Variables, x: Tensor, options?: AttendOptions): Applied;
  /**
   * Attention of `x` `[batch, n, size]` to itself or to a memory.
   *
   * @throws HeddleError `shape` when memory or masks do not fit, or a mask could be meant as `present`; `argument` for a mask that is not a tensor
   */
  attend(variables: Variables, x: Tensor, options?: AttendOptions): Tensor;
}

/**
 * Multi-head attention (Vaswani et al., 2017) over `[batch, positions, size]`. Parameters as PyTorch's: `in_proj_weight` and
 * `in_proj_bias`, the rows of queries, keys and values one after another (`[3 · size, size]`; fewer for keys and values with `groups`),
 * `out_proj.weight` and `out_proj.bias`. The scores are never stored: memory grows with the number of positions, not with its square.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the heads do not divide the size
 */
export function multiHeadAttention(options: MultiHeadAttentionOptions): AttentionLayer {
  const kind = "multiHeadAttention";
  checkOptions(kind, options, ["heads", "groups", "dropout", "bias", "causal", "rotary"]);
  const { heads, groups = heads, dropout = 0, bias = true } = options;
  checkInteger(kind, "heads", heads, 1);
  checkInteger(kind, "groups", groups, 1);
  checkNumber(kind, "dropout", dropout, 0, 1);
  if (heads % groups !== 0)
    throw new HeddleError("option", `${kind}: ${heads} heads cannot share ${groups} groups of keys`);
  const attend = (variables: Variables, x: Tensor, applyOptions: AttendOptions = {}): Tensor =>
    attended({ ...options, groups, dropout }, variables.params, x, applyOptions);
  const layer = positioned(
    {
      kind,
      init(key, input) {
        const size = checkPositions(input, heads);
        const rows = size + (2 * size * groups) / heads;
        const { dtype } = input;
        return {
          params: {
            in_proj_weight: xavierUniform()(scopeKey(key, 0), [rows, size], dtype),
            ...(bias ? { in_proj_bias: zeros([rows], { dtype }) } : {}),
            out_proj: {
              weight: uniformByFanIn(scopeKey(key, 1), [size, size], size, dtype),
              ...(bias ? { bias: zeros([size], { dtype }) } : {}),
            },
          },
          state: {},
          output: input,
        };
      },
      apply: (variables, x, applyOptions = {}): Applied => ({ y: attend(variables, x, applyOptions), state: {} }),
    },
    ["memory", "mask", "present"],
  );
  return madeBy(Object.assign(layer, { attend }), "multiHeadAttention", options);
}

function checkPositions(input: TensorType, heads: number): number {
  if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
  const size = input.shape[2];
  if (input.shape.length !== 3 || size === undefined)
    throw new HeddleError("shape", `takes [batch, positions, size], got ${formatType(input)}`);
  if (size % heads !== 0)
    throw new HeddleError("shape", `${heads} heads do not divide the size of ${formatType(input)}`);
  return size;
}

type Settings = MultiHeadAttentionOptions & { readonly groups: number; readonly dropout: number };

function attended(settings: Settings, params: Tensors, x: Tensor, options: AttendOptions): Tensor {
  const { heads, groups, dropout, causal = false } = settings;
  const size = checkPositions(x, heads);
  const memory = options.memory ?? x;
  if (memory !== x && (memory.shape.length !== 3 || memory.shape[0] !== x.shape[0] || memory.shape[2] !== size))
    throw new HeddleError("shape", `a memory ${formatType(memory)} does not fit ${formatType(x)}`);
  const shared = (size * groups) / heads;
  const {
    in_proj_weight: weight,
    in_proj_bias: bias,
    out_proj: out,
  } = params as {
    in_proj_weight: Tensor;
    in_proj_bias?: Tensor;
    out_proj: { weight: Tensor; bias?: Tensor };
  };
  checkWidth(x, weight.shape[1] as number);
  // Without a memory, one product gives queries, keys and values; with a memory, each product takes its own rows of the weight.
  const rows = (from: number, to: number): { weight: Tensor; bias?: Tensor } => ({
    weight: weight.slice([from, 0], [to, size]),
    ...(bias === undefined ? {} : { bias: bias.slice([from], [to]) }),
  });
  const whole = memory === x ? linearly(x, { weight, ...(bias === undefined ? {} : { bias }) }) : undefined;
  const part = (from: number, to: number): Tensor =>
    whole === undefined
      ? linearly(from === 0 ? x : memory, rows(from, to))
      : whole.slice([0, 0, from], [...whole.shape.slice(0, 2), to]);
  const [q, k, v] = [part(0, size), part(size, size + shared), part(size + shared, size + 2 * shared)];
  const turn = (y: Tensor): Tensor =>
    settings.rotary === undefined || settings.rotary === false
      ? y
      : rotaryEmbedding(y, settings.rotary === true ? {} : settings.rotary);
  const drops = options.train === true && dropout > 0;
  const y = scaledDotProductAttention(
    turn(intoHeads(q as Tensor, heads)),
    turn(intoHeads(k as Tensor, groups)),
    intoHeads(v as Tensor, groups),
    { causal, mask: maskOf(options, x, memory), ...(drops ? { dropout, key: keyOf(options) } : {}) },
  );
  return linearly(y.transpose([0, 2, 1, 3]).reshape(x.shape), out);
}

/** `[batch, positions, size]` to `[batch, heads, positions, size / heads]`. */
function intoHeads(x: Tensor, heads: number): Tensor {
  const [batch, positions, size] = x.shape as [number, number, number];
  return x.reshape([batch, positions, heads, size / heads]).transpose([0, 2, 1, 3]);
}

/** `mask` and `present` combined into one mask. */
function maskOf({ mask, present }: AttendOptions, x: Tensor, memory: Tensor): Tensor | undefined {
  const [batch, keys] = memory.shape as [number, number];
  if (mask !== undefined) checkTensor("mask", mask);
  if (present !== undefined) checkTensor("present", present);
  if (present === undefined) {
    if (mask !== undefined) refuseAmbiguous(mask, x, keys);
    return mask;
  }
  if (present.dtype !== "bool" || present.shape.length !== 2 || present.shape[0] !== batch || present.shape[1] !== keys)
    throw new HeddleError(
      "shape",
      `present says which keys are there, bool[${batch},${keys}], got ${formatType(present)}`,
    );
  const spread = present.reshape([batch, 1, 1, keys]);
  if (mask === undefined) return spread;
  if (mask.dtype === "bool") return and(spread, mask);
  return select(spread, mask, -Infinity);
}

/** With as many queries as sequences, a mask `[batch, keys]` would silently broadcast as `[queries, keys]`. */
function refuseAmbiguous(mask: Tensor, x: Tensor, keys: number): void {
  const [batch, queries] = x.shape as [number, number];
  if (mask.dtype !== "bool" || batch !== queries || batch === 1 || !sameShape(mask.shape, [batch, keys])) return;
  throw new HeddleError(
    "shape",
    `a mask ${formatType(mask)} may be of [queries, keys] or of [batch, keys], as there are ${batch} of both`,
    {
      hint: `present: mask says which keys each sequence has, and mask.reshape([1, 1, ${queries}, ${keys}]) which keys each query sees`,
    },
  );
}

/** Options of {@link sinusoidalPositions}. */
export interface SinusoidalOptions {
  /** Base of the wavelengths; default 10,000. */
  readonly base?: number;
}

/**
 * Adds sines and cosines of the position (Vaswani et al., 2017) to `[batch, positions, size]`, size even: column 2i is
 * `sin(position / base^(2i / size))`, column 2i + 1 the cosine. Angles are computed in f64, 16-bit floats added in f32.
 *
 * @throws HeddleError `shape` when the size is odd
 */
export function sinusoidalPositions(options: SinusoidalOptions = {}): Layer<NoTensors> {
  checkOptions("sinusoidalPositions", options, ["base"]);
  const { base = 10_000 } = options;
  checkNumber("sinusoidalPositions", "base", base, Number.MIN_VALUE);
  const check = (input: TensorType): void => {
    if (checkPositions(input, 1) % 2 !== 0)
      throw new HeddleError("shape", `takes [batch, positions, even size], got ${formatType(input)}`);
  };
  return madeBy(
    positioned({
      kind: "sinusoidalPositions",
      init(_key, input) {
        check(input);
        return { params: {}, state: {}, output: input };
      },
      apply(_variables, x) {
        check(x);
        const [positions, size] = x.shape.slice(1) as [number, number];
        const [cosines, sines] = turnsOf(positions, size, base, 0);
        const columns = [sines, cosines].map((part) => part.reshape([positions, size / 2, 1]));
        const wide = wideDType(x.dtype);
        const table = concat(columns, 2).reshape([positions, size]).cast(wide);
        return { y: x.cast(wide).add(table).cast(x.dtype), state: {} };
      },
    }),
    "sinusoidalPositions",
    options,
  );
}

/**
 * Adds a learned vector for each of the first `count` positions to `[batch, positions, size]`. Parameter `weight` `[count, size]`,
 * normal with standard deviation 0.02 (as in GPT-2).
 *
 * @throws HeddleError `option` when `count` is not a positive whole number; `shape` for more than `count` positions
 */
export function learnedPositions(count: number): Layer<{ readonly weight: Tensor }> {
  checkInteger("learnedPositions", "count", count, 1);
  const check = (input: TensorType): void => {
    checkPositions(input, 1);
    if ((input.shape[1] as number) > count)
      throw new HeddleError("shape", `has ${count} positions, too few for ${formatType(input)}`);
  };
  return madeBy(
    positioned({
      kind: "learnedPositions",
      init(key, input) {
        check(input);
        const shape = [count, input.shape[2] as number];
        const weight = random.normal(scopeKey(key, 0), shape, { dtype: input.dtype }).mul(0.02);
        return { params: { weight }, state: {}, output: input };
      },
      apply({ params }, x) {
        check(x);
        const [positions, size] = x.shape.slice(1) as [number, number];
        return { y: x.add(params.weight.slice([0, 0], [positions, size])), state: {} };
      },
    }),
    "learnedPositions",
    count,
  );
}
