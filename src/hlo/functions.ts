/** @module Scalar functions that StableHLO lacks, in ops that it has. */
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
  private readonly two =
    (name: string) =>
    (x: HloValue | number, y: HloValue | number): HloValue =>
      this.hlo.same(name, this.value(x), this.value(y));
  readonly add = this.two("add");
  readonly sub = this.two("subtract");
  readonly mul = this.two("multiply");
  readonly div = this.two("divide");
  readonly max = this.two("maximum");
  readonly min = this.two("minimum");
  readonly pow = this.two("power");
  readonly atan2 = this.two("atan2");
  one(name: string, x: HloValue): HloValue {
    return this.hlo.same(name, x);
  }
  compare(direction: string, x: HloValue, y: HloValue | number): HloValue {
    return this.hlo.compare(direction, x, this.value(y));
  }
  select(condition: HloValue, x: HloValue | number, y: HloValue | number): HloValue {
    return this.hlo.select(condition, this.value(x), this.value(y));
  }
  /** |x| with the sign of another value, of zero too. */
  withSign(x: HloValue, of: HloValue): HloValue {
    // 1 / ±0 tells the zeros apart; x is not negative.
    const below = this.compare("LT", this.select(this.compare("EQ", of, 0), this.div(1, of), of), 0);
    return this.select(below, this.one("negate", x), x);
  }
}

/** In f64 whatever the dtype: what cancels in f32 is then below its rounding. */
const inDouble =
  (spelling: Spelling): Spelling =>
  (hlo, x) =>
    x.type.dtype === "f64" ? spelling(hlo, x) : hlo.convert(spelling(hlo, hlo.convert(x, "f64")), x.type.dtype);

const trunc: Spelling = (hlo, x) => {
  const m = new Maths(hlo, x);
  return m.withSign(m.one("floor", m.one("abs", x)), x);
};

const tan: Spelling = inDouble((hlo, x) => hlo.same("divide", hlo.same("sine", x), hlo.same("cosine", x)));

const atan: Spelling = (hlo, x) => hlo.same("atan2", x, hlo.like(x, 1));

/** sqrt((1 - x)(1 + x)). */
const otherSide = (m: Maths, x: HloValue): HloValue => m.one("sqrt", m.mul(m.sub(1, x), m.add(1, x)));

const asin: Spelling = inDouble((hlo, x) => hlo.same("atan2", x, otherSide(new Maths(hlo, x), x)));

const acos: Spelling = inDouble((hlo, x) => hlo.same("atan2", otherSide(new Maths(hlo, x), x), x));

const sinh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.one("abs", x);
  const e = m.one("exponential_minus_one", a);
  const near = m.mul(0.5, m.add(e, m.div(e, m.add(e, 1))));
  const half = m.one("exponential", m.mul(a, 0.5));
  const far = m.mul(m.mul(half, 0.5), half);
  return m.withSign(m.select(m.compare("GT", a, 30), far, near), x);
});

const cosh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.one("abs", x);
  const half = m.one("exponential", m.mul(a, 0.5));
  const e = m.one("exponential", m.one("negate", a));
  return m.add(m.mul(m.mul(half, 0.5), half), m.mul(e, 0.5));
});

const asinh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.one("abs", x);
  const square = m.mul(a, a);
  const more = m.div(square, m.add(1, m.one("sqrt", m.add(square, 1))));
  const near = m.one("log_plus_one", m.add(a, more));
  const far = m.add(m.one("log", a), Math.LN2);
  return m.withSign(m.select(m.compare("GT", a, 1e9), far, near), x);
});

const acosh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const t = m.sub(x, 1);
  const near = m.one("log_plus_one", m.add(t, m.one("sqrt", m.mul(t, m.add(t, 2)))));
  const far = m.add(m.one("log", x), Math.LN2);
  const y = m.select(m.compare("GT", x, 1e9), far, near);
  return m.select(m.compare("LT", x, 1), Number.NaN, y);
});

const atanh: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.one("abs", x);
  const y = m.mul(0.5, m.one("log_plus_one", m.div(m.mul(2, a), m.sub(1, a))));
  return m.withSign(y, x);
});

const exp2: Spelling = (hlo, x) => hlo.same("power", hlo.like(x, 2), x);

const log2: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const quotient = m.div(m.one("log", x), Math.LN2);
  // A power of 2 has no bits after its exponent, of which the sign is a part.
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
  const a = m.min(m.one("abs", x), 30);
  const decay = m.one("exponential", m.one("negate", m.mul(a, a)));
  const middle = m.div(polynomial(m, a, erfcP), polynomial(m, a, erfcQ));
  const outer = m.div(polynomial(m, a, erfcR), polynomial(m, a, erfcS));
  const tail = m.mul(decay, m.select(m.compare("LT", a, 8), middle, outer));
  const far = m.select(m.compare("LT", x, 0), m.sub(2, tail), tail);
  return m.select(m.compare("LT", a, 1), m.sub(1, erf(hlo, x)), far);
}
const erfc: Spelling = inDouble(erfcInDouble);

/** The first guess of S. Winitzki and steps of Halley's, as in `special.ts`. */
const erfInv: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const a = m.one("abs", x);
  const rest = m.sub(1, a);
  const w = m.one("negate", m.one("log", m.mul(rest, m.add(1, a))));
  const half = m.sub(2 / (Math.PI * 0.147), m.mul(w, 0.5));
  const guess = m.sub(m.one("sqrt", m.add(m.mul(half, half), m.div(w, 0.147))), half);
  let y = m.one("sqrt", m.max(guess, 0));
  for (let step = 0; step < 4; step++) {
    const inner = m.sub(erf(hlo, y), a);
    const error = m.select(m.compare("LT", a, 0.5), inner, m.sub(rest, erfcInDouble(hlo, y)));
    const slope = m.mul(m.one("exponential", m.one("negate", m.mul(y, y))), 2 / Math.sqrt(Math.PI));
    y = m.sub(y, m.div(error, m.add(slope, m.mul(y, error))));
  }
  const inside = m.select(m.compare("EQ", a, 0), x, m.withSign(y, x));
  const end = m.withSign(m.select(m.compare("EQ", a, 1), Infinity, a), x);
  return m.select(m.compare("LT", a, 1), inside, m.select(m.compare("EQ", a, 1), end, Number.NaN));
});

const halfLogTwoPi = 0.5 * Math.log(2 * Math.PI);

/** The value at a positive x by steps up to 10 and more, each of which `gathers`, and an asymptotic `series` there. */
function stepped(
  m: Maths,
  x: HloValue,
  gather: (sum: HloValue, x: HloValue) => HloValue,
  start: number,
  below = 10,
): { x: HloValue; sum: HloValue } {
  let at = x;
  let sum = m.hlo.like(x, start);
  for (let step = 0; step < below; step++) {
    const low = m.compare("LT", at, below);
    sum = m.select(low, gather(sum, at), sum);
    at = m.select(low, m.add(at, 1), at);
  }
  return { x: at, sum };
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
    const main = m.sub(m.mul(m.sub(z, 0.5), m.one("log", z)), z);
    return m.sub(m.add(m.add(main, halfLogTwoPi), series), m.one("log", sum));
  };
  const below = m.compare("LT", x, 0.5);
  const at = positive(m.select(below, m.sub(1, x), x));
  // Whole periods are taken off before the sine.
  const part = m.one("abs", m.sub(x, m.one("round_nearest_even", x)));
  const sine = m.one("sine", m.mul(part, Math.PI));
  const reflected = m.sub(m.sub(Math.log(Math.PI), m.one("log", sine)), at);
  const whole = hlo.same("and", below, m.compare("EQ", part, 0));
  const y = m.select(whole, Infinity, m.select(below, reflected, at));
  return m.select(m.compare("EQ", m.one("abs", x), Infinity), Infinity, y);
});

const digamma: Spelling = inDouble((hlo, x) => {
  const m = new Maths(hlo, x);
  const below = m.compare("LT", x, 0);
  const part = m.sub(x, m.one("round_nearest_even", x));
  const { x: z, sum } = stepped(m, m.select(below, m.sub(1, x), x), (total, at) => m.sub(total, m.div(1, at)), 0);
  const series = bernoulliSeries(m, z, (k) => 1 / (2 * k), 2);
  const at = m.sub(m.sub(m.add(sum, m.one("log", z)), m.div(0.5, z)), series);
  const angle = m.mul(part, Math.PI);
  const cotangent = m.div(m.one("cosine", angle), m.one("sine", angle));
  const reflected = m.select(m.compare("EQ", part, 0), Number.NaN, m.sub(at, m.mul(cotangent, Math.PI)));
  const y = m.select(below, reflected, m.select(m.compare("EQ", x, Infinity), Infinity, at));
  const negative = m.select(m.compare("EQ", x, -Infinity), Number.NaN, y);
  return m.select(m.compare("EQ", x, 0), m.div(-1, x), negative);
});

/** (-1)^(n+1) n! zeta(n + 1, x), the zeta function by Euler and Maclaurin's sum, for x above -20 and n up to 10. */
export function polygamma(hlo: HloBlock, order: HloValue, at: HloValue): HloValue {
  const { dtype } = at.type;
  const [n, x] = [hlo.convert(order, "f64"), hlo.convert(at, "f64")];
  const m = new Maths(hlo, x);
  const s = m.add(n, 1);
  const power = (value: HloValue): HloValue => m.pow(value, m.one("negate", s));
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
  const odd = m.compare("NE", m.one("floor", m.mul(n, 0.5)), m.mul(n, 0.5));
  const gamma = m.one("exponential", lgamma(hlo, s));
  const between = m.mul(m.select(odd, gamma, m.one("negate", gamma)), zeta);
  // From both sides of a pole the odd ones go up, the even ones apart.
  const pole = hlo.same("and", m.compare("LE", x, 0), m.compare("EQ", m.one("floor", x), x));
  const beside = m.select(pole, m.select(odd, Infinity, Number.NaN), between);
  const lowest = m.select(m.compare("EQ", x, -Infinity), Number.NaN, beside);
  const higher = m.select(m.compare("EQ", x, Infinity), 0, lowest);
  const bounded = hlo.same("and", m.compare("GE", n, 0), m.compare("LE", n, 170));
  const defined = hlo.same("and", bounded, m.compare("EQ", m.one("floor", n), n));
  const whole = m.select(m.compare("EQ", n, 0), digamma(hlo, x), higher);
  return hlo.convert(m.select(defined, whole, Number.NaN), dtype);
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
