/** @module The error function and powers of integers, which StableHLO lacks. */
import { type DType, dtypes, isHalf, isInteger, isSigned } from "../ir/dtype.ts";
import type { HloBlock, HloValue } from "./block.ts";

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

function polynomial(hlo: HloBlock, x: HloValue, [first, ...others]: Polynomial): HloValue {
  return others.reduce(
    (value, coefficient) => hlo.same("add", hlo.same("multiply", value, x), hlo.like(x, coefficient)),
    hlo.like(x, first as number),
  );
}

/** The error function. */
export function erf(hlo: HloBlock, x: HloValue): HloValue {
  // Beyond 6 the result is 1 to the last bit; the bound keeps the polynomials finite.
  const size = hlo.same("minimum", hlo.same("abs", x), hlo.like(x, 6));
  const square = hlo.same("multiply", size, size);
  const ratio = hlo.same("divide", polynomial(hlo, square, erfT), polynomial(hlo, square, erfU));
  const tail = hlo.same("divide", polynomial(hlo, size, erfP), polynomial(hlo, size, erfQ));
  const decay = hlo.same("exponential", hlo.same("negate", square));
  const far = hlo.same("subtract", hlo.like(x, 1), hlo.same("multiply", decay, tail));
  const isNear = hlo.compare("LT", size, hlo.like(x, 1));
  return hlo.select(isNear, hlo.same("multiply", x, ratio), hlo.same("multiply", hlo.same("sign", x), far));
}

/** Powers; 16-bit floats in f32. XLA reads only six bits of an integer exponent, so integer powers are computed by squaring. */
export function power(hlo: HloBlock, x: HloValue, y: HloValue): HloValue {
  const dtype = x.type.dtype as DType;
  if (isHalf(dtype)) return hlo.convert(hlo.same("power", hlo.convert(x, "f32"), hlo.convert(y, "f32")), dtype);
  return isInteger(dtype) ? integerPower(hlo, x, y, dtype) : hlo.same("power", x, y);
}

function integerPower(hlo: HloBlock, x: HloValue, y: HloValue, dtype: DType): HloValue {
  const [zero, one] = [hlo.like(x, 0), hlo.like(x, 1)];
  const bit = (index: number): HloValue => {
    const shifted = index === 0 ? y : hlo.same("shift_right_logical", y, hlo.like(y, index));
    return hlo.compare("NE", hlo.same("and", shifted, one), zero);
  };
  const width = dtypes[dtype].bytes * 8;
  const bits = isSigned(dtype) ? width - 1 : width;
  let [result, square] = [hlo.select(bit(0), x, one), x];
  for (let index = 1; index < bits; index++) {
    square = hlo.same("multiply", square, square);
    result = hlo.select(bit(index), hlo.same("multiply", result, square), result);
  }
  if (!isSigned(dtype)) return result;
  // A negative power of 1 or -1 is 1 or -1; that of other integers is 0.
  const unit = hlo.compare("EQ", hlo.same("abs", x), one);
  const quotient = hlo.select(unit, hlo.select(bit(0), x, one), zero);
  return hlo.select(hlo.compare("LT", y, zero), quotient, result);
}
