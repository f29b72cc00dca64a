//! The functions in f64: fdlibm's reductions and polynomials, without branches; errors stay below 1e-15.

use super::clamp;
use super::ops::{Ops, Steps};

const MAGIC: f64 = 6755399441055744.0;
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
const ONE_BITS: u64 = 1023 << 52;
/// High word of sqrt(2) / 2.
const HALF_SQRT2: u64 = 0x3fe6_a09e_0000_0000;

/// `n` and exp(r) - 1, with x = n·ln2 + r.
#[inline(always)]
fn reduce<O: Ops>(o: &mut O, x: O::F) -> (O::F, O::F) {
    let (scale, magic) = (o.number(std::f64::consts::LOG2_E), o.number(MAGIC));
    let shifted = o.mul(x, scale);
    let shifted = o.add(shifted, magic);
    let n = o.sub(shifted, magic);
    let (high, low) = (o.number(LN2_HIGH), o.number(LN2_LOW));
    let hi = o.mul(n, high);
    let hi = o.sub(x, hi);
    let lo = o.mul(n, low);
    let r = o.sub(hi, lo);
    let t = o.mul(r, r);
    let p = o.unfused(
        t,
        &[
            1.666_666_666_666_660_2e-1,
            -2.777_777_777_701_559_3e-3,
            6.613_756_321_437_934e-5,
            -1.653_390_220_546_525_2e-6,
            4.138_136_797_057_238_5e-8,
        ],
    );
    let tp = o.mul(t, p);
    let c = o.sub(r, tp);
    let two = o.number(2.0);
    let (top, bottom) = (o.mul(r, c), o.sub(two, c));
    let m = o.div(top, bottom);
    let m = o.sub(m, lo);
    (n, o.add(m, hi))
}

#[inline(always)]
pub fn exp<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let x = clamp(o, x, -746.0, 710.0);
    let (n, m) = reduce(o, x);
    let one = o.number(1.0);
    let m = o.add(one, m);
    o.scale(m, n)
}

#[inline(always)]
pub fn expm1<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let clamped = clamp(o, x, -50.0, 710.0);
    let (n, m) = reduce(o, clamped);
    // 2^(n-1): the magic number brings the bias with it.
    let shift = o.number(MAGIC + 1022.0);
    let power = o.add(n, shift);
    let power = o.to_bits(power);
    let power = o.shift_left(power, 52);
    let power = o.of_bits(power);
    let half = o.number(0.5);
    let rest = o.sub(power, half);
    let y = o.mul(power, m);
    let y = o.add(y, rest);
    let y = o.add(y, y);
    let a = o.magnitude(x);
    let tiny = o.number(1e-17);
    let is_tiny = o.less(a, tiny);
    o.select(is_tiny, x, y)
}

#[inline(always)]
pub fn tanh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let double = o.add(a, a);
    let t = expm1(o, double);
    let (one, two, boundary) = (o.number(1.0), o.number(2.0), o.number(0.55));
    let bottom = o.add(t, two);
    let small = o.div(t, bottom);
    let large = o.div(two, bottom);
    let large = o.sub(one, large);
    let far = o.less(boundary, a);
    let r = o.select(far, large, small);
    o.with_sign(r, x)
}

#[inline(always)]
pub fn logistic<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let a = o.negated(a);
    let e = exp(o, a);
    let (zero, one) = (o.number(0.0), o.number(1.0));
    let negative = o.less(x, zero);
    let top = o.select(negative, e, one);
    let bottom = o.add(one, e);
    o.div(top, bottom)
}

#[inline(always)]
pub fn log<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (zero, one, normal) = (o.number(0.0), o.number(1.0), o.number(f64::MIN_POSITIVE));
    let subnormal = o.less(x, normal);
    let larger = o.number(1_152_921_504_606_846_976.0);
    let scaled = o.mul(x, larger);
    let scaled = o.select(subnormal, scaled, x);
    let bits = o.to_bits(scaled);
    let offset = o.integer(ONE_BITS - HALF_SQRT2);
    let moved = o.plus(bits, offset);
    let exponent = o.shift_right(moved, 52);
    let magic_bits = o.integer(MAGIC.to_bits());
    let n = o.plus(exponent, magic_bits);
    let n = o.of_bits(n);
    let biased = o.number(MAGIC + 1023.0);
    let n = o.sub(n, biased);
    let sixty = o.number(60.0);
    let missing = o.select(subnormal, sixty, zero);
    let n = o.sub(n, missing);
    let (mask, start) = (o.integer((1 << 52) - 1), o.integer(HALF_SQRT2));
    let mantissa = o.and(moved, mask);
    let mantissa = o.plus(mantissa, start);
    let m = o.of_bits(mantissa);
    let f = o.sub(m, one);
    let y = log1p_series(o, f, n);
    let undefined = o.number(f64::NAN);
    let positive = o.less(zero, x);
    let y = o.select(positive, y, undefined);
    let infinity = o.number(f64::INFINITY);
    let infinite = o.equal(x, infinity);
    let y = o.select(infinite, x, y);
    let nothing = o.equal(x, zero);
    let lowest = o.number(f64::NEG_INFINITY);
    o.select(nothing, lowest, y)
}

/// log(1 + f) + n·ln2.
#[inline(always)]
fn log1p_series<O: Ops>(o: &mut O, f: O::F, n: O::F) -> O::F {
    let (two, half) = (o.number(2.0), o.number(0.5));
    let bottom = o.add(two, f);
    let s = o.div(f, bottom);
    let z = o.mul(s, s);
    let w = o.mul(z, z);
    let odd = o.unfused(
        w,
        &[6.666_666_666_666_735e-1, 2.857_142_874_366_239e-1, 1.818_357_216_161_805e-1, 1.479_819_860_511_658_6e-1],
    );
    let even = o.unfused(w, &[3.999_999_999_940_942e-1, 2.222_219_843_214_978_4e-1, 1.531_383_769_920_937_3e-1]);
    let (odd, even) = (o.mul(z, odd), o.mul(w, even));
    let r = o.add(odd, even);
    let square = o.mul(half, f);
    let square = o.mul(square, f);
    let sum = o.add(square, r);
    let y = o.mul(s, sum);
    let (low, high) = (o.number(LN2_LOW), o.number(LN2_HIGH));
    let tail = o.mul(n, low);
    let y = o.add(y, tail);
    let y = o.sub(y, square);
    let y = o.add(y, f);
    let head = o.mul(n, high);
    o.add(y, head)
}

/// log(1 + e^x), by library functions.
pub fn library_softplus(x: f64) -> f64 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + libm::log1p(libm::exp(-x.abs()))
}
