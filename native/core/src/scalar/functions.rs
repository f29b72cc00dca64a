//! The float functions of fused steps, in operations that every way of running them shares.

pub use super::gamma::{digamma, lgamma};
pub use super::inverse::{acos, acosh, asin, asinh, atan, atan2, atanh, cosh, sinh};
pub use super::ops::{erf, erf_inv, erfc, exp, expm1, half_exp, logistic, tanh};
use super::ops::{Ops, Rounding, Steps};
pub use super::powers::{cbrt, exp2, log, log1p, log2, pow, softplus};
pub use super::trigonometric::{cos, sin, tan};

#[inline(always)]
pub fn neg<O: Ops>(o: &mut O, x: O::F) -> O::F {
    o.negated(x)
}

#[inline(always)]
pub fn abs<O: Ops>(o: &mut O, x: O::F) -> O::F {
    o.magnitude(x)
}

/// Keeps zeros and NaN.
#[inline(always)]
pub fn sign<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (zero, one, minus) = (o.number(0.0), o.number(1.0), o.number(-1.0));
    let below = o.less(x, zero);
    let y = o.select(below, minus, x);
    let above = o.less(zero, x);
    o.select(above, one, y)
}

#[inline(always)]
pub fn sqrt<O: Ops>(o: &mut O, x: O::F) -> O::F {
    o.sqrt(x)
}

#[inline(always)]
pub fn rsqrt<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, root) = (o.number(1.0), o.sqrt(x));
    o.div(one, root)
}

#[inline(always)]
pub fn floor<O: Ops>(o: &mut O, x: O::F) -> O::F {
    o.round(x, Rounding::Down)
}

#[inline(always)]
pub fn ceil<O: Ops>(o: &mut O, x: O::F) -> O::F {
    o.round(x, Rounding::Up)
}

#[inline(always)]
pub fn round<O: Ops>(o: &mut O, x: O::F) -> O::F {
    o.round(x, Rounding::HalfToEven)
}

/// Towards zero; keeps the sign of zero.
#[inline(always)]
pub fn trunc<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let a = o.magnitude(x);
    let whole = o.round(a, Rounding::Down);
    o.with_sign(whole, x)
}

#[inline(always)]
pub fn is_finite<O: Ops>(o: &mut O, x: O::F) -> O::M {
    let (a, infinity) = (o.magnitude(x), o.number(f64::INFINITY));
    o.less(a, infinity)
}

#[inline(always)]
pub fn add<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    o.add(x, y)
}

#[inline(always)]
pub fn sub<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    o.sub(x, y)
}

#[inline(always)]
pub fn mul<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    o.mul(x, y)
}

#[inline(always)]
pub fn div<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    o.div(x, y)
}

/// NaN wins, and 0 is larger than -0.
#[inline(always)]
pub fn max<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    let larger = o.greater(x, y);
    let (a, b) = (o.to_bits(x), o.to_bits(y));
    let both = o.and(a, b);
    let both = o.of_bits(both);
    let same = o.equal(x, y);
    let r = o.select(same, both, larger);
    let undefined = o.unequal(x, x);
    o.select(undefined, x, r)
}

/// NaN wins, and -0 is smaller than 0.
#[inline(always)]
pub fn min<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
    let smaller = o.lesser(x, y);
    let (a, b) = (o.to_bits(x), o.to_bits(y));
    let both = o.or(a, b);
    let both = o.of_bits(both);
    let same = o.equal(x, y);
    let r = o.select(same, both, smaller);
    let undefined = o.unequal(x, x);
    o.select(undefined, x, r)
}

#[inline(always)]
pub fn eq<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::M {
    o.equal(x, y)
}

#[inline(always)]
pub fn ne<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::M {
    o.unequal(x, y)
}

#[inline(always)]
pub fn lt<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::M {
    o.less(x, y)
}

#[inline(always)]
pub fn le<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::M {
    o.less_equal(x, y)
}

#[inline(always)]
pub fn gt<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::M {
    o.less(y, x)
}

#[inline(always)]
pub fn ge<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::M {
    o.less_equal(y, x)
}
