//! The functions in f32: fused polynomials, each at most 2 ULP from the exact value (see the tests of `scalar`).

pub use super::errors::single::{erf, erf_inv, erfc};
pub use super::gamma::single::{digamma_of, lgamma_of};
use super::ops::{clamp, Ops, Steps};

/// Adding and subtracting this number, 1.5·2^23, rounds to an integer.
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

/// `n` and exp(r).
#[inline(always)]
pub fn parts<O: Ops>(o: &mut O, x: O::F) -> (O::F, O::F) {
    let (n, r) = reduce(o, x);
    (n, exp_of(o, r))
}

/// exp(r) for |r| at most ln2 / 2.
#[inline(always)]
pub fn exp_of<O: Ops>(o: &mut O, r: O::F) -> O::F {
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

#[inline(always)]
pub fn expm1<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let clamped = clamp(o, x, -30.0, 89.0);
    let (n, r) = reduce(o, clamped);
    let m = small_expm1(o, r);
    // Half of the result is computed first, because 2^128 is not representable.
    let one = o.number(1.0);
    let lower = o.sub(n, one);
    let scale = o.power(lower);
    let half = o.number(0.5);
    let rest = o.sub(scale, half);
    let y = o.fma(scale, m, rest);
    let y = o.add(y, y);
    o.with_sign(y, x)
}

/// (1 - e^-2|x|) / (1 + e^-2|x|), whose numerator keeps its relative precision near 0.
#[inline(always)]
pub fn tanh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let minus_two = o.number(-2.0);
    let double = o.mul(a, minus_two);
    let limit = o.number(-20.0);
    let double = o.greater(limit, double);
    let (n, r) = reduce(o, double);
    let m = small_expm1(o, r);
    let scale = o.power(n);
    let one = o.number(1.0);
    let (below, above) = (o.sub(one, scale), o.add(one, scale));
    let bottom = o.fma(scale, m, above);
    let minus = o.negated(scale);
    let top = o.fma(minus, m, below);
    let y = o.div(top, bottom);
    o.with_sign(y, x)
}

/// 1 / (1 + e^-x). Numerator and denominator are multiplied by 2^-24, so that results may be subnormal.
#[inline(always)]
pub fn logistic<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let x = clamp(o, x, -104.0, 70.0);
    let x = o.negated(x);
    let (n, r) = reduce(o, x);
    let m = small_expm1(o, r);
    let (shift, unit) = (o.number(24.0), o.number(5.960_464_477_539_063e-8));
    let n = o.sub(n, shift);
    let scale = o.power(n);
    let rest = o.fma(scale, m, unit);
    let bottom = o.add(rest, scale);
    o.div(unit, bottom)
}

/// log(1 + f) + n·ln2.
#[inline(always)]
pub fn log_of<O: Ops>(o: &mut O, n: O::F, f: O::F) -> O::F {
    let (y, ln2) = (log1p_polynomial(o, f), o.number(LN2));
    o.fma(n, ln2, y)
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
