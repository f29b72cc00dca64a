/** @module The meaning of the collectives on host tensors: given what each device has, what each device gets. */

import { dtypes, roundTo } from "../ir/dtype.ts";
import type { Reduction } from "../ir/equation.ts";
import type { Attrs, HostTensor } from "../ir/node.ts";
import { sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";

const combine: { readonly [R in Reduction]: (x: number, y: number) => number } = {
  sum: (x, y) => x + y,
  max: (x, y) => (Number.isNaN(x) || Number.isNaN(y) ? Number.NaN : Math.max(x, y)),
  min: (x, y) => (Number.isNaN(x) || Number.isNaN(y) ? Number.NaN : Math.min(x, y)),
};

/** Combines in order of the devices, rounding to the dtype at each step as the wire does. */
function reduced(parts: readonly HostTensor[], reduction: Reduction): HostTensor {
  const [first, ...others] = parts as [HostTensor, ...HostTensor[]];
  const data = first.data.slice();
  const rule = combine[reduction];
  for (const other of others)
    for (let i = 0; i < data.length; i++)
      data[i] = roundTo(first.dtype, rule(data[i] as number, other.data[i] as number));
  return { ...first, data };
}

/** Cuts along a dim into equal blocks. */
function blocks(tensor: HostTensor, dim: number, parts: number): HostTensor[] {
  const size = (tensor.shape[dim] as number) / parts;
  const shape = tensor.shape.map((old, index) => (index === dim ? size : old));
  const inner = sizeOf(tensor.shape.slice(dim + 1)) * size;
  const outer = sizeOf(tensor.shape.slice(0, dim));
  return Array.from({ length: parts }, (_unused, part) => {
    const data = dtypes[tensor.dtype].create(sizeOf(shape));
    for (let o = 0; o < outer; o++)
      data.set(tensor.data.subarray((o * parts + part) * inner, (o * parts + part + 1) * inner), o * inner);
    return { dtype: tensor.dtype, shape, data };
  });
}

function joined(parts: readonly HostTensor[], dim: number): HostTensor {
  const first = parts[0] as HostTensor;
  const shape = first.shape.map((size, index) => (index === dim ? size * parts.length : size));
  const inner = sizeOf(first.shape.slice(dim));
  const outer = sizeOf(first.shape.slice(0, dim));
  const data = dtypes[first.dtype].create(sizeOf(shape));
  parts.forEach((part, place) => {
    for (let o = 0; o < outer; o++)
      data.set(part.data.subarray(o * inner, (o + 1) * inner), (o * parts.length + place) * inner);
  });
  return { dtype: first.dtype, shape, data };
}

/** Runs a collective among devices in order of their coordinates: `contributions[device][input]` to `[device][result]`. */
export function runCollective(
  op: string,
  attrs: Attrs,
  contributions: readonly (readonly HostTensor[])[],
): HostTensor[][] {
  const parts = contributions.length;
  const column = (index: number): HostTensor[] => contributions.map((inputs) => inputs[index] as HostTensor);
  const width = contributions[0]?.length ?? 0;
  const number = (name: string): number => attrs[name] as number;
  switch (op) {
    case "allReduce": {
      const results = Array.from({ length: width }, (_unused, index) =>
        reduced(column(index), attrs["reduction"] as Reduction),
      );
      return contributions.map(() => results.map((result) => ({ ...result, data: result.data.slice() })));
    }
    case "allGather": {
      const result = joined(column(0), number("dim"));
      return contributions.map(() => [{ ...result, data: result.data.slice() }]);
    }
    case "reduceScatter":
      return blocks(reduced(column(0), attrs["reduction"] as Reduction), number("dim"), parts).map((block) => [block]);
    case "allToAll": {
      const sent = column(0).map((tensor) => blocks(tensor, number("to"), parts));
      return contributions.map((_inputs, place) => [
        joined(
          sent.map((pieces) => pieces[place] as HostTensor),
          number("from"),
        ),
      ]);
    }
    default:
      throw new HeddleError("op", `'${op}' is not a collective`);
  }
}
