//! The float functions of fused steps, in operations that the interpreter and generated code share.

pub use super::gamma::{digamma, lgamma};
pub use super::inverse::{acos, acosh, asin, asinh, atan, atan2, atanh, cosh, sinh};
pub use super::ops::{decay, erf, erf_inv, erfc, exp, expm1, half_exp, logistic, tanh};
use super::ops::{Ops, Rounding, Steps};
pub use super::powers::{cbrt, exp2, log, log1p, log2, pow, softplus};
pub use super::trigonometric::{cos, sin, tan};

/// Functions that are one operation.
macro_rules! operations {
    ($($name:ident($($x:ident)+) -> $out:ident = $operation:ident($($argument:expr),+);)+) => { $(
        #[inline(always)]
        pub fn $name<O: Ops>(o: &mut O, $($x: O::F),+) -> O::$out {
            o.$operation($($argument),+)
        }
    )+ };
}

operations! {
    neg(x) -> F = negated(x);
    abs(x) -> F = magnitude(x);
    sqrt(x) -> F = sqrt(x);
    floor(x) -> F = round(x, Rounding::Down);
    ceil(x) -> F = round(x, Rounding::Up);
    round(x) -> F = round(x, Rounding::HalfToEven);
    add(x y) -> F = add(x, y);
    sub(x y) -> F = sub(x, y);
    mul(x y) -> F = mul(x, y);
    div(x y) -> F = div(x, y);
    eq(x y) -> M = equal(x, y);
    ne(x y) -> M = unequal(x, y);
    lt(x y) -> M = less(x, y);
    le(x y) -> M = less_equal(x, y);
    gt(x y) -> M = less(y, x);
    ge(x y) -> M = less_equal(y, x);
}

/// -1 or 1; zeros and NaN are their own results.
#[inline(always)]
pub fn sign<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (zero, one, minus) = (o.number(0.0), o.number(1.0), o.number(-1.0));
    let below = o.less(x, zero);
    let y = o.select(below, minus, x);
    let above = o.less(zero, x);
    o.select(above, one, y)
}

#[inline(always)]
pub fn rsqrt<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let (one, root) = (o.number(1.0), o.sqrt(x));
    o.div(one, root)
}

/// Rounds towards zero; a zero has the sign of `x`.
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

/// The larger or smaller of two numbers; NaN if one is NaN; 0 is larger than -0.
macro_rules! extremes {
    ($($name:ident $pick:ident $both:ident)+) => { $(
        #[inline(always)]
        pub fn $name<O: Ops>(o: &mut O, x: O::F, y: O::F) -> O::F {
            let picked = o.$pick(x, y);
            let (a, b) = (o.to_bits(x), o.to_bits(y));
            let both = o.$both(a, b);
            let both = o.of_bits(both);
            let same = o.equal(x, y);
            let r = o.select(same, both, picked);
            let undefined = o.unequal(x, x);
            o.select(undefined, x, r)
        }
    )+ };
}
extremes! { max greater and min lesser or }
