/** @module ONNX's losses: negative log-likelihood and cross-entropy, the classes being dim 1. */

import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { positions } from "./helpers.ts";

/** The loss of log-probabilities `[N, C, …]` by classes `[N, …]`; those of `ignore_index` count for nothing. */
function negativeLogLikelihood(c: NodeContext, logs: Tensor): Tensor {
  const labels = c.x(1).cast("i32");
  const shape = [...labels.shape];
  shape.splice(1, 0, 1);
  const classes = logs.shape[1] as number;
  // An ignored class may be out of range: it is compared with, never looked up.
  const hot = labels.reshape(shape).eq(positions(classes, 1, logs.shape.length));
  const picked = h.select(hot, logs.neg(), h.zerosLike(logs)).sum(1);
  const ones = h.ones(labels.shape, { dtype: logs.dtype });
  const weights = c.has(2)
    ? h.select(hot, c.x(2).reshape([-1, ...logs.shape.slice(2).map(() => 1)]), h.zerosLike(logs)).sum(1)
    : ones;
  const counted = c.hasAttribute("ignore_index")
    ? h.select(labels.eq(c.int("ignore_index")), h.zerosLike(weights), weights)
    : weights;
  const losses = h.select(counted.eq(0), 0, picked.mul(counted));
  const reduction = c.string("reduction", "mean");
  if (reduction === "none") return losses;
  return reduction === "sum" ? losses.sum() : losses.sum().div(counted.sum());
}

function crossEntropy(c: NodeContext): Result[] {
  const logs = h.logSoftmax(c.x(), 1);
  return [negativeLogLikelihood(c, logs), logs];
}

export const lossRows: Rows = {
  NegativeLogLikelihoodLoss: row(12, (c) => negativeLogLikelihood(c, c.x())),
  SoftmaxCrossEntropyLoss: row(12, crossEntropy),
};
