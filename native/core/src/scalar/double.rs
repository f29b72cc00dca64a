//! The functions in f64: argument reductions and polynomials of fdlibm, without branches; errors are below 1e-15.

pub use super::errors::double::{erf, erf_inv, erfc};
pub use super::gamma::double::{digamma_of, lgamma_of};
use super::ops::{clamp, exp, Ops, Steps};

const MAGIC: f64 = 6755399441055744.0;
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

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
    (n, remainder(o, hi, lo))
}

/// exp(r) - 1 for r = hi - lo of at most ln2 / 2.
#[inline(always)]
fn remainder<O: Ops>(o: &mut O, hi: O::F, lo: O::F) -> O::F {
    let r = o.sub(hi, lo);
    let t = o.mul(r, r);
    let p = o.unfused(
        t,
        &[
            1.666_666_666_666_660_2e-1, -2.777_777_777_701_559_3e-3, 6.613_756_321_437_934e-5,
            -1.653_390_220_546_525_2e-6, 4.138_136_797_057_238_5e-8,
        ],
    );
    let tp = o.mul(t, p);
    let c = o.sub(r, tp);
    let two = o.number(2.0);
    let (top, bottom) = (o.mul(r, c), o.sub(two, c));
    let m = o.div(top, bottom);
    let m = o.sub(m, lo);
    o.add(m, hi)
}

/// exp(r) for |r| at most ln2 / 2.
#[inline(always)]
pub fn exp_of<O: Ops>(o: &mut O, r: O::F) -> O::F {
    let (one, zero) = (o.number(1.0), o.number(0.0));
    let m = remainder(o, r, zero);
    o.add(one, m)
}

/// `n` and exp(r).
#[inline(always)]
pub fn parts<O: Ops>(o: &mut O, x: O::F) -> (O::F, O::F) {
    let (n, m) = reduce(o, x);
    let one = o.number(1.0);
    (n, o.add(one, m))
}

#[inline(always)]
pub fn expm1<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let clamped = clamp(o, x, -50.0, 710.0);
    let (n, m) = reduce(o, clamped);
    // 2^(n-1): the magic number includes the bias.
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

/// log(1 + f) + n·ln2 for 1 + f from sqrt(2) / 2 to sqrt(2).
#[inline(always)]
pub fn log_of<O: Ops>(o: &mut O, n: O::F, f: O::F) -> O::F {
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
