/** @module Scalar functions that StableHLO lacks, composed of ops that it has. */
import { bernoulli } from "../ops/special.ts";
import type { HloBlock, HloValue } from "./block.ts";
import { erf } from "./powers.ts";

type Spelling = (hlo: HloBlock, x: HloValue) => HloValue;

/** Arithmetic on values of one type and numbers. */
class Maths {
  readonly hlo: HloBlock;
  private readonly model: HloValue;
  constructor(hlo: HloBlock, model: HloValue) {
    this.hlo = hlo;
    this.model = model;
  }
  private value(x: HloValue | number): HloValue {
    return typeof x === "number" ? this.hlo.like(this.model, x) : x;
  }
  private readonly binary =
    (name: string) =>
    (x: HloValue | number, y: HloValue | number): HloValue =>
      this.hlo.same(name, this.value(x), this.value(y));
  readonly add = this.binary("add");
  readonly sub = this.binary("subtract");
  readonly mul = this.binary("multiply");
  readonly div = this.binary("divide");
  readonly max = this.binary("maximum");
  readonly min = this.binary("minimum");
  readonly pow = this.binary("power");
  readonly atan2 = this.binary("atan2");
  unary(name: string, x: HloValue): HloValue {
    return this.hlo.same(name, x);
  }
  compare(direction: string, x: HloValue, y: HloValue | number): HloValue {
    return this.hlo.compare(direction, x, this.value(y));
  }
  select(condition: HloValue, x: HloValue | number, y: HloValue | number): HloValue {
    return this.hlo.select(condition, this.value(x), this.value(y));
  }
  /** |x| with the sign of another value, also of a zero. */
  withSign(x: HloValue, of: HloValue): HloValue {
    // 1 / ±0 tells the zeros apart; x is not negative.
    const below = this.compare("LT", this.select(this.compare("EQ", of, 0), this.div(1, of), of), 0);
    return this.select(below, this.unary("negate", x), x);
  }
}

/** Computes in f64 for every dtype, so that cancellation stays below the rounding of f32. */
const inDouble =
  (spelling: Spelling): Spelling =>
  (hlo, x) =>
    x.type.dtype === "f64" ? spelling(hlo, x) : hlo.convert(spelling(hlo, hlo.convert(x, "f64")), x.type.dtype);

const trunc: Spelling = (hlo, x) => {
  const m = new Maths(hlo, x);
  return m.withSign(m.unary("floor", m.unary("abs", x)), x);
};

const tan: Spelling = inDouble((hlo, x) => hlo.same("divide", hlo.same("sine", x), hlo.same("cosine", x)));

const atan: Spelling = (hlo, x) => hlo.same("atan2", x, hlo.like(x, 1));

/** sqrt((1 - x)(1 + x)). */
const complementRoot = (m: Maths, x: HloValue): HloValue => m.unary("sqrt", m.mul(m.sub(1, x), m.add(1, x)));

const asin: Spelling = inDouble((hlo, x) => hlo.same("atan2", x, complementRoot(new Maths(hlo, x), x)));

const acos: Spelling = inDouble((hlo, x) => hlo.same("atan2", complementRoot(new Maths(hlo, x), x), x));

const sinh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.unary("abs", x);
  const e = m.unary("exponential_minus_one", a);
  const near = m.mul(0.5, m.add(e, m.div(e, m.add(e, 1))));
  const half = m.unary("exponential", m.mul(a, 0.5));
  const far = m.mul(m.mul(half, 0.5), half);
  return m.withSign(m.select(m.compare("GT", a, 30), far, near), x);
});

const cosh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.unary("abs", x);
  const half = m.unary("exponential", m.mul(a, 0.5));
  const e = m.unary("exponential", m.unary("negate", a));
  return m.add(m.mul(m.mul(half, 0.5), half), m.mul(e, 0.5));
});

const asinh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.unary("abs", x);
  const square = m.mul(a, a);
  const more = m.div(square, m.add(1, m.unary("sqrt", m.add(square, 1))));
  const near = m.unary("log_plus_one", m.add(a, more));
  const far = m.add(m.unary("log", a), Math.LN2);
  return m.withSign(m.select(m.compare("GT", a, 1e9), far, near), x);
});

const acosh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const t = m.sub(x, 1);
  const near = m.unary("log_plus_one", m.add(t, m.unary("sqrt", m.mul(t, m.add(t, 2)))));
  const far = m.add(m.unary("log", x), Math.LN2);
  const y = m.select(m.compare("GT", x, 1e9), far, near);
  return m.select(m.compare("LT", x, 1), Number.NaN, y);
});

const atanh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.unary("abs", x);
  const y = m.mul(0.5, m.unary("log_plus_one", m.div(m.mul(2, a), m.sub(1, a))));
  return m.withSign(y, x);
});

const exp2: Spelling = (hlo, x) => hlo.same("power", hlo.like(x, 2), x);

const log2: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const quotient = m.div(m.unary("log", x), Math.LN2);
  // A power of 2 has no mantissa bits; a negative number fails the test of the exponent, which includes the sign.
  const bits = hlo.one("bitcast_convert", [x], { shape: x.type.shape, dtype: "i64" });
  const mantissa = hlo.same("and", bits, hlo.like(bits, 2n ** 52n - 1n));
  const exponent = hlo.same("shift_right_logical", bits, hlo.like(bits, 52));
  const normal = hlo.same(
    "and",
    hlo.compare("GT", exponent, hlo.like(bits, 0)),
    hlo.compare("LT", exponent, hlo.like(bits, 2047)),
  );
  const isPower = hlo.same("and", normal, hlo.compare("EQ", mantissa, hlo.like(bits, 0)));
  return m.select(isPower, m.sub(hlo.convert(exponent, "f64"), 1023), quotient);
});

// Rational approximations of erfc / exp(-x²) from 1 to 8, and beyond (Cephes, ndtr.c, S. L. Moshier).
const erfcP = [
  2.461969814735305e-10, 0.5641895648310689, 7.463210564422699, 48.63719709856814, 196.5208329560771, 526.4451949954773,
  934.5285271719576, 1027.5518868951572, 557.5353353693994,
];
const erfcQ = [
  1, 13.228195115474499, 86.70721408859897, 354.9377788878199, 975.7085017432055, 1823.9091668790973,
  2246.3376081871097, 1656.6630919416134, 557.5353408177277,
];
const erfcR = [
  0.5641895835477551, 1.275366707599781, 5.019050422511805, 6.160210979930536, 7.4097426995044895, 2.9788666537210022,
];
const erfcS = [
  1, 2.2605286322011726, 9.396035249380015, 12.048953980809666, 17.08144507475659, 9.608968090632859, 3.369076451000815,
];

function polynomial(m: Maths, x: HloValue, coefficients: readonly number[]): HloValue {
  return coefficients
    .slice(2)
    .reduce<HloValue>(
      (value, c) => m.add(m.mul(value, x), c),
      m.add(m.mul(x, coefficients[0] as number), coefficients[1] as number),
    );
}

function erfcInDouble(hlo: HloBlock, x: HloValue): HloValue {
  const m = new Maths(hlo, x);
  const a = m.min(m.unary("abs", x), 30);
  const decay = m.unary("exponential", m.unary("negate", m.mul(a, a)));
  const middle = m.div(polynomial(m, a, erfcP), polynomial(m, a, erfcQ));
  const outer = m.div(polynomial(m, a, erfcR), polynomial(m, a, erfcS));
  const tail = m.mul(decay, m.select(m.compare("LT", a, 8), middle, outer));
  const far = m.select(m.compare("LT", x, 0), m.sub(2, tail), tail);
  return m.select(m.compare("LT", a, 1), m.sub(1, erf(hlo, x)), far);
}
const erfc: Spelling = inDouble(erfcInDouble);

/** Winitzki's first guess, refined by Halley's method, as in `special.ts`. */
const erfInv: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.unary("abs", x);
  const complement = m.sub(1, a);
  const w = m.unary("negate", m.unary("log", m.mul(complement, m.add(1, a))));
  const half = m.sub(2 / (Math.PI * 0.147), m.mul(w, 0.5));
  const guess = m.sub(m.unary("sqrt", m.add(m.mul(half, half), m.div(w, 0.147))), half);
  let y = m.unary("sqrt", m.max(guess, 0));
  for (let step = 0; step < 4; step++) {
    const inner = m.sub(erf(hlo, y), a);
    const error = m.select(m.compare("LT", a, 0.5), inner, m.sub(complement, erfcInDouble(hlo, y)));
    const slope = m.mul(m.unary("exponential", m.unary("negate", m.mul(y, y))), 2 / Math.sqrt(Math.PI));
    y = m.sub(y, m.div(error, m.add(slope, m.mul(y, error))));
  }
  const inside = m.select(m.compare("EQ", a, 0), x, m.withSign(y, x));
  const end = m.withSign(m.select(m.compare("EQ", a, 1), Infinity, a), x);
  return m.select(m.compare("LT", a, 1), inside, m.select(m.compare("EQ", a, 1), end, Number.NaN));
});

const halfLogTwoPi = 0.5 * Math.log(2 * Math.PI);

/** Moves a positive x up by steps of 1 to at least `below`, and accumulates `gather` over the steps. */
function stepped(
  m: Maths,
  x: HloValue,
  gather: (sum: HloValue, x: HloValue) => HloValue,
  start: number,
  below = 10,
): { x: HloValue; sum: HloValue } {
  let current = x;
  let sum = m.hlo.like(x, start);
  for (let step = 0; step < below; step++) {
    const low = m.compare("LT", current, below);
    sum = m.select(low, gather(sum, current), sum);
    current = m.select(low, m.add(current, 1), current);
  }
  return { x: current, sum };
}

/** sum of B2k · weight(k) · x^-(2k - power). */
function bernoulliSeries(m: Maths, x: HloValue, weight: (k: number) => number, power: number): HloValue {
  const inverse = m.div(1, x);
  const square = m.mul(inverse, inverse);
  const total = bernoulli
    .slice(0, 8)
    .map((b, index) => b * weight(index + 1))
    .reduceRight<HloValue>((sum, c) => m.add(m.mul(sum, square), c), m.hlo.like(x, 0));
  return m.mul(total, power === 1 ? inverse : square);
}

const lgamma: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const positive = (value: HloValue): HloValue => {
    const { x: z, sum } = stepped(m, value, (product, at) => m.mul(product, at), 1);
    const series = bernoulliSeries(m, z, (k) => 1 / (2 * k * (2 * k - 1)), 1);
    const main = m.sub(m.mul(m.sub(z, 0.5), m.unary("log", z)), z);
    return m.sub(m.add(m.add(main, halfLogTwoPi), series), m.unary("log", sum));
  };
  const below = m.compare("LT", x, 0.5);
  const atPositive = positive(m.select(below, m.sub(1, x), x));
  // The sine takes the distance to the nearest integer.
  const part = m.unary("abs", m.sub(x, m.unary("round_nearest_even", x)));
  const sine = m.unary("sine", m.mul(part, Math.PI));
  const reflected = m.sub(m.sub(Math.log(Math.PI), m.unary("log", sine)), atPositive);
  const isPole = hlo.same("and", below, m.compare("EQ", part, 0));
  const y = m.select(isPole, Infinity, m.select(below, reflected, atPositive));
  return m.select(m.compare("EQ", m.unary("abs", x), Infinity), Infinity, y);
});

const digamma: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const below = m.compare("LT", x, 0);
  const part = m.sub(x, m.unary("round_nearest_even", x));
  const { x: z, sum } = stepped(m, m.select(below, m.sub(1, x), x), (total, at) => m.sub(total, m.div(1, at)), 0);
  const series = bernoulliSeries(m, z, (k) => 1 / (2 * k), 2);
  const atPositive = m.sub(m.sub(m.add(sum, m.unary("log", z)), m.div(0.5, z)), series);
  const angle = m.mul(part, Math.PI);
  const cotangent = m.div(m.unary("cosine", angle), m.unary("sine", angle));
  const reflected = m.select(m.compare("EQ", part, 0), Number.NaN, m.sub(atPositive, m.mul(cotangent, Math.PI)));
  const y = m.select(below, reflected, m.select(m.compare("EQ", x, Infinity), Infinity, atPositive));
  const negative = m.select(m.compare("EQ", x, -Infinity), Number.NaN, y);
  return m.select(m.compare("EQ", x, 0), m.div(-1, x), negative);
});

/** (-1)^(n+1) n! zeta(n + 1, x), the zeta function by Euler and Maclaurin's sum, for x above -20 and n up to 10. */
export function polygamma(hlo: HloBlock, order: HloValue, at: HloValue): HloValue {
  const { dtype } = at.type;
  const [n, x] = [hlo.convert(order, "f64"), hlo.convert(at, "f64")];
  const m = new Maths(hlo, x);
  const s = m.add(n, 1);
  const power = (value: HloValue): HloValue => m.pow(value, m.unary("negate", s));
  const { x: a, sum } = stepped(m, x, (total, value) => m.add(total, power(value)), 0, 32);
  const last = power(a);
  let zeta = m.add(sum, m.add(m.div(m.mul(a, last), m.sub(s, 1)), m.mul(0.5, last)));
  let factor = m.div(m.mul(s, last), a);
  let factorial = 1;
  bernoulli.forEach((b, index) => {
    const k = 2 * (index + 1);
    factorial *= (k - 1) * k;
    zeta = m.add(zeta, m.mul(factor, b / factorial));
    factor = m.div(m.mul(factor, m.mul(m.add(s, k - 1), m.add(s, k))), m.mul(a, a));
  });
  const odd = m.compare("NE", m.unary("floor", m.mul(n, 0.5)), m.mul(n, 0.5));
  const gamma = m.unary("exponential", lgamma(hlo, s));
  const between = m.mul(m.select(odd, gamma, m.unary("negate", gamma)), zeta);
  // At a pole, odd orders go to infinity from both sides; even orders have no limit.
  const pole = hlo.same("and", m.compare("LE", x, 0), m.compare("EQ", m.unary("floor", x), x));
  const beside = m.select(pole, m.select(odd, Infinity, Number.NaN), between);
  const lowest = m.select(m.compare("EQ", x, -Infinity), Number.NaN, beside);
  const higher = m.select(m.compare("EQ", x, Infinity), 0, lowest);
  const bounded = hlo.same("and", m.compare("GE", n, 0), m.compare("LE", n, 170));
  const defined = hlo.same("and", bounded, m.compare("EQ", m.unary("floor", n), n));
  const ofOrder = m.select(m.compare("EQ", n, 0), digamma(hlo, x), higher);
  return hlo.convert(m.select(defined, ofOrder, Number.NaN), dtype);
}

/** Functions of one value that StableHLO lacks, by the names of their ops. */
export const unary: { readonly [op: string]: Spelling } = {
  trunc,
  tan,
  atan,
  asin,
  acos,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  exp2,
  log2,
  erfc,
  erfInv,
  lgamma,
  digamma,
};
