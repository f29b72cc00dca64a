//! The few operations in which scalar functions are written; a processor does each of them on whole vectors.
//!
//! `Plain` runs them on one number (the tile interpreter, whose loops the compiler vectorises); `generate::Lanes` writes
//! them as instructions. Both round every operation once, so they give the same bits.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::fits::Fits;
use crate::dtype::Element;
use crate::isa::Level;

/// How [`Ops::round`] rounds to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    HalfToEven,
    Down,
    Up,
}

/// Operations on floats `F`, the integers `I` of their bits, and conditions `M`.
pub trait Ops {
    type N: Family;
    type F: Copy;
    type I: Copy;
    type M: Copy;
    fn number(&mut self, value: f64) -> Self::F;
    fn integer(&mut self, bits: u64) -> Self::I;
    fn add(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn div(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn sqrt(&mut self, a: Self::F) -> Self::F;
    /// `a·b + c`, rounded once.
    fn fma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a` if a < b, else `b`: so `b` if an operand is NaN or both are zero.
    fn lesser(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a` if a > b, else `b`.
    fn greater(&mut self, a: Self::F, b: Self::F) -> Self::F;
    fn round(&mut self, a: Self::F, how: Rounding) -> Self::F;
    /// `a·2^n` for an integer `n`, rounded once if |a| is from 2^-2 to 2^2 and |n| is below twice the range of exponents.
    fn scale(&mut self, a: Self::F, n: Self::F) -> Self::F;
    fn less(&mut self, a: Self::F, b: Self::F) -> Self::M;
    fn less_equal(&mut self, a: Self::F, b: Self::F) -> Self::M;
    fn equal(&mut self, a: Self::F, b: Self::F) -> Self::M;
    fn unequal(&mut self, a: Self::F, b: Self::F) -> Self::M;
    fn select(&mut self, condition: Self::M, a: Self::F, b: Self::F) -> Self::F;
    fn to_bits(&mut self, a: Self::F) -> Self::I;
    fn of_bits(&mut self, a: Self::I) -> Self::F;
    /// The integer sum, which wraps.
    fn plus(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn minus(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn and(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn or(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    fn shift_left(&mut self, a: Self::I, by: u32) -> Self::I;
    /// Shifts zeros in.
    fn shift_right(&mut self, a: Self::I, by: u32) -> Self::I;
}

/// Runs operations on one number.
#[derive(Default)]
pub struct Plain<T>(std::marker::PhantomData<T>);

impl<T> Plain<T> {
    #[inline(always)]
    pub fn new() -> Plain<T> {
        Plain(std::marker::PhantomData)
    }
}

macro_rules! plain {
    ($t:ident, $bits:ident, $signed:ident, $mantissa:expr, $bias:expr, $magic:expr) => {
        #[allow(clippy::inline_always)]
        impl Ops for Plain<$t> {
            type N = $t;
            type F = $t;
            type I = $bits;
            type M = bool;

            plain!(@ number(value: f64) -> $t { value as $t });
            plain!(@ integer(bits: u64) -> $bits { bits as $bits });
            plain!(@ add(a: $t, b: $t) -> $t { a + b });
            plain!(@ sub(a: $t, b: $t) -> $t { a - b });
            plain!(@ mul(a: $t, b: $t) -> $t { a * b });
            plain!(@ div(a: $t, b: $t) -> $t { a / b });
            plain!(@ sqrt(a: $t) -> $t { a.sqrt() });
            plain!(@ fma(a: $t, b: $t, c: $t) -> $t { a.mul_add(b, c) });
            plain!(@ lesser(a: $t, b: $t) -> $t { if a < b { a } else { b } });
            plain!(@ greater(a: $t, b: $t) -> $t { if a > b { a } else { b } });
            plain!(@ less(a: $t, b: $t) -> bool { a < b });
            plain!(@ less_equal(a: $t, b: $t) -> bool { a <= b });
            plain!(@ equal(a: $t, b: $t) -> bool { a == b });
            plain!(@ unequal(a: $t, b: $t) -> bool { a != b });
            plain!(@ select(condition: bool, a: $t, b: $t) -> $t { if condition { a } else { b } });
            plain!(@ to_bits(a: $t) -> $bits { a.to_bits() });
            plain!(@ of_bits(a: $bits) -> $t { $t::from_bits(a) });
            plain!(@ plus(a: $bits, b: $bits) -> $bits { a.wrapping_add(b) });
            plain!(@ minus(a: $bits, b: $bits) -> $bits { a.wrapping_sub(b) });
            plain!(@ and(a: $bits, b: $bits) -> $bits { a & b });
            plain!(@ or(a: $bits, b: $bits) -> $bits { a | b });
            plain!(@ xor(a: $bits, b: $bits) -> $bits { a ^ b });
            plain!(@ shift_left(a: $bits, by: u32) -> $bits { a << by });
            plain!(@ shift_right(a: $bits, by: u32) -> $bits { a >> by });

            #[inline(always)]
            fn round(&mut self, a: $t, how: Rounding) -> $t {
                match how {
                    Rounding::HalfToEven => a.round_ties_even(),
                    Rounding::Down => a.floor(),
                    Rounding::Up => a.ceil(),
                }
            }

            // Two factors, so that each is a normal number: the first product is exact, the second rounds.
            #[inline(always)]
            fn scale(&mut self, a: $t, n: $t) -> $t {
                let n = ((n + $magic).to_bits() as $signed).wrapping_sub(($magic as $t).to_bits() as $signed);
                let half = n >> 1;
                let power = |n: $signed| $t::from_bits((n.wrapping_add($bias) as $bits) << $mantissa);
                a * power(half) * power(n.wrapping_sub(half))
            }
        }
    };
    (@ $name:ident($($a:ident: $t:ty),*) -> $r:ty $body:block) => {
        #[inline(always)]
        fn $name(&mut self, $($a: $t),*) -> $r $body
    };
}

plain!(f32, u32, i32, 23, 127, 12582912.0);
plain!(f64, u64, i64, 52, 1023, 6755399441055744.0);

/// Steps that several functions share.
pub trait Steps: Ops {
    /// A polynomial by Horner's rule with fused steps, highest coefficient first.
    #[inline(always)]
    fn polynomial(&mut self, x: Self::F, coefficients: &[f64]) -> Self::F {
        let mut value = self.number(coefficients[0]);
        for c in &coefficients[1..] {
            let c = self.number(*c);
            value = self.fma(value, x, c);
        }
        value
    }

    /// A polynomial with two roundings per step, lowest coefficient first.
    #[inline(always)]
    fn unfused(&mut self, x: Self::F, coefficients: &[f64]) -> Self::F {
        let last = coefficients.len() - 1;
        let mut value = self.number(coefficients[last]);
        for c in coefficients[..last].iter().rev() {
            let (c, product) = (self.number(*c), self.mul(x, value));
            value = self.add(c, product);
        }
        value
    }

    #[inline(always)]
    fn magnitude(&mut self, x: Self::F) -> Self::F {
        let (bits, mask) = (self.to_bits(x), self.integer(!<Self::N as Family>::SIGN));
        let cleared = self.and(bits, mask);
        self.of_bits(cleared)
    }

    #[inline(always)]
    fn negated(&mut self, x: Self::F) -> Self::F {
        let (bits, mask) = (self.to_bits(x), self.integer(<Self::N as Family>::SIGN));
        let flipped = self.xor(bits, mask);
        self.of_bits(flipped)
    }

    /// A value that is not negative, with the sign of another.
    #[inline(always)]
    fn with_sign(&mut self, value: Self::F, of: Self::F) -> Self::F {
        let (bits, mask) = (self.to_bits(of), self.integer(<Self::N as Family>::SIGN));
        let sign = self.and(bits, mask);
        let value = self.to_bits(value);
        let both = self.or(value, sign);
        self.of_bits(both)
    }

    /// 2^n for integers n, if 2^n is a normal number.
    #[inline(always)]
    fn power(&mut self, n: Self::F) -> Self::F {
        let shift = self.number(<Self::N as Family>::MAGIC + <Self::N as Family>::BIAS);
        let shifted = self.add(n, shift);
        let bits = self.to_bits(shifted);
        let bits = self.shift_left(bits, <Self::N as Family>::MANTISSA);
        self.of_bits(bits)
    }
}

impl<O: Ops> Steps for O {}

/// Clamps `x` to [low, high]; NaN gives NaN.
#[inline(always)]
pub fn clamp<O: Ops>(o: &mut O, x: O::F, low: f64, high: f64) -> O::F {
    // The constant is the first operand, so NaN is the result.
    let (low, high) = (o.number(low), o.number(high));
    let x = o.greater(low, x);
    o.lesser(high, x)
}

pub trait Float:
    Element + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The nearest value of a number.
    fn from_f64(number: f64) -> Self;
    /// a·b + c with one rounding if the level has fused multiply-adds, else with two.
    fn mul_add<L: Level>(self, b: Self, c: Self) -> Self;
    fn decay(self) -> Self;
    fn log(self) -> Self;
}

/// How the functions of a float are computed.
pub trait Family: Float {
    /// The sign bit.
    const SIGN: u64;
    /// Bits of the significand; `MANTISSA` is how many of them are stored.
    const BITS: i32;
    const MANTISSA: u32;
    const BIAS: f64;
    /// The least normal number.
    const LEAST: f64;
    /// Adding and subtracting this number rounds to an integer: 1.5·2^MANTISSA.
    const MAGIC: f64;
    const MAGIC_BITS: u64;
    /// e^x is 0 below the first and infinite above the second.
    const EXP: [f64; 2];
    /// Bits of the least mantissa to which logarithms reduce their argument.
    const START: u64;
    const FITS: Fits;
    /// `n` and e^r, where x = n·ln2 + r and |r| is at most ln2 / 2.
    fn parts<O: Ops<N = Self>>(o: &mut O, x: O::F) -> (O::F, O::F);
    fn expm1<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn tanh<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn logistic<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn erf<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn erfc<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn erf_inv<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    /// exp(r) for |r| at most ln2 / 2.
    fn exp_of<O: Ops<N = Self>>(o: &mut O, r: O::F) -> O::F;
    /// log(1 + f) + n·ln2 for 1 + f from [`Self::START`] to twice that.
    fn log_of<O: Ops<N = Self>>(o: &mut O, n: O::F, f: O::F) -> O::F;
    /// log gamma(a) for `a` from 0. For `a` below 1 the condition holds, and the result is log gamma(1 + a).
    fn lgamma_of<O: Ops<N = Self>>(o: &mut O, a: O::F) -> (O::M, O::F);
    /// digamma(a), with the condition as in `lgamma_of`.
    fn digamma_of<O: Ops<N = Self>>(o: &mut O, a: O::F) -> (O::M, O::F);
}

macro_rules! by_type {
    ($($name:ident)+) => { $(
        #[inline(always)]
        pub fn $name<O: Ops>(o: &mut O, x: O::F) -> O::F {
            <O::N as Family>::$name(o, x)
        }
    )+ };
}
by_type!(expm1 tanh logistic erf erfc erf_inv exp_of);

#[inline(always)]
pub fn exp<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let [low, high] = <O::N as Family>::EXP;
    let x = clamp(o, x, low, high);
    let (n, p) = <O::N as Family>::parts(o, x);
    o.scale(p, n)
}

/// e^a / 2 for `a` from 0; it is finite for some `a` whose e^a is infinite.
#[inline(always)]
pub fn half_exp<O: Ops>(o: &mut O, a: O::F) -> O::F {
    let [low, high] = <O::N as Family>::EXP;
    let a = clamp(o, a, low, high + 1.0);
    let (n, p) = <O::N as Family>::parts(o, a);
    let one = o.number(1.0);
    let n = o.sub(n, one);
    o.scale(p, n)
}

/// e^x for x up to 88, with the bits of `exp` in fewer steps; 0 if e^x is nearly subnormal, since subnormal numbers take processors a
/// hundred times as long.
#[inline(always)]
pub fn decay<O: Ops>(o: &mut O, x: O::F) -> O::F {
    let low = o.number((1.5 - <O::N as Family>::BIAS) * std::f64::consts::LN_2);
    let inside = o.greater(low, x);
    let (n, p) = <O::N as Family>::parts(o, inside);
    let (scale, zero, outside) = (o.power(n), o.number(0.0), o.less(x, low));
    let y = o.mul(p, scale);
    o.select(outside, zero, y)
}

/// log(1 + f) + n·ln2.
#[inline(always)]
pub fn log_of<O: Ops>(o: &mut O, n: O::F, f: O::F) -> O::F {
    <O::N as Family>::log_of(o, n, f)
}
