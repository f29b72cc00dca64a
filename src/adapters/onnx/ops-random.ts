/**
 * @module ONNX's random ops. Each node draws from a key of its own: from its `seed`, or, without one, derived from the
 * key that `apply` gets. The numbers are Heddle's, not those of another runtime.
 */

import { HeddleError } from "../../extend/index.ts";
import * as h from "../../functions/index.ts";
import { isFloat, type Shape } from "../../ir/index.ts";
import type { NodeContext, Row, Rows } from "./context.ts";
import { dtypeOfCode } from "./tensors.ts";

const floatCode = 1;

/** The dtype that an attribute asks for, else that of the input, or f32 where there is none. */
function floatsOf(c: NodeContext, like: boolean): h.Tensor["dtype"] {
  const dtype = c.hasAttribute("dtype") || !like ? dtypeOfCode(c.int("dtype", floatCode), "its result") : c.dtype();
  if (!isFloat(dtype)) throw new HeddleError("dtype", `draws floats, not ${dtype}`);
  return dtype;
}

const shapeOf = (c: NodeContext, like: boolean): Shape => (like ? c.shape() : c.ints("shape"));

const uniform =
  (like: boolean) =>
  (c: NodeContext): h.Tensor => {
    const [min, max] = [c.float("low", 0), c.float("high", 1)];
    return h.random.uniform(c.randomKey(), shapeOf(c, like), { dtype: floatsOf(c, like), min, max });
  };

const normal =
  (like: boolean) =>
  (c: NodeContext): h.Tensor => {
    const drawn = h.random.normal(c.randomKey(), shapeOf(c, like), { dtype: floatsOf(c, like) });
    return drawn.mul(c.float("scale", 1)).add(c.float("mean", 0));
  };

/** 1 with the probability that each element gives, else 0. */
function bernoulli(c: NodeContext): h.Tensor {
  const x = c.x();
  // In 16 bits small probabilities would be rounded up.
  const dtype = x.dtype === "f64" ? "f64" : "f32";
  const drawn = h.random.uniform(c.randomKey(), x.shape, { dtype }).lt(x.cast(dtype));
  return drawn.cast(c.hasAttribute("dtype") ? dtypeOfCode(c.int("dtype"), "its result") : x.dtype);
}

/** Classes by their unnormalised logarithms `[batch, classes]`. */
function multinomial(c: NodeContext): h.Tensor {
  const [batch, classes] = c.shape() as [number, number];
  const logits = c
    .x()
    .reshape([batch, 1, classes])
    .broadcastTo([batch, c.int("sample_size", 1), classes]);
  const drawn = h.random.categorical(c.randomKey(), logits);
  return drawn.cast(dtypeOfCode(c.int("dtype", 6), "its result"));
}

const draws = (since: number, build: Row["build"]): Row => ({ since, build, random: true });

export const randomRows: Rows = {
  Bernoulli: draws(15, bernoulli),
  Multinomial: draws(7, multinomial),
  RandomNormal: draws(1, normal(false)),
  RandomNormalLike: draws(1, normal(true)),
  RandomUniform: draws(1, uniform(false)),
  RandomUniformLike: draws(1, uniform(true)),
};
