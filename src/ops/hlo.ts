/** @module What several ops need to spell themselves in StableHLO. */
import { type DType, dtypes, isHalf, isInteger, isSigned } from "../ir/dtype.ts";
import type { Attrs } from "../ir/node.ts";
import type { Shape, TensorType } from "../ir/shape.ts";
import type { HloBlock, HloDType, HloRegion, HloRule, HloValue } from "../ir/stablehlo.ts";

/** StableHLO's names of what combines two elements. */
export const hloReductions = {
  sum: "add",
  prod: "multiply",
  max: "maximum",
  min: "minimum",
  and: "and",
  or: "or",
} as const;

type Extreme = "max" | "min" | "sum" | "prod" | "and" | "or";

const scalars = (dtypes: readonly HloDType[]) => dtypes.map((dtype) => ({ shape: [], dtype }));

/** The rule on 16-bit floats: computed in f32 and rounded once at the end, as kernels do. */
export const hloInSingle =
  <A extends Attrs>(rule: HloRule<A>): HloRule<A> =>
  (context) => {
    const { hlo, inputs, outputs } = context;
    const single = <D extends HloDType>(dtype: D): D | "f32" => (isHalf(dtype as DType) ? "f32" : dtype);
    const as = (x: HloValue, dtype: HloDType): HloValue => (x.type.dtype === dtype ? x : hlo.convert(x, dtype));
    const results = rule({
      ...context,
      inputs: inputs.map((x) => as(x, single(x.type.dtype))),
      outputs: outputs.map((type) => ({ ...type, dtype: single(type.dtype) })),
    });
    return results.map((x, index) => as(x, (outputs[index] as TensorType).dtype));
  };

/** Whether the held element stays the extreme beside a new one: it wins ties, and NaN stays. */
export const hloKeeps = (op: Extreme, dtype: HloDType): HloRegion => ({
  arguments: scalars([dtype, dtype]),
  body: (hlo, inputs) => {
    const [held, next] = inputs as [HloValue, HloValue];
    const wins = hlo.compare(op === "min" ? "LE" : "GE", held, next);
    return [hlo.same("or", wins, hlo.compare("NE", held, held))];
  },
});

/**
 * Combines two tuples (value, place, …) into the one whose value is the extreme: NaN before all numbers, the smaller place
 * among equals. It does not depend on the order of the two, as reductions require.
 */
export const hloExtreme = (op: "max" | "min", dtypes: readonly HloDType[]): HloRegion => ({
  arguments: scalars([...dtypes, ...dtypes]),
  body: (hlo, inputs) => {
    const left = inputs.slice(0, dtypes.length);
    const right = inputs.slice(dtypes.length);
    const [x, place, y, other] = [left[0], left[1], right[0], right[1]] as [HloValue, HloValue, HloValue, HloValue];
    const [xNaN, yNaN] = [hlo.compare("NE", x, x), hlo.compare("NE", y, y)];
    const beyond = hlo.compare(op === "min" ? "LT" : "GT", x, y);
    const wins = hlo.same("or", beyond, hlo.same("and", xNaN, hlo.same("not", yNaN)));
    const equal = hlo.same("or", hlo.compare("EQ", x, y), hlo.same("and", xNaN, yNaN));
    const first = hlo.same("and", equal, hlo.compare("LT", place, other));
    const takesLeft = hlo.same("or", wins, first);
    return left.map((value, index) => hlo.select(takesLeft, value, right[index] as HloValue));
  },
});

/** The place (i32) of each element along a dim, or in row-major order; `none` comes after all of them. */
export function hloPlaces(hlo: HloBlock, shape: Shape, dim?: number): { places: HloValue; none: HloValue } {
  const none = hlo.constant({ shape: [], dtype: "i32" }, 2147483647);
  const attributes = { iota_dimension: `${dim ?? 0} : i64` };
  if (dim !== undefined) return { places: hlo.one("iota", [], { shape, dtype: "i32" }, attributes), none };
  const size = shape.reduce((all, one) => all * one, 1);
  const flat = hlo.one("iota", [], { shape: [size], dtype: "i32" }, attributes);
  return { places: hlo.one("reshape", [flat], { shape, dtype: "i32" }), none };
}

/** Coefficients, highest power first. */
type Polynomial = readonly number[];

// Rational approximations of Cephes (ndtr.c, S. L. Moshier): erf near 0 as x T(x²)/U(x²), else erfc as exp(-x²) P(x)/Q(x).
const erfT: Polynomial = [
  9.604973739870516, 90.02601972038427, 2232.005345946843, 7003.325141128051, 55592.30130103949,
];
const erfU: Polynomial = [
  1, 33.56171416475031, 521.3579497801527, 4594.323829709801, 22629.000061389095, 49267.39426086359,
];
const erfP: Polynomial = [
  2.461969814735305e-10, 0.5641895648310689, 7.463210564422699, 48.63719709856814, 196.5208329560771, 526.4451949954773,
  934.5285271719576, 1027.5518868951572, 557.5353353693994,
];
const erfQ: Polynomial = [
  1, 13.228195115474499, 86.70721408859897, 354.9377788878199, 975.7085017432055, 1823.9091668790973,
  2246.3376081871097, 1656.6630919416134, 557.5353408177277,
];

function polynomial(hlo: HloBlock, x: HloValue, [first, ...rest]: Polynomial): HloValue {
  return rest.reduce(
    (value, coefficient) => hlo.same("add", hlo.same("multiply", value, x), hlo.like(x, coefficient)),
    hlo.like(x, first as number),
  );
}

/** The error function, which StableHLO lacks. */
export function hloErf(hlo: HloBlock, x: HloValue): HloValue {
  // Beyond 6 it is 1 to the last bit; the bound keeps the polynomials finite.
  const size = hlo.same("minimum", hlo.same("abs", x), hlo.like(x, 6));
  const square = hlo.same("multiply", size, size);
  const ratio = hlo.same("divide", polynomial(hlo, square, erfT), polynomial(hlo, square, erfU));
  const tail = hlo.same("divide", polynomial(hlo, size, erfP), polynomial(hlo, size, erfQ));
  const decay = hlo.same("exponential", hlo.same("negate", square));
  const far = hlo.same("subtract", hlo.like(x, 1), hlo.same("multiply", decay, tail));
  const isNear = hlo.compare("LT", size, hlo.like(x, 1));
  return hlo.select(isNear, hlo.same("multiply", x, ratio), hlo.same("multiply", hlo.same("sign", x), far));
}

/** `power` of floats, of 16 bits in f32. Of integers XLA's looks at six bits of the exponent alone, so those go by squares. */
export function hloPower(hlo: HloBlock, x: HloValue, y: HloValue): HloValue {
  const dtype = x.type.dtype as DType;
  if (isHalf(dtype)) return hlo.convert(hlo.same("power", hlo.convert(x, "f32"), hlo.convert(y, "f32")), dtype);
  return isInteger(dtype) ? integerPower(hlo, x, y, dtype) : hlo.same("power", x, y);
}

function integerPower(hlo: HloBlock, x: HloValue, y: HloValue, dtype: DType): HloValue {
  const [zero, one] = [hlo.like(x, 0), hlo.like(x, 1)];
  const bit = (place: number): HloValue => {
    const moved = place === 0 ? y : hlo.same("shift_right_logical", y, hlo.like(y, place));
    return hlo.compare("NE", hlo.same("and", moved, one), zero);
  };
  const width = dtypes[dtype].bytes * 8;
  const bits = isSigned(dtype) ? width - 1 : width;
  let [result, square] = [hlo.select(bit(0), x, one), x];
  for (let place = 1; place < bits; place++) {
    square = hlo.same("multiply", square, square);
    result = hlo.select(bit(place), hlo.same("multiply", result, square), result);
  }
  if (!isSigned(dtype)) return result;
  // To a negative power 1 and -1 are themselves or 1, others 0.
  const unit = hlo.compare("EQ", hlo.same("abs", x), one);
  const quotient = hlo.select(unit, hlo.select(bit(0), x, one), zero);
  return hlo.select(hlo.compare("LT", y, zero), quotient, result);
}

const mask = 0xffffffff;

/** One round of Philox 4x32 on words of 32 bits that are held in 64. */
function philoxRound(hlo: HloBlock, words: readonly HloValue[], keys: readonly HloValue[]): HloValue[] {
  const [c0, c1, c2, c3] = words as [HloValue, HloValue, HloValue, HloValue];
  const low = (x: HloValue): HloValue => hlo.same("and", x, hlo.like(x, mask));
  const high = (x: HloValue): HloValue => hlo.same("shift_right_logical", x, hlo.like(x, 32));
  const first = hlo.same("multiply", c0, hlo.like(c0, 0xd2511f53));
  const second = hlo.same("multiply", c2, hlo.like(c2, 0xcd9e8d57));
  const mixed = (product: HloValue, word: HloValue, key: HloValue): HloValue =>
    hlo.same("xor", hlo.same("xor", high(product), word), key);
  return [mixed(second, c1, keys[0] as HloValue), low(second), mixed(first, c3, keys[1] as HloValue), low(first)];
}

/** Words of Philox 4x32-10 at the positions of a block, as src/ops/random.ts defines them. */
export function hloPhilox(
  hlo: HloBlock,
  key: HloValue,
  start: HloValue,
  { shape, strides, stream }: { shape: Shape; strides: readonly number[]; stream: number },
): HloValue {
  const wide = { shape, dtype: "u64" as const };
  const spread = (x: HloValue): HloValue => hlo.broadcast(hlo.convert(x, "u64"), shape, []);
  const position = shape.reduce(
    (total, _size, dim) => {
      const iota = hlo.one("iota", [], wide, { iota_dimension: `${dim} : i64` });
      const place = hlo.same("add", iota, spread(hlo.element(start, dim)));
      return hlo.same("add", total, hlo.same("multiply", place, hlo.constant(wide, strides[dim] as number)));
    },
    hlo.constant(wide, 0),
  );
  const block = hlo.same("shift_right_logical", position, hlo.constant(wide, 2));
  let words: HloValue[] = [
    hlo.same("and", block, hlo.constant(wide, mask)),
    hlo.same("shift_right_logical", block, hlo.constant(wide, 32)),
    hlo.constant(wide, stream),
    hlo.constant(wide, 0),
  ];
  const keys = [spread(hlo.element(key, 0)), spread(hlo.element(key, 1))];
  const steps = [0x9e3779b9, 0xbb67ae85];
  for (let round = 0; round < 10; round++) {
    const now = keys.map((word, index) => {
      const sum = hlo.same("add", word, hlo.constant(wide, round * (steps[index] as number)));
      return hlo.same("and", sum, hlo.constant(wide, mask));
    });
    words = philoxRound(hlo, words, now);
  }
  const lane = hlo.same("and", position, hlo.constant(wide, 3));
  const chosen = words.reduceRight((rest, word, index) =>
    hlo.select(hlo.compare("EQ", lane, hlo.constant(wide, index)), word, rest),
  );
  return hlo.convert(chosen, "u32");
}
