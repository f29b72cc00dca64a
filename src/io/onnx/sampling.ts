/** @module Images read between their elements, at places that are themselves values: by gathered neighbours and their weights. */
import type { Shape } from "../../ir/shape.ts";
import { sizeOf, stridesOf } from "../../ir/shape.ts";
import type { Tensor } from "../../tensor/index.ts";
import * as h from "../../tensor/index.ts";

/** How values between elements, and those outside of the image, come about. */
export interface Sampling {
  readonly mode: "nearest" | "linear" | "cubic";
  readonly outside: "zeros" | "border" | "reflection";
  /** Where reflection turns: at the centres of the outermost elements, or at their edges. */
  readonly atCentres: boolean;
}

/** One neighbour along a dim: where it is, whether that is in the image, and its weight. */
interface Tap {
  readonly place: Tensor;
  readonly inside: Tensor;
  readonly weight: Tensor | undefined;
}

/** Places turned back at both ends until they lie between them. */
function reflected(x: Tensor, size: number, atCentres: boolean): Tensor {
  const [low, high] = atCentres ? [0, size - 1] : [-0.5, size - 0.5];
  const span = high - low;
  if (span === 0) return h.zerosLike(x);
  const distance = x.sub(low).abs();
  const turns = h.floor(distance.div(span));
  const rest = distance.sub(turns.mul(span));
  const odd = turns.sub(h.floor(turns.mul(0.5)).mul(2)).ne(0);
  return h.select(odd, h.sub(high, rest), rest.add(low));
}

/** Places outside of the image brought into it, as its padding says. */
function broughtIn(x: Tensor, size: number, { outside, atCentres }: Sampling): Tensor {
  if (outside === "zeros") return x;
  const beyond = atCentres ? h.or(x.lt(0), x.gt(size - 1)) : h.or(x.lt(-0.5), x.gt(size - 0.5));
  return h.select(beyond, outside === "border" ? x.maximum(0).minimum(size - 1) : reflected(x, size, atCentres), x);
}

/** Weights of the four elements around a place, by how far it is beyond the second one (Keys, 1981, with a = -0.75). */
function cubicWeights(part: Tensor): Tensor[] {
  const a = -0.75;
  const near = (t: Tensor): Tensor =>
    t
      .mul(a + 2)
      .sub(a + 3)
      .mul(t)
      .mul(t)
      .add(1);
  const far = (t: Tensor): Tensor =>
    t
      .mul(a)
      .sub(5 * a)
      .mul(t)
      .add(8 * a)
      .mul(t)
      .sub(4 * a);
  return [far(part.add(1)), near(part), near(h.sub(1, part)), far(h.sub(2, part))];
}

function taps(x: Tensor, size: number, sampling: Sampling): Tap[] {
  const { mode } = sampling;
  const at = broughtIn(mode === "nearest" ? h.round(x) : x, size, sampling);
  const first = h.floor(at);
  const part = at.sub(first);
  const tap = (place: Tensor, weight: Tensor | undefined): Tap => {
    const turned = sampling.outside === "reflection" ? h.trunc(reflected(place, size, sampling.atCentres)) : place;
    const inside = h.and(turned.ge(0), turned.le(size - 1));
    const nearest = h.select(inside, turned, h.select(turned.gt(0), size - 1, h.zerosLike(turned)));
    return { place: nearest.cast("i32"), inside, weight };
  };
  if (mode === "nearest") return [tap(h.trunc(at), undefined)];
  if (mode === "linear") return [tap(first, h.sub(1, part)), tap(first.add(1), part)];
  return cubicWeights(part).map((weight, index) => tap(first.add(index - 1), weight));
}

/**
 * Values of images `[batch, channels, …]` at places: for each spatial dim its coordinates `[batch, points]`, counted in elements.
 * Gives `[batch, points, channels]`: the sum of the weighted neighbours, or what `combine` makes of them.
 */
export function sample(
  images: Tensor,
  places: readonly Tensor[],
  sampling: Sampling,
  combine: (x: Tensor, y: Tensor) => Tensor = h.add,
): Tensor {
  const [batch, channels, ...sizes] = images.shape as [number, number, ...number[]];
  const rows = images.reshape([batch, channels, sizeOf(sizes)]).transpose([0, 2, 1]);
  const strides = stridesOf(sizes as Shape);
  let corners: Tap[] = [];
  places.forEach((x, dim) => {
    const along = taps(x, sizes[dim] as number, sampling).map((tap) => ({
      ...tap,
      place: tap.place.mul(strides[dim] as number),
    }));
    corners = dim === 0 ? along : corners.flatMap((corner) => along.map((tap) => joined(corner, tap)));
  });
  const values = corners.map(({ place, inside, weight }) => {
    const read = h.gather(rows, place, 1);
    const deep = (x: Tensor): Tensor => x.reshape([...x.shape, 1]);
    // Not a weight of 0, which would make NaN of what is not finite.
    const kept = sampling.outside === "zeros" ? h.select(deep(inside), read, h.zerosLike(read)) : read;
    return weight === undefined ? kept : kept.mul(deep(weight).cast(kept.dtype));
  });
  return values.reduce((x, y) => combine(x, y));
}

function joined(x: Tap, y: Tap): Tap {
  const weight = x.weight === undefined || y.weight === undefined ? undefined : x.weight.mul(y.weight);
  return { place: x.place.add(y.place), inside: h.and(x.inside, y.inside), weight };
}
