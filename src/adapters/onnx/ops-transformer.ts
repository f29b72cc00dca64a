/** @module ONNX ops that name parts of transformers. */

import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";

/** Elements from `start` on of the last dim, each `step`-th, to `end`. */
function part(x: Tensor, start: number, end: number, step = 1): Tensor {
  const at = x.shape.length - 1;
  return x.slice(
    x.shape.map((_size, dim) => (dim === at ? start : 0)),
    x.shape.map((size, dim) => (dim === at ? end : size)),
    x.shape.map((_size, dim) => (dim === at ? step : 1)),
  );
}

/** Pairs of features turned by angles whose cosines and sines are given for each position (Su et al., 2021). */
function rotary(c: NodeContext): Tensor {
  const flat = c.rank() === 3;
  const [batch, steps] = [c.shape()[0] as number, c.shape()[flat ? 1 : 2] as number];
  const heads = flat ? c.x().reshape([batch, steps, c.int("num_heads"), -1]) : c.x().transpose([0, 2, 1, 3]);
  const size = heads.shape[3] as number;
  const turned = c.int("rotary_embedding_dim", 0) || size;
  const angles = (index: number): Tensor => {
    const table = c.has(3) ? h.take(c.x(index), c.x(3).cast("i32"), 0) : c.x(index);
    return table.reshape([batch, steps, 1, turned / 2]);
  };
  const [cosine, sine] = [angles(1), angles(2)];
  const pairs = c.flag("interleaved", false);
  const x = pairs ? part(heads, 0, turned, 2) : part(heads, 0, turned / 2);
  const y = pairs ? part(heads, 1, turned, 2) : part(heads, turned / 2, turned);
  const rotated = [x.mul(cosine).sub(y.mul(sine)), x.mul(sine).add(y.mul(cosine))];
  const whole = pairs ? h.stack(rotated, -1).reshape([...heads.shape.slice(0, 3), turned]) : h.concat(rotated, 3);
  const all = turned === size ? whole : h.concat([whole, part(heads, turned, size)], 3);
  return flat ? all.reshape(c.shape()) : all.transpose([0, 2, 1, 3]);
}

/** x sigmoid(alpha x) y */
const swiGlu = (c: NodeContext): Tensor =>
  c
    .x()
    .mul(h.sigmoid(c.x().mul(c.float("alpha", 1))))
    .mul(c.x(1));

export const transformerRows: Rows = {
  RotaryEmbedding: row(23, rotary),
  SwiGLU: row(27, swiGlu),
};
