/** @module ONNX's normalisations, and dropout. */

import { HeddleError } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { range, type Shape, sizeOf } from "../../ir/index.ts";
import { functional as f } from "../../nn/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { dtypeOfCode } from "./tensors.ts";

/**
 * A vector of values per channel, shaped to broadcast over the dims behind; a tensor of more dims has a value for each
 * element (`spatial = 0`, up to opset 8).
 */
const perChannel = (x: Tensor, rank: number): Tensor =>
  x.shape.length > 1 ? x : x.reshape([-1, ...range(rank - 2).map(() => 1)]);

/** Mean over dims, and the mean of squares around it. */
function moments(x: Tensor, dims: readonly number[]): { mean: Tensor; variance: Tensor; centred: Tensor } {
  const mean = x.mean(dims, { keepDims: true });
  const centred = x.sub(mean);
  return { mean, centred, variance: centred.mul(centred).mean(dims, { keepDims: true }) };
}

function batchNorm(c: NodeContext): Result[] {
  const [x, rank, epsilon] = [c.x(), c.rank(), c.float("epsilon", 1e-5)];
  const [scale, shift] = [perChannel(c.x(1), rank), perChannel(c.x(2), rank)];
  const applied = (mean: Tensor, variance: Tensor): Tensor =>
    x
      .sub(perChannel(mean, rank))
      .div(h.sqrt(perChannel(variance, rank).add(epsilon)))
      .mul(scale)
      .add(shift);
  if (!c.flag("training_mode", false)) return [applied(c.x(3), c.x(4))];
  const { mean, variance } = moments(x, [0, ...range(rank).slice(2)]);
  const [batchMean, batchVariance] = [mean.reshape([-1]), variance.reshape([-1])];
  const momentum = c.float("momentum", 0.9);
  const running = (old: Tensor, now: Tensor): Tensor => old.mul(momentum).add(now.mul(1 - momentum));
  return [applied(batchMean, batchVariance), running(c.x(3), batchMean), running(c.x(4), batchVariance)];
}

/** x / sqrt(variance + epsilon) about its mean, in the type that `stash_type` names. */
function layerNorm(c: NodeContext): Result[] {
  const axis = c.axis("axis", -1);
  const stash = dtypeOfCode(c.int("stash_type", 1), "stash_type");
  const withScale = (x: Tensor): Tensor => {
    const scaled = x.cast(c.dtype()).mul(c.x(1));
    return c.has(2) ? scaled.add(c.x(2)) : scaled;
  };
  const epsilon = c.float("epsilon", 1e-5);
  const dims = range(c.rank()).slice(axis);
  if (!c.asks(1) && !c.asks(2)) return [withScale(h.normalize(c.x().cast(stash), dims, { epsilon }))];
  const { mean, variance, centred } = moments(c.x().cast(stash), dims);
  const inverse = h.div(1, h.sqrt(variance.add(epsilon)));
  return [withScale(centred.mul(inverse)), mean, inverse];
}

function rmsNorm(c: NodeContext): Tensor {
  const dims = range(c.rank()).slice(c.axis("axis", -1));
  const x = c.x().cast(dtypeOfCode(c.int("stash_type", 1), "stash_type"));
  return h
    .normalize(x, dims, { epsilon: c.float("epsilon", 1e-5), centre: false })
    .cast(c.dtype())
    .mul(c.x(1));
}

/** Each group of channels of each example by its own moments. */
function grouped(x: Tensor, groups: number, epsilon: number): Tensor {
  const shape: Shape = [x.shape[0] as number, groups, sizeOf(x.shape.slice(1)) / groups];
  return h.normalize(x.reshape(shape), 2, { epsilon }).reshape(x.shape);
}

function instanceNorm(c: NodeContext): Tensor {
  const y = grouped(c.x(), c.shape()[1] as number, c.float("epsilon", 1e-5));
  return y.mul(perChannel(c.x(1), c.rank())).add(perChannel(c.x(2), c.rank()));
}

/** Scale and shift are per channel; up to opset 20 they are per group, for all channels of the group. */
function groupNorm(c: NodeContext): Tensor {
  const [groups, channels] = [c.int("num_groups"), c.shape()[1] as number];
  const y = grouped(c.x(), groups, c.float("epsilon", 1e-5));
  const expanded = (index: number): Tensor => {
    const x = c.x(index);
    if (c.opset >= 21) return perChannel(x, c.rank());
    const spread = x.reshape([groups, 1]).broadcastTo([groups, channels / groups]);
    return perChannel(spread.reshape([channels]), c.rank());
  };
  return y.mul(expanded(1)).add(expanded(2));
}

function lpNormalization(c: NodeContext): Tensor {
  const [x, axis] = [c.x(), c.axis("axis", -1)];
  const norm = h.linalg.norm(x, { p: c.int("p", 2), dims: axis, keepDims: true });
  // A vector of zeros stays zeros, and its derivative is 0.
  const zero = norm.eq(0);
  return h.select(zero, 0, x.div(h.select(zero, 1, norm)));
}

function meanVariance(c: NodeContext): Tensor {
  const { centred, variance } = moments(c.x(), c.dims(c.ints("axes", [0, 2, 3])));
  return centred.div(h.sqrt(variance).add(1e-9));
}

function localResponse(c: NodeContext): Tensor {
  const size = c.int("size");
  const [alpha, beta, k] = [c.float("alpha", 1e-4), c.float("beta", 0.75), c.float("bias", 1)];
  // An even window has one more channel behind an element than before it.
  const turned = (x: Tensor): Tensor => (size % 2 === 0 ? h.reverse(x, [1]) : x);
  return turned(f.localResponseNorm(turned(c.x()), size, { alpha, beta, k }));
}

function dropout(c: NodeContext): Result[] {
  const training = c.has(2) && c.number(2) !== 0;
  if (training && c.number(1, 0.5) !== 0) {
    throw new HeddleError("op", "dropout that drops is not imported", {
      hint: "export the model for inference, and add nn.dropout for training",
    });
  }
  // Up to opset 9 the mask, which is all ones, has the dtype of the input.
  return [c.x(), h.ones(c.shape(), { dtype: c.opset < 10 ? c.dtype() : "bool" })];
}

export const normRows: Rows = {
  BatchNormalization: row(7, batchNorm),
  Dropout: row(7, dropout),
  GroupNormalization: row(18, groupNorm),
  InstanceNormalization: row(6, instanceNorm),
  LayerNormalization: row(17, layerNorm),
  LpNormalization: row(1, lpNormalization),
  LRN: row(1, localResponse),
  MeanVarianceNormalization: row(9, meanVariance),
  RMSNormalization: row(23, rmsNorm),
};
