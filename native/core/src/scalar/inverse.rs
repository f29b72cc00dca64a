//! Inverse trigonometric and hyperbolic functions: odd polynomials for small arguments; square roots,
//! exponentials and logarithms for others.

use super::ops::{half_exp, Family, Ops, Steps};
use super::powers::{log, log1p};

const LN2: f64 = std::f64::consts::LN_2;

/// π/2 - y, or π - y with `twice`, in two parts.
#[inline(always)]
fn from_half_pi<O: Ops>(o: &mut O, y: O::F, twice: bool) -> O::F {
    let times = if twice { 2.0 } else { 1.0 };
    let [high, low] = <O::N as Family>::FITS.half_pi;
    let (high, low) = (o.number(times * high), o.number(times * low));
    let y = o.sub(y, low);
    o.sub(high, y)
}

/// `r + r·s·p(s)`.
#[inline(always)]
fn odd<O: Ops>(o: &mut O, r: O::F, s: O::F, coefficients: &[f64]) -> O::F {
    let p = o.polynomial(s, coefficients);
    let p = o.mul(p, s);
    o.fma(p, r, r)
}

#[inline(always)]
pub fn atan<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one) = (o.magnitude(x), o.number(1.0));
    let far = o.less(one, a);
    let inverse = o.div(one, a);
    let r = o.select(far, inverse, a);
    let s = o.mul(r, r);
    let y = odd(o, r, s, <O::N as Family>::FITS.atan);
    let beyond = from_half_pi(o, y, false);
    let y = o.select(far, beyond, y);
    o.with_sign(y, x)
}

/// Whether |x| is above 1/2, and asin(|x|), or asin(sqrt((1 - |x|) / 2)) if |x| is above 1/2.
#[inline(always)]
fn asin_parts<O: Ops>(o: &mut O, x: O::F) -> (O::M, O::F) {
    let (a, half, minus) = (o.magnitude(x), o.number(0.5), o.number(-0.5));
    let far = o.less(half, a);
    let (square, rest) = (o.mul(a, a), o.fma(minus, a, half));
    let s = o.select(far, rest, square);
    let root = o.sqrt(rest);
    let r = o.select(far, root, a);
    let y = odd(o, r, s, <O::N as Family>::FITS.asin);
    (far, y)
}

#[inline(always)]
pub fn asin<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (far, y) = asin_parts(o, x);
    let twice = o.add(y, y);
    let beyond = from_half_pi(o, twice, false);
    let y = o.select(far, beyond, y);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn acos<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (far, y) = asin_parts(o, x);
    let twice = o.add(y, y);
    let below = from_half_pi(o, twice, true);
    let zero = o.number(0.0);
    let negative = o.less(x, zero);
    let beyond = o.select(negative, below, twice);
    let y = o.with_sign(y, x);
    let near = from_half_pi(o, y, false);
    o.select(far, beyond, near)
}

#[inline(always)]
pub fn sinh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one, quarter) = (o.magnitude(x), o.number(1.0), o.number(0.25));
    let s = o.mul(a, a);
    let small = odd(o, a, s, <O::N as Family>::FITS.sinh);
    let h = half_exp(o, a);
    let rest = o.div(quarter, h);
    let large = o.sub(h, rest);
    let near = o.less(a, one);
    let y = o.select(near, small, large);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn cosh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, quarter) = (o.magnitude(x), o.number(0.25));
    let h = half_exp(o, a);
    let rest = o.div(quarter, h);
    o.add(h, rest)
}

/// log(2a) for large `a`; `y` for other numbers.
#[inline(always)]
fn log_of_twice<O: Ops>(o: &mut O, a: O::F, y: O::F) -> O::F {
    let (limit, ln2) = (o.number(1e9), o.number(LN2));
    let large = o.less(limit, a);
    let far = log(o, a);
    let far = o.add(far, ln2);
    o.select(large, far, y)
}

#[inline(always)]
pub fn asinh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one, half) = (o.magnitude(x), o.number(1.0), o.number(0.5));
    let s = o.mul(a, a);
    let small = odd(o, a, s, <O::N as Family>::FITS.asinh);
    let root = o.add(s, one);
    let root = o.sqrt(root);
    let bottom = o.add(root, one);
    let extra = o.div(s, bottom);
    let sum = o.add(a, extra);
    let large = log1p(o, sum);
    let large = log_of_twice(o, a, large);
    let near = o.less(a, half);
    let y = o.select(near, small, large);
    o.with_sign(y, x)
}

#[inline(always)]
pub fn acosh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, two) = (o.number(1.0), o.number(2.0));
    let t = o.sub(x, one);
    let product = o.add(t, two);
    let product = o.mul(t, product);
    let root = o.sqrt(product);
    let sum = o.add(t, root);
    let y = log1p(o, sum);
    let y = log_of_twice(o, x, y);
    let undefined = o.number(f64::NAN);
    let below = o.less(x, one);
    o.select(below, undefined, y)
}

#[inline(always)]
pub fn atanh<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (a, one, half) = (o.magnitude(x), o.number(1.0), o.number(0.5));
    let s = o.mul(a, a);
    let small = odd(o, a, s, <O::N as Family>::FITS.atanh);
    let (twice, rest) = (o.add(a, a), o.sub(one, a));
    let quotient = o.div(twice, rest);
    let large = log1p(o, quotient);
    let large = o.mul(large, half);
    let near = o.less(a, half);
    let y = o.select(near, small, large);
    o.with_sign(y, x)
}

/// The angle of (x, y): the arctangent of the smaller side over the larger one, moved to its octant.
#[inline(always)]
pub fn atan2<O: Ops>(o: &mut O, y: O::F, x: O::F) -> O::F {
    let (zero, one) = (o.number(0.0), o.number(1.0));
    let (a, b) = (o.magnitude(y), o.magnitude(x));
    let steep = o.less(b, a);
    let (top, bottom) = (o.select(steep, b, a), o.select(steep, a, b));
    let r = o.div(top, bottom);
    // First equal sides, which includes two infinite sides; then the origin.
    let same = o.equal(a, b);
    let r = o.select(same, one, r);
    let flat = o.equal(top, zero);
    let r = o.select(flat, zero, r);
    let s = o.mul(r, r);
    let angle = odd(o, r, s, <O::N as Family>::FITS.atan);
    // A zero of negative sign is to the left, too.
    let side = o.with_sign(one, x);
    let left = o.less(side, zero);
    let minus = o.negated(angle);
    let (upright, lying) = (o.select(left, angle, minus), o.select(left, minus, angle));
    let angle = o.select(steep, upright, lying);
    let [high, low] = <O::N as Family>::FITS.half_pi;
    let base = |o: &mut O, quarter: f64| {
        let (straight, quarter) = (o.number(2.0 * quarter), o.number(quarter));
        let lying = o.select(left, straight, zero);
        o.select(steep, quarter, lying)
    };
    let (high, low) = (base(o, high), base(o, low));
    let angle = o.add(angle, low);
    let angle = o.add(angle, high);
    let angle = o.with_sign(angle, y);
    let (known, defined) = (o.equal(x, x), o.equal(y, y));
    let angle = o.select(known, angle, x);
    o.select(defined, angle, y)
}
