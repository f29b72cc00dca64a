//! Logarithms and powers of both float types, from the exponent of a number and a mantissa near 1.

use super::ops::{clamp, exp, exp_of, log_of, Family, Ops, Rounding, Steps};
use super::trigonometric::{product, sum};

const LN2: f64 = std::f64::consts::LN_2;

/// The bits of 1.
fn one_bits<N: Family>() -> u64 {
    (N::BIAS as u64) << N::MANTISSA
}

/// The exponent field as a float, without the bias.
#[inline(always)]
fn counted<O: Ops>(o: &mut O, exponent: O::I) -> O::F {
    let bits = o.integer(<O::N as Family>::MAGIC_BITS);
    let sum = o.plus(exponent, bits);
    let sum = o.of_bits(sum);
    let shift = o.number(<O::N as Family>::MAGIC + <O::N as Family>::BIAS);
    o.sub(sum, shift)
}

/// The exponent field of a number whose mantissa begins at [`Family::START`] instead of 1.
#[inline(always)]
fn exponent_of<O: Ops>(o: &mut O, bits: O::I) -> O::I {
    let offset = o.integer(one_bits::<O::N>() - <O::N as Family>::START);
    let moved = o.plus(bits, offset);
    o.shift_right(moved, <O::N as Family>::MANTISSA)
}

/// `n` and `f` with x = (1 + f)·2^n and 1 + f from [`Family::START`] to twice that.
#[inline(always)]
fn parts<O: Ops>(o: &mut O, x: O::F) -> (O::F, O::F) {
    let mantissa = <O::N as Family>::MANTISSA;
    let (normal, zero) = (o.number(<O::N as Family>::LEAST), o.number(0.0));
    let subnormal = o.less(x, normal);
    let larger = o.number((1u64 << mantissa) as f64);
    let scaled = o.mul(x, larger);
    let scaled = o.select(subnormal, scaled, x);
    let bits = o.to_bits(scaled);
    let exponent = exponent_of(o, bits);
    let exponent_bits = o.shift_left(exponent, mantissa);
    let bias = o.integer(one_bits::<O::N>());
    let m = o.minus(bits, exponent_bits);
    let m = o.plus(m, bias);
    let m = o.of_bits(m);
    let n = counted(o, exponent);
    let missing = o.number(f64::from(mantissa));
    let missing = o.select(subnormal, missing, zero);
    let one = o.number(1.0);
    (o.sub(n, missing), o.sub(m, one))
}

/// `y`, the logarithm of `argument`, corrected at the ends: infinite for an infinite `x`, -infinity for 0, NaN for negative numbers.
#[inline(always)]
fn ends<O: Ops>(o: &mut O, x: O::F, argument: O::F, y: O::F) -> O::F {
    let (infinity, zero, undefined) = (o.number(f64::INFINITY), o.number(0.0), o.number(f64::NAN));
    let positive = o.less(zero, argument);
    let y = o.select(positive, y, undefined);
    let infinite = o.equal(x, infinity);
    let y = o.select(infinite, x, y);
    let nothing = o.equal(argument, zero);
    let lowest = o.number(f64::NEG_INFINITY);
    o.select(nothing, lowest, y)
}

#[inline(always)]
pub fn log<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (n, f) = parts(o, x);
    let y = log_of(o, n, f);
    ends(o, x, x, y)
}

#[inline(always)]
pub fn log1p<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, zero) = (o.number(1.0), o.number(0.0));
    let u = o.add(x, one);
    let bits = o.to_bits(u);
    let exponent = exponent_of(o, bits);
    let n = counted(o, exponent);
    // (1 + x)·2^-n - 1 from x instead of 1 + x, so that no digit of x is lost.
    let mantissa = <O::N as Family>::MANTISSA;
    let four = o.integer((<O::N as Family>::BIAS as u64 * 2 + 2) << mantissa);
    let scale = o.shift_left(exponent, mantissa);
    let scale = o.minus(four, scale);
    let scale = o.of_bits(scale);
    let quarter = o.number(0.25);
    let scale = o.mul(scale, quarter);
    let less = o.sub(scale, one);
    let f = o.fma(x, scale, less);
    let y = log_of(o, n, f);
    let y = ends(o, x, u, y);
    // Zero keeps its sign, and x is its own result if 1 + x rounds to 1.
    let nothing = o.equal(x, zero);
    o.select(nothing, x, y)
}

#[inline(always)]
pub fn log2<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (n, f) = parts(o, x);
    let zero = o.number(0.0);
    let y = log_of(o, zero, f);
    let [high, low] = <O::N as Family>::FITS.log2_e;
    let (high, low) = (o.number(high), o.number(low));
    let rest = o.mul(y, low);
    let y = o.fma(y, high, rest);
    let y = o.add(n, y);
    ends(o, x, x, y)
}

#[inline(always)]
pub fn exp2<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let x = within_exponents(o, x);
    let n = o.round(x, Rounding::HalfToEven);
    let ln2 = o.number(LN2);
    let r = o.sub(x, n);
    let r = o.mul(r, ln2);
    let p = exp_of(o, r);
    o.scale(p, n)
}

/// Clamps exponents of 2; beyond the limits a power is 0 or infinite.
#[inline(always)]
fn within_exponents<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let bias = <O::N as Family>::BIAS;
    clamp(o, x, -bias - f64::from(<O::N as Family>::MANTISSA) - 2.0, bias + 2.0)
}

/// log(1 + e^x) = max(x, 0) + log1p(e^-|x|).
#[inline(always)]
pub fn softplus<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let minus = o.negated(a);
    let e = exp(o, minus);
    let rest = log1p(o, e);
    let zero = o.number(0.0);
    // The constant is the first operand, so NaN is the result.
    let positive = o.greater(zero, x);
    o.add(positive, rest)
}

/// e^(log|x| / 3), then one step of Newton's method.
#[inline(always)]
pub fn cbrt<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, third) = (o.magnitude(x), o.number(1.0 / 3.0));
    let l = log(o, a);
    let l = o.mul(l, third);
    let y = exp(o, l);
    let square = o.mul(y, y);
    let quotient = o.div(a, square);
    let step = o.sub(quotient, y);
    let y = o.fma(step, third, y);
    let y = o.with_sign(y, x);
    let (zero, infinity) = (o.number(0.0), o.number(f64::INFINITY));
    let plain = o.less(zero, a);
    let y = o.select(plain, y, x);
    let finite = o.less(a, infinity);
    o.select(finite, y, x)
}

/// The product of two numbers, each given as a large and a small part.
#[inline(always)]
fn long_product<O: Ops>(o: &mut O, a: (O::F, O::F), c: (O::F, O::F)) -> (O::F, O::F) {
    let (high, low) = product(o, a.0, c.0);
    let low = o.fma(a.0, c.1, low);
    let low = o.fma(a.1, c.0, low);
    sum(o, high, low)
}

/// The logarithm to base 2 of a positive number in two parts, with about 10 bits more than one part has. The natural logarithm of
/// the mantissa 1 + f is 2 atanh(f / (2 + f)), whose first two terms are computed in two parts (after fdlibm's `e_pow.c`).
#[inline(always)]
fn long_log2<O: Ops>(o: &mut O, a: O::F) -> (O::F, O::F) {
    let fits = &<O::N as Family>::FITS;
    let (n, f) = parts(o, a);
    let (one, two) = (o.number(1.0), o.number(2.0));
    let (bottom, lost) = sum(o, two, f);
    let q = o.div(f, bottom);
    // The rounding error of the quotient: (f - q·bottom) / bottom.
    let minus = o.negated(q);
    let missing = o.fma(minus, bottom, f);
    let missing = o.fma(minus, lost, missing);
    let s = (q, o.div(missing, bottom));
    let u = long_product(o, s, s);
    let tail = o.polynomial(u.0, fits.pow);
    let tail = o.mul(tail, u.0);
    let (third, rest) = (o.number(fits.third[0]), o.number(fits.third[1]));
    let (high, low) = sum(o, third, tail);
    let low = o.add(low, rest);
    let series = long_product(o, u, (high, low));
    let (high, low) = sum(o, one, series.0);
    let low = o.add(low, series.1);
    let atanh = long_product(o, s, (high, low));
    let (high, low) = (o.number(2.0 * fits.log2_e[0]), o.number(2.0 * fits.log2_e[1]));
    let (high, low) = long_product(o, atanh, (high, low));
    let (high, more) = sum(o, n, high);
    (high, o.add(low, more))
}

/// x^y as in C: 1 where x is 1 or y is 0, even with NaN; NaN for finite x below 0 unless y is an integer.
#[inline(always)]
pub fn pow<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    let (zero, one, infinity) = (o.number(0.0), o.number(1.0), o.number(f64::INFINITY));
    let a = o.magnitude(x);
    let (high, low) = long_log2(o, a);
    let high = ends(o, a, a, high);
    let (p, lost) = product(o, high, y);
    let lost = o.fma(low, y, lost);
    // Beyond the range of exponents the second part is insignificant, and may be NaN.
    let (size, limit) = (o.magnitude(p), o.number(4.0 * <O::N as Family>::BIAS));
    let counts = o.less(size, limit);
    let lost = o.select(counts, lost, zero);
    let p = within_exponents(o, p);
    let n = o.round(p, Rounding::HalfToEven);
    let r = o.sub(p, n);
    let r = o.add(r, lost);
    let ln2 = o.number(LN2);
    let r = o.mul(r, ln2);
    let e = exp_of(o, r);
    let size = o.scale(e, n);
    let same = o.equal(a, one);
    let size = o.select(same, one, size);
    // An integer y is odd if y / 2 is not an integer.
    let whole = o.round(y, Rounding::Down);
    let whole = o.equal(whole, y);
    let half = o.number(0.5);
    let half = o.mul(y, half);
    let below = o.round(half, Rounding::Down);
    let odd = o.unequal(below, half);
    let signed = o.with_sign(size, x);
    let value = o.select(odd, signed, size);
    let undefined = o.number(f64::NAN);
    let finite = o.less(a, infinity);
    let other = o.select(finite, undefined, size);
    let negative = o.less(x, zero);
    let other = o.select(negative, other, size);
    let value = o.select(whole, value, other);
    let (known, defined) = (o.equal(x, x), o.equal(y, y));
    let value = o.select(known, value, x);
    let value = o.select(defined, value, y);
    let unit = o.equal(x, one);
    let value = o.select(unit, one, value);
    let none = o.equal(y, zero);
    o.select(none, one, value)
}
