/** @module ONNX ops on images that read them at computed positions, or put pieces of them together. */

import { HeddleError } from "../../extend/index.ts";
import * as h from "../../functions/index.ts";
import { type Sampling, sampleAt, type Tensor } from "../../functions/index.ts";
import { range, sizeOf } from "../../ir/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { perSpatial } from "./window.ts";

const modes: { readonly [name: string]: Sampling["mode"] } = {
  nearest: "nearest",
  linear: "linear",
  bilinear: "linear",
  cubic: "cubic",
  bicubic: "cubic",
};

/** Coordinates from -1 to 1, the last spatial dim first, as positions in elements. */
function gridPlaces(grid: Tensor, sizes: readonly number[], atCentres: boolean): Tensor[] {
  const points = grid.reshape([grid.shape[0] as number, sizeOf(grid.shape.slice(1, -1)), sizes.length]);
  return sizes.map((size, dim) => {
    const from = h.pick(points, sizes.length - 1 - dim).add(1);
    return atCentres ? from.mul((size - 1) / 2) : from.mul(size).sub(1).mul(0.5);
  });
}

function gridSample(c: NodeContext): Tensor {
  const [batch, channels, ...sizes] = c.shape() as [number, number, ...number[]];
  const atCentres = c.flag("align_corners", false);
  const mode = modes[c.string("mode", "linear")];
  if (mode === undefined) throw new HeddleError("op", `mode "${c.string("mode")}" is not imported`);
  const outside = c.string("padding_mode", "zeros") as Sampling["outside"];
  return sampleAt(c.x(), gridPlaces(c.x(1), sizes, atCentres), { mode, outside, atCentres })
    .transpose([0, 2, 1])
    .reshape([batch, channels, ...c.shape(1).slice(1, -1)]);
}

/** Places from -1 to 1 of each element of an image, moved by the matrix of each image of the batch. */
function affineGrid(c: NodeContext): Tensor {
  const [batch, , ...sizes] = c.numbers(1) as [number, number, ...number[]];
  const aligned = c.flag("align_corners", false);
  const rank = sizes.length;
  const columns = sizes.map((size, dim) => {
    const values = Float64Array.from({ length: size }, (_unused, index) =>
      aligned ? (2 * index) / (size - 1) - 1 : (2 * index + 1) / size - 1,
    );
    const shape = sizes.map((_size, each) => (each === dim ? size : 1));
    return h.tensor(values, { shape }).cast(c.dtype()).broadcastTo(sizes);
  });
  const all = [...columns.reverse(), h.ones(sizes, { dtype: c.dtype() })].map((column) => column.reshape([-1, 1]));
  const moved = h.concat(all, 1).matmul(c.x().transpose([0, 2, 1]));
  return moved.reshape([batch, ...sizes, rank]);
}

/** Cuts, or pads with zeros, equally on both sides; an odd element is behind. */
function centerCropPad(c: NodeContext): Tensor {
  const wanted = c.numbers(1);
  const axes = c.hasAttribute("axes") ? c.dims(c.ints("axes")) : range(c.rank());
  const [start, limit] = [c.shape().map(() => 0), [...c.shape()]];
  const padding = c.shape().map((): [number, number] => [0, 0]);
  axes.forEach((dim, index) => {
    const [size, to] = [c.shape()[dim] as number, wanted[index] as number];
    const before = Math.floor(Math.abs(size - to) / 2);
    if (to <= size) [start[dim], limit[dim]] = [before, before + to];
    else padding[dim] = [before, to - size - before];
  });
  return h.pad(c.x().slice(start, limit), padding);
}

/** Blocks `[batch, channels · block, positions]` summed where they lie in the image. */
function col2im(c: NodeContext): Tensor {
  const [sizes, block] = [c.numbers(1), c.numbers(2)];
  const rank = sizes.length;
  const pads = c.ints("pads", new Array<number>(2 * rank).fill(0));
  const padding = range(rank).map((dim): [number, number] => [pads[dim] as number, pads[dim + rank] as number]);
  const [strides, dilation] = [perSpatial(c, "strides", rank, 1), perSpatial(c, "dilations", rank, 1)];
  return h.fold(c.x(), sizes, block, { strides, dilation, padding });
}

/** Regions of images, each read at a grid of positions in each of its bins. */
function roiAlign(c: NodeContext): Tensor {
  const [, channels, height, width] = c.shape() as [number, number, number, number];
  const [bins, grid] = [[c.int("output_height", 1), c.int("output_width", 1)], c.int("sampling_ratio", 0)] as const;
  if (grid === 0) throw new HeddleError("op", "RoiAlign whose sampling depends on the regions is not imported");
  const centred = c.string("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel");
  const offset = centred === "half_pixel" ? 0.5 : 0;
  const count = c.shape(1)[0] as number;
  const corners = c.x(1).mul(c.float("spatial_scale", 1)).sub(offset);
  /** Coordinates `[regions, bins · grid]` of one dim, and which of them lie in the image. */
  const line = (dim: 0 | 1, size: number): { at: Tensor; inside: Tensor } => {
    const [start, end] = [h.pick(corners, 1 - dim), h.pick(corners, 3 - dim)];
    const span = offset === 0 ? end.sub(start).maximum(1) : end.sub(start);
    const n = (bins[dim] as number) * grid;
    const steps = Float64Array.from({ length: n }, (_unused, index) => (index + 0.5) / n);
    const share = h.tensor(steps, { shape: [1, n] }).cast(c.dtype(1));
    const at = start.reshape([count, 1]).add(span.reshape([count, 1]).mul(share));
    return { at: at.maximum(0).minimum(size - 1), inside: h.and(at.ge(-1), at.le(size)) };
  };
  const [y, x] = [line(0, height), line(1, width)];
  const [rows, columns] = [y.at.shape[1] as number, x.at.shape[1] as number];
  const spread = (of: Tensor, byRow: boolean): Tensor =>
    of.reshape(byRow ? [count, rows, 1] : [count, 1, columns]).broadcastTo([count, rows, columns]);
  const coordinates = [spread(y.at, true), spread(x.at, false)].map((each) => each.reshape([count, rows * columns]));
  const images = h.take(c.x(), c.x(2).cast("i32"), 0);
  const inside = h.and(spread(y.inside, true), spread(x.inside, false)).reshape([count, rows * columns, 1]);
  const zeroOutside = (values: Tensor): Tensor =>
    h
      .select(inside, values, h.zerosLike(values))
      .reshape([count, bins[0] as number, grid, bins[1] as number, grid, channels]);
  const sampling: Sampling = { mode: "linear", outside: "border", atCentres: true };
  if (c.string("mode", "avg") === "avg")
    return zeroOutside(sampleAt(images, coordinates, sampling))
      .mean([2, 4])
      .transpose([0, 3, 1, 2]);
  // The greatest of the weighted neighbours, not of their sums.
  return zeroOutside(sampleAt(images, coordinates, sampling, h.maximum))
    .max([2, 4])
    .transpose([0, 3, 1, 2]);
}

/** A convolution whose taps are read at positions moved by offsets `[batch, groups · taps · 2, …]`, and weighted by a mask. */
function deformConv(c: NodeContext): Tensor {
  const [batch, channels, height, width] = c.shape() as [number, number, number, number];
  const [out, perGroup, ...kernel] = c.shape(1) as [number, number, number, number];
  const [rows, columns] = c.shape(2).slice(2) as [number, number];
  const [groups, moving] = [c.int("group", 1), c.int("offset_group", 1)];
  const [strides, dilations] = [perSpatial(c, "strides", 2, 1), perSpatial(c, "dilations", 2, 1)];
  const pads = c.ints("pads", [0, 0, 0, 0]);
  const taps = sizeOf(kernel);
  const points = taps * rows * columns;
  const offsets = c
    .x(2)
    .reshape([batch * moving, taps, 2, rows * columns])
    .transpose([0, 1, 3, 2]);
  const coordinates = [0, 1].map((dim) => {
    const values = range(points).map((point) => {
      const [tap, position] = [Math.floor(point / (rows * columns)), point % (rows * columns)];
      const index = dim === 0 ? Math.floor(tap / kernel[1]) : tap % kernel[1];
      const corner = dim === 0 ? Math.floor(position / columns) : position % columns;
      return corner * (strides[dim] as number) - (pads[dim] as number) + index * (dilations[dim] as number);
    });
    const base = h.tensor(Float64Array.from(values), { shape: [1, points] }).cast(c.dtype(2));
    return h
      .pick(offsets, dim)
      .reshape([batch * moving, points])
      .add(base);
  });
  const images = c.x().reshape([batch * moving, channels / moving, height, width]);
  const read = sampleAt(images, coordinates, { mode: "linear", outside: "zeros", atCentres: true });
  const masked = c.has(4) ? read.mul(c.x(4).reshape([batch * moving, points, 1])) : read;
  // [batch, group, its channels, taps, positions] by [group, its outputs, its channels, taps].
  const parts = masked
    .reshape([batch, moving, points, channels / moving])
    .transpose([0, 1, 3, 2])
    .reshape([batch, groups, perGroup * taps, rows * columns]);
  const weight = c.x(1).reshape([1, groups, out / groups, perGroup * taps]);
  const y = weight
    .broadcastTo([batch, ...weight.shape.slice(1)])
    .matmul(parts)
    .reshape([batch, out, rows, columns]);
  return c.has(3) ? y.add(c.x(3).reshape([-1, 1, 1])) : y;
}

export const imageRows: Rows = {
  AffineGrid: row(20, affineGrid),
  CenterCropPad: row(18, centerCropPad),
  Col2Im: row(18, col2im),
  DeformConv: row(19, deformConv),
  GridSample: row(16, gridSample),
  RoiAlign: row(10, roiAlign),
};
