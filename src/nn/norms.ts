/**
 * @module Layers that normalise, with PyTorch's parameter names, epsilons and statistics. Each is the composite `normalize`, followed by
 * an affine map. The variance is computed from distances to the mean, so values far from 0 lose no precision. 16-bit floats are
 * computed in f32 and rounded once; their running statistics are f32, since variances are squares.
 */

import { full, moments, normalize, ones, rsqrt, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { inFloat32, widened } from "../functions/wide.ts";
import { isFloat, wideDType } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { type Biased, checkWidth, type Layer, madeBy, type NoTensors, positioned, type Weighted } from "./layer.ts";
import { mostParts } from "./parts.ts";

function checkFloat(input: TensorType): void {
  if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
}

/** The channels of `[batch, channels, …]`, which has at least `minRank` dims. */
function channelsOf(input: TensorType, minRank = 2): number {
  checkFloat(input);
  if (input.shape.length < minRank || input.shape.length > 5) {
    const text =
      minRank === 2 ? "[batch, channels] and up to three more dims" : "[batch, channels] and one to three more dims";
    throw new HeddleError("shape", `takes ${text}, got ${formatType(input)}`);
  }
  return input.shape[1] as number;
}

/** Parameters of a norm: none where the option `affine` is false. */
export type NormParams<Affine extends boolean, Bias extends boolean = true> = Affine extends false
  ? NoTensors
  : Weighted<Bias>;

/** The option `affine`; the type of the parameters depends on it. */
interface Affinely<Affine extends boolean> {
  readonly affine?: Affine;
}

/** Weight and bias of the identity. */
const affineParams = (shape: readonly number[], dtype: TensorType["dtype"], bias = true): Tensors =>
  bias ? { weight: ones(shape, { dtype }), bias: zeros(shape, { dtype }) } : { weight: ones(shape, { dtype }) };

/** A layer's output: x normalised, then the affine map if the layer has parameters. 16-bit floats are computed in f32. */
function affine(
  x: Tensor,
  normalised: (x: Tensor) => Tensor,
  params: Tensors,
  broadcast: (parameter: Tensor) => Tensor = (parameter) => parameter,
): Tensor {
  const { weight, bias } = params as { weight?: Tensor; bias?: Tensor };
  return inFloat32([x, weight, bias], (wide, scale, shift) => {
    const y = normalised(wide);
    const scaled = scale === undefined ? y : y.mul(broadcast(scale));
    return shift === undefined ? scaled : scaled.add(broadcast(shift));
  });
}

/** x minus the running mean, divided by the root of the running variance; both are f32 for 16-bit floats. */
const byStatistics =
  ({ running_mean: mean, running_var: variance }: Statistics, epsilon: number, broadcast: (value: Tensor) => Tensor) =>
  (x: Tensor): Tensor =>
    x.sub(broadcast(mean)).mul(broadcast(rsqrt(widened(variance).add(epsilon))));

/** Reshapes one value per channel to broadcast with `[batch, channels, …]`. */
const perChannel =
  (rank: number) =>
  (value: Tensor): Tensor =>
    value.reshape([value.shape[0] as number, ...new Array<number>(rank - 2).fill(1)]);

/** Options of {@link batchNorm}. */
export interface BatchNormOptions {
  /** Added to the variance; default 1e-5. */
  readonly epsilon?: number;
  /** Weight of the batch's statistics in the running statistics; default 0.1. `null`: the running statistics are plain averages of all batches. */
  readonly momentum?: number | null;
  /** Learned weight and bias; default true. */
  readonly affine?: boolean;
  /** Keep running statistics, and use them when not training; default true. With false, the batch's own statistics are always used. */
  readonly trackRunningStats?: boolean;
  /**
   * Number of groups of consecutive rows, each of which is normalised by its own statistics while training (ghost batch normalisation: Hoffer et
   * al., 2017); default 1. A pipeline needs a multiple of its micro-batches. Of a batch that it does not divide, the largest smaller number that does.
   */
  readonly groups?: number;
}

/**
 * Normalises each channel of `[batch, channels, …]` (up to three more dims) over all other dims (Ioffe and Szegedy, 2015): while
 * training by the statistics of the batch, otherwise by the running statistics. Under data parallelism the batch is the global batch of
 * all devices (PyTorch's SyncBatchNorm). Parameters `weight` and `bias` `[channels]`; state `running_mean` and `running_var` (of the
 * unbiased variance) `[channels]`, and `num_batches_tracked` (i32).
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the input has no channels, or a channel has only one value
 * while training
 */
export function batchNorm<Affine extends boolean = true>(
  options: BatchNormOptions & Affinely<Affine> = {},
): Layer<NormParams<Affine>> {
  checkOptions("batchNorm", options, ["epsilon", "momentum", "affine", "trackRunningStats", "groups"]);
  const { epsilon = 1e-5, momentum = 0.1, affine: learned = true, trackRunningStats = true, groups = 1 } = options;
  checkInteger("batchNorm", "groups", groups, 1);
  checkNumber("batchNorm", "epsilon", epsilon, 0);
  if (momentum !== null) checkNumber("batchNorm", "momentum", momentum, 0, 1);
  return madeBy(
    positioned({
      kind: "batchNorm",
      needsRange: true,
      init(_key, input) {
        const channels = channelsOf(input);
        return {
          params: learned ? affineParams([channels], input.dtype) : {},
          state: trackRunningStats ? freshStatistics(channels, input.dtype) : {},
          output: input,
        };
      },
      apply({ params, state }, x, { train = false } = {}) {
        channelsOf(x);
        const broadcast = perChannel(x.shape.length);
        if (!train && trackRunningStats) {
          const statistics = state as Statistics;
          checkWidth(x, statistics.running_mean.shape[0] as number, 1);
          return { y: affine(x, byStatistics(statistics, epsilon, broadcast), params, broadcast), state };
        }
        const shape = train ? inGroups(x.shape, groups) : x.shape;
        const channels = shape.length - x.shape.length + 1;
        // All dims but those of the groups and of the channels.
        const dims = shape.flatMap((_size, dim) => (dim === channels || dim < channels - 1 ? [] : [dim]));
        const count = dims.reduce((product, dim) => product * (shape[dim] as number), 1);
        if (train && count === 1) {
          const each = shape === x.shape ? "" : ` in each of ${shape[0]} groups`;
          throw new HeddleError(
            "shape",
            `needs more than one value per channel${each} while training, got ${formatType(x)}`,
          );
        }
        const grouped = (value: Tensor): Tensor => (shape === x.shape ? value : value.reshape(shape));
        const normalised = (wide: Tensor): Tensor => {
          const y = normalize(grouped(wide), dims, { epsilon });
          return shape === x.shape ? y : y.reshape(x.shape);
        };
        const y = affine(x, normalised, params, broadcast);
        return { y, state: trackRunningStats ? updated(state as Statistics, grouped(x), dims, count, momentum) : {} };
      },
    }) as Layer<NormParams<Affine>>,
    "batchNorm",
    options,
  );
}

/** The shape with its rows in groups, if there are several: `[groups, rows of a group, …]`. */
function inGroups(shape: readonly number[], most: number): readonly number[] {
  const [rows = 0, ...rest] = shape;
  const groups = mostParts(rows, most);
  return groups === 1 ? shape : [groups, rows / groups, ...rest];
}

interface Statistics extends Tensors {
  readonly running_mean: Tensor;
  readonly running_var: Tensor;
  readonly num_batches_tracked: Tensor;
}

const freshStatistics = (channels: number, dtype: TensorType["dtype"]): Statistics => ({
  running_mean: zeros([channels], { dtype: wideDType(dtype) }),
  running_var: ones([channels], { dtype: wideDType(dtype) }),
  num_batches_tracked: full([], 0, { dtype: "i32" }),
});

function updated(
  state: Statistics,
  x: Tensor,
  dims: readonly number[],
  count: number,
  momentum: number | null,
): Statistics {
  const { mean, variance } = moments(x, dims);
  const tracked = state.num_batches_tracked.add(1);
  const { dtype } = state.running_mean;
  const momentumOrShare = momentum ?? full([], 1, { dtype }).div(tracked.cast(dtype));
  const updateRunning = (running: Tensor, fresh: Tensor): Tensor =>
    running.add(meanOfGroups(fresh, running.shape).cast(dtype).sub(running).mul(momentumOrShare));
  return {
    running_mean: updateRunning(state.running_mean, mean),
    running_var: updateRunning(state.running_var, variance.mul(count / Math.max(count - 1, 1))),
    num_batches_tracked: tracked,
  };
}

/** Statistics of one group or of several, as one value per channel. */
function meanOfGroups(statistics: Tensor, shape: readonly number[]): Tensor {
  const groups = statistics.size / (shape[0] as number);
  return groups === 1 ? statistics.reshape(shape) : statistics.reshape([groups, ...shape]).mean(0);
}

/** Options of {@link layerNorm} and {@link rmsNorm}. */
export interface LayerNormOptions {
  /** How many dims, counted from the last, are normalised together; default 1. */
  readonly dims?: number;
  /** Added to the variance. */
  readonly epsilon?: number;
  /** Learned weight (and bias); default true. */
  readonly affine?: boolean;
}

/** Normalises over the last dims together; keeps the shape. */
function overLast(x: Tensor, dims: number, epsilon: number, centre: boolean): Tensor {
  if (dims === 1) return normalize(x, -1, { epsilon, centre });
  const size = x.shape.slice(-dims).reduce((product, length) => product * length, 1);
  return normalize(x.reshape([...x.shape.slice(0, -dims), size]), -1, { epsilon, centre }).reshape(x.shape);
}

function lastDims(input: TensorType, dims: number): readonly number[] {
  checkFloat(input);
  if (input.shape.length < dims)
    throw new HeddleError("shape", `normalises the last ${dims} dims, which ${formatType(input)} does not have`);
  return input.shape.slice(-dims);
}

/**
 * Normalises each row over its last dim, or last `dims` dims (Ba et al., 2016). Parameters `weight` and `bias` in the shape of those
 * dims. `epsilon` is 1e-5 by default.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the input has fewer dims
 */
export function layerNorm<Affine extends boolean = true, Bias extends boolean = true>(
  options: LayerNormOptions & Affinely<Affine> & Biased<Bias> = {},
): Layer<NormParams<Affine, Bias>> {
  checkOptions("layerNorm", options, ["dims", "epsilon", "affine", "bias"]);
  const { dims = 1, epsilon = 1e-5, affine: learned = true, bias = true } = options;
  checkInteger("layerNorm", "dims", dims, 1);
  checkNumber("layerNorm", "epsilon", epsilon, 0);
  return madeBy(
    positioned({
      kind: "layerNorm",
      needsRange: true,
      init(_key, input) {
        const shape = lastDims(input, dims);
        return { params: learned ? affineParams(shape, input.dtype, bias) : {}, state: {}, output: input };
      },
      apply({ params }, x) {
        const { weight } = params as { weight?: Tensor };
        if (weight !== undefined) checkWidth(x, weight.shape.at(-1) as number);
        return { y: affine(x, (wide) => overLast(wide, dims, epsilon, true), params), state: {} };
      },
    }) as Layer<NormParams<Affine, Bias>>,
    "layerNorm",
    options,
  );
}

/**
 * Divides each row by the root of the mean of its squares, over its last dim or `dims` dims (Zhang and Sennrich, 2019). Parameter
 * `weight`. `epsilon` is the dtype's by default: 2^-23 for f32, 2^-52 for f64.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the input has fewer dims
 */
export function rmsNorm<Affine extends boolean = true>(
  options: LayerNormOptions & Affinely<Affine> = {},
): Layer<NormParams<Affine, false>> {
  checkOptions("rmsNorm", options, ["dims", "epsilon", "affine"]);
  const { dims = 1, epsilon, affine: learned = true } = options;
  checkInteger("rmsNorm", "dims", dims, 1);
  if (epsilon !== undefined) checkNumber("rmsNorm", "epsilon", epsilon, 0);
  return madeBy(
    positioned({
      kind: "rmsNorm",
      needsRange: true,
      init(_key, input) {
        const shape = lastDims(input, dims);
        return { params: learned ? affineParams(shape, input.dtype, false) : {}, state: {}, output: input };
      },
      apply: ({ params }, x) => {
        const defaultEpsilon = epsilon ?? (x.dtype === "f64" ? 2 ** -52 : 2 ** -23);
        return { y: affine(x, (wide) => overLast(wide, dims, defaultEpsilon, false), params), state: {} };
      },
    }) as Layer<NormParams<Affine, false>>,
    "rmsNorm",
    options,
  );
}

/** Options of {@link groupNorm}. */
export interface GroupNormOptions {
  /** Added to the variance; default 1e-5. */
  readonly epsilon?: number;
  /** Learned weight and bias; default true. */
  readonly affine?: boolean;
}

/**
 * Normalises the channels of `[batch, channels, …]` in groups, each over all its positions, for each example alone (Wu and He, 2018).
 * Parameters `weight` and `bias` `[channels]`.
 *
 * @throws HeddleError `option` when `groups` is not a positive whole number; `shape` when it does not divide the channels
 */
export function groupNorm<Affine extends boolean = true>(
  groups: number,
  options: GroupNormOptions & Affinely<Affine> = {},
): Layer<NormParams<Affine>> {
  checkInteger("groupNorm", "groups", groups, 1);
  checkOptions("groupNorm", options, ["epsilon", "affine"]);
  const { epsilon = 1e-5, affine: learned = true } = options;
  checkNumber("groupNorm", "epsilon", epsilon, 0);
  return madeBy(
    positioned({
      kind: "groupNorm",
      needsRange: true,
      init(_key, input) {
        const channels = channelsOf(input);
        if (channels % groups !== 0)
          throw new HeddleError(
            "shape",
            `${groups} groups do not divide the ${channels} channels of ${formatType(input)}`,
          );
        return { params: learned ? affineParams([channels], input.dtype) : {}, state: {}, output: input };
      },
      apply({ params }, x) {
        const byGroup = (wide: Tensor): Tensor =>
          normalize(wide.reshape([x.shape[0] as number, groups, -1]), -1, { epsilon }).reshape(x.shape);
        return { y: affine(x, byGroup, params, perChannel(x.shape.length)), state: {} };
      },
    }) as Layer<NormParams<Affine>>,
    "groupNorm",
    groups,
    options,
  );
}

/**
 * Normalises each channel of each example of `[batch, channels, …]` over its positions (Ulyanov et al., 2016). Without parameters
 * and running statistics by default, as in PyTorch; the options and the state are those of {@link batchNorm}.
 *
 * @throws HeddleError `option` for an option out of range; `shape` when the input has no positions, or only one while training
 */
export function instanceNorm<Affine extends boolean = false>(
  options: Omit<BatchNormOptions, "momentum"> & { readonly momentum?: number } & Affinely<Affine> = {},
): Layer<NormParams<Affine>> {
  checkOptions("instanceNorm", options, ["epsilon", "momentum", "affine", "trackRunningStats"]);
  const { epsilon = 1e-5, momentum = 0.1, affine: learned = false, trackRunningStats = false } = options;
  checkNumber("instanceNorm", "epsilon", epsilon, 0);
  checkNumber("instanceNorm", "momentum", momentum, 0, 1);
  return madeBy(
    positioned({
      kind: "instanceNorm",
      needsRange: true,
      init(_key, input) {
        const channels = channelsOf(input, 3);
        return {
          params: learned ? affineParams([channels], input.dtype) : {},
          state: trackRunningStats ? freshStatistics(channels, input.dtype) : {},
          output: input,
        };
      },
      apply({ params, state }, x, { train = false } = {}) {
        const channels = channelsOf(x, 3);
        const broadcast = perChannel(x.shape.length);
        if (!train && trackRunningStats) {
          const statistics = state as Statistics;
          checkWidth(x, statistics.running_mean.shape[0] as number, 1);
          return { y: affine(x, byStatistics(statistics, epsilon, broadcast), params, broadcast), state };
        }
        const rows = x.reshape([x.shape[0] as number, channels, -1]);
        const count = rows.shape[2] as number;
        if (train && count === 1)
          throw new HeddleError("shape", `needs more than one value per channel while training, got ${formatType(x)}`);
        const byBatch = (wide: Tensor): Tensor => normalize(wide.reshape(rows.shape), -1, { epsilon }).reshape(x.shape);
        const y = affine(x, byBatch, params, broadcast);
        if (!trackRunningStats) return { y, state: {} };
        const { mean, variance } = moments(rows, 2);
        const { running_mean, running_var, num_batches_tracked } = state as Statistics;
        const updateRunning = (running: Tensor, fresh: Tensor): Tensor =>
          running.add(fresh.mean(0).reshape(running.shape).sub(running).mul(momentum));
        return {
          y,
          state: {
            running_mean: updateRunning(running_mean, mean),
            running_var: updateRunning(running_var, variance.mul(count / Math.max(count - 1, 1))),
            // PyTorch has this state, but does not count.
            num_batches_tracked,
          },
        };
      },
    }) as Layer<NormParams<Affine>>,
    "instanceNorm",
    options,
  );
}
