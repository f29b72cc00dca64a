//! The functions in f32: fused polynomials, each at most 2 ULP from the exact value (see the tests of `scalar`).

use super::clamp;
pub use super::inverse::{acos, acosh, asin, asinh, atan, atanh, cbrt, cosh, erf_inv, erfc, exp2, log2, sinh};
use super::ops::{Ops, Steps};

/// Rounds to an integer when added and taken away: 1.5·2^23.
const MAGIC: f64 = 12582912.0;
const LN2_HIGH: f64 = 0.693_147_182_464_599_6;
const LN2_LOW: f64 = -1.904_654_323_148_236e-9;
const LN2: f64 = std::f64::consts::LN_2;

/// `n` and `r` with x = n·ln2 + r and |r| at most ln2 / 2.
#[inline(always)]
fn reduce<O: Ops>(o: &mut O, x: O::F) -> (O::F, O::F) {
    let (scale, magic) = (o.number(std::f64::consts::LOG2_E), o.number(MAGIC));
    let shifted = o.fma(x, scale, magic);
    let n = o.sub(shifted, magic);
    let high = o.number(-LN2_HIGH);
    let r = o.fma(n, high, x);
    let low = o.number(-LN2_LOW);
    let r = o.fma(n, low, r);
    (n, r)
}

#[inline(always)]
pub fn exp<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let x = clamp(o, x, -104.0, 89.0);
    let (n, r) = reduce(o, x);
    let p = exp_of_remainder(o, r);
    o.scale(p, n)
}

/// exp(r) for |r| at most ln2 / 2.
#[inline(always)]
pub fn exp_of_remainder<O: Ops>(o: &mut O, r: O::F) -> O::F {
    o.polynomial(r, &[1.378_059_39e-3, 8.373_124_52e-3, 4.166_953_64e-2, 1.666_647_20e-1, 4.999_998_51e-1, 1.0, 1.0])
}

/// exp(r) - 1 for |r| at most ln2 / 2.
#[inline(always)]
fn small_expm1<O: Ops>(o: &mut O, r: O::F) -> O::F {
    let p = o.polynomial(
        r,
        &[1.973_509_79e-4, 1.393_090_70e-3, 8.333_439_94e-3, 4.166_680_20e-2, 1.666_667_16e-1, 4.999_999_70e-1],
    );
    let square = o.mul(r, r);
    o.fma(p, square, r)
}

/// 2^n for integers whose power is a normal number.
#[inline(always)]
fn power<O: Ops>(o: &mut O, n: O::F) -> O::F {
    let shift = o.number(MAGIC + 127.0);
    let shifted = o.add(n, shift);
    let bits = o.to_bits(shifted);
    let bits = o.shift_left(bits, 23);
    o.of_bits(bits)
}

#[inline(always)]
pub fn expm1<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let clamped = clamp(o, x, -30.0, 89.0);
    let (n, r) = reduce(o, clamped);
    let m = small_expm1(o, r);
    // Half of the result, because 2^128 is no number.
    let one = o.number(1.0);
    let lower = o.sub(n, one);
    let scale = power(o, lower);
    let half = o.number(0.5);
    let rest = o.sub(scale, half);
    let y = o.fma(scale, m, rest);
    let y = o.add(y, y);
    o.with_sign(y, x)
}

/// (1 - e^-2|x|) / (1 + e^-2|x|), where the numerator keeps its digits near 0.
#[inline(always)]
pub fn tanh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let minus_two = o.number(-2.0);
    let double = o.mul(a, minus_two);
    let limit = o.number(-20.0);
    let double = o.greater(limit, double);
    let (n, r) = reduce(o, double);
    let m = small_expm1(o, r);
    let scale = power(o, n);
    let one = o.number(1.0);
    let (below, above) = (o.sub(one, scale), o.add(one, scale));
    let bottom = o.fma(scale, m, above);
    let minus = o.negated(scale);
    let top = o.fma(minus, m, below);
    let y = o.div(top, bottom);
    o.with_sign(y, x)
}

/// 1 / (1 + e^-x). Both sides of the fraction are taken times 2^-24, so that it reaches the subnormal numbers.
#[inline(always)]
pub fn logistic<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let x = clamp(o, x, -104.0, 70.0);
    let x = o.negated(x);
    let (n, r) = reduce(o, x);
    let m = small_expm1(o, r);
    let (shift, unit) = (o.number(24.0), o.number(5.960_464_477_539_063e-8));
    let n = o.sub(n, shift);
    let scale = power(o, n);
    let rest = o.fma(scale, m, unit);
    let bottom = o.add(rest, scale);
    o.div(unit, bottom)
}

#[inline(always)]
pub fn log<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (n, y) = log_parts(o, x);
    let (ln2, zero) = (o.number(LN2), o.number(0.0));
    let y = o.fma(n, ln2, y);
    let undefined = o.number(f64::NAN);
    let positive = o.less(zero, x);
    let y = o.select(positive, y, undefined);
    ends(o, x, x, y)
}

/// `n` and log(m) with x = m·2^n and m from 2/3 to 4/3.
#[inline(always)]
pub fn log_parts<O: Ops>(o: &mut O, x: O::F) -> (O::F, O::F) {
    let (normal, zero) = (o.number(f32::MIN_POSITIVE as f64), o.number(0.0));
    let subnormal = o.less(x, normal);
    let larger = o.number(8388608.0);
    let scaled = o.mul(x, larger);
    let scaled = o.select(subnormal, scaled, x);
    // Bits of 2/3 become those of 1, so that the exponent is that of a mantissa from 2/3 to 4/3.
    let bits = o.to_bits(scaled);
    let offset = o.integer(0x3f80_0000 - 0x3f2a_aaab);
    let moved = o.plus(bits, offset);
    let exponent = o.shift_right(moved, 23);
    let exponent_bits = o.shift_left(exponent, 23);
    let bias = o.integer(0x3f80_0000);
    let m = o.minus(bits, exponent_bits);
    let m = o.plus(m, bias);
    let m = o.of_bits(m);
    let n = counted(o, exponent);
    let missing = o.number(23.0);
    let missing = o.select(subnormal, missing, zero);
    let n = o.sub(n, missing);
    let one = o.number(1.0);
    let f = o.sub(m, one);
    (n, log1p_polynomial(o, f))
}

/// The exponent's field as a number without its bias.
#[inline(always)]
fn counted<O: Ops>(o: &mut O, exponent: O::I) -> O::F {
    let magic_bits = o.integer((MAGIC as f32).to_bits() as u64);
    let sum = o.plus(exponent, magic_bits);
    let sum = o.of_bits(sum);
    let shift = o.number(MAGIC + 127.0);
    o.sub(sum, shift)
}

/// Infinity stays, and the logarithm of 0 is minus infinity.
#[inline(always)]
pub fn ends<O: Ops>(o: &mut O, x: O::F, argument: O::F, y: O::F) -> O::F {
    let (infinity, zero) = (o.number(f64::INFINITY), o.number(0.0));
    let infinite = o.equal(x, infinity);
    let y = o.select(infinite, x, y);
    let nothing = o.equal(argument, zero);
    let lowest = o.number(f64::NEG_INFINITY);
    o.select(nothing, lowest, y)
}

/// log(1 + f) for f from -1/3 to 1/3.
#[inline(always)]
fn log1p_polynomial<O: Ops>(o: &mut O, f: O::F) -> O::F {
    let s = o.mul(f, f);
    let odd = o.polynomial(s, &[0.140869141, 0.139814854, 0.200120345]);
    let even = o.polynomial(s, &[-0.130310059, -0.121484190, -0.166846052, -0.249996200]);
    let r = o.fma(odd, f, even);
    let third = o.number(0.333331972);
    let r = o.fma(r, f, third);
    let half = o.number(-0.5);
    let r = o.fma(r, f, half);
    o.fma(r, s, f)
}

#[inline(always)]
pub fn log1p<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, zero) = (o.number(1.0), o.number(0.0));
    let u = o.add(x, one);
    let bits = o.to_bits(u);
    let offset = o.integer(0x3f80_0000 - 0x3f2a_aaab);
    let moved = o.plus(bits, offset);
    let exponent = o.shift_right(moved, 23);
    let n = counted(o, exponent);
    // (1 + x)·2^-n - 1 from x itself, so that no digit of it is lost.
    let four = o.integer(((127 + 2) << 23) + (127 << 23));
    let scale = o.shift_left(exponent, 23);
    let scale = o.minus(four, scale);
    let scale = o.of_bits(scale);
    let quarter = o.number(0.25);
    let scale = o.mul(scale, quarter);
    let less = o.sub(scale, one);
    let f = o.fma(x, scale, less);
    let y = log1p_polynomial(o, f);
    let ln2 = o.number(LN2);
    let y = o.fma(n, ln2, y);
    let undefined = o.number(f64::NAN);
    let positive = o.less(zero, u);
    let y = o.select(positive, y, undefined);
    let y = ends(o, x, u, y);
    // Keeps the sign of zero, and tiny values that leave no trace in 1 + x.
    let nothing = o.equal(x, zero);
    o.select(nothing, x, y)
}

/// Polynomials of N. Juffa (one of x², one in the exponent of 1 - exp).
#[inline(always)]
pub fn erf<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let limit = o.number(4.0);
    let a = o.lesser(limit, a);
    let s = o.mul(x, x);
    let small = o.polynomial(
        s,
        &[-5.967_617_03e-4, 4.991_194_23e-3, -2.676_813_49e-2, 1.128_199_25e-1, -3.761_253_36e-1, 1.283_791_66e-1],
    );
    let small = o.fma(small, x, x);
    let t = o.mul(a, a);
    let high = o.polynomial(a, &[-1.728_534_70e-5, 3.831_974_20e-4]);
    let low = o.polynomial(a, &[-3.883_964_38e-3, 2.425_462_19e-2]);
    let r = o.fma(high, t, low);
    let c = o.number(-1.067_778_77e-1);
    let r = o.fma(r, a, c);
    let c = o.number(-6.348_466_87e-1);
    let r = o.fma(r, a, c);
    let c = o.number(-1.287_175_12e-1);
    let r = o.fma(r, a, c);
    let minus = o.negated(a);
    let r = o.fma(r, a, minus);
    let e = exp(o, r);
    let one = o.number(1.0);
    let large = o.sub(one, e);
    let large = o.with_sign(large, x);
    let boundary = o.number(0.927734375);
    let far = o.less(boundary, a);
    o.select(far, large, small)
}

/// log(1 + e^x) = max(x, 0) + log1p(e^-|x|).
#[inline(always)]
pub fn softplus<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let minus = o.negated(a);
    let e = exp(o, minus);
    let rest = log1p(o, e);
    let zero = o.number(0.0);
    // The constant comes first: then NaN stays.
    let positive = o.greater(zero, x);
    o.add(positive, rest)
}
