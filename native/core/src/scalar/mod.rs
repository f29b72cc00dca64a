//! Scalar functions, each written once for the interpreter of tiles and for generated code: no branches, no tables.

pub mod double;
pub mod functions;
pub mod inverse;
pub mod ops;
pub mod single;
pub mod special;
pub mod table;

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::dtype::Element;
use crate::isa::Level;
use ops::{Ops, Plain};

/// `x` within [low, high]; NaN stays.
#[inline(always)]
fn clamp<O: Ops>(o: &mut O, x: O::F, low: f64, high: f64) -> O::F {
    // The constant comes first, for NaN.
    let (low, high) = (o.number(low), o.number(high));
    let x = o.greater(low, x);
    o.lesser(high, x)
}

pub trait Float:
    Element + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The nearest value of a number.
    fn from_f64(number: f64) -> Self;
    /// Fused where the level has it, else two roundings.
    fn mul_add<L: Level>(self, b: Self, c: Self) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
}

/// How the functions of a float are computed.
pub trait Family: Float {
    /// The bit of the sign.
    const SIGN: u64;
    fn exp<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn expm1<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn log<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn tanh<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
    fn logistic<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F;
}

macro_rules! float {
    ($t:ident, $module:ident, $sign:expr, $($name:ident)+) => {
        impl Float for $t {
            #[inline(always)]
            fn from_f64(number: f64) -> Self {
                number as $t
            }

            #[inline(always)]
            fn mul_add<L: Level>(self, b: Self, c: Self) -> Self {
                if L::FMA {
                    $t::mul_add(self, b, c)
                } else {
                    self * b + c
                }
            }

            #[inline(always)]
            fn exp(self) -> Self {
                functions::exp(&mut Plain::<$t>::new(), self)
            }

            #[inline(always)]
            fn log(self) -> Self {
                functions::log(&mut Plain::<$t>::new(), self)
            }
        }

        impl Family for $t {
            const SIGN: u64 = $sign;
            $(
                #[inline(always)]
                fn $name<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F {
                    $module::$name(o, x)
                }
            )+
        }
    };
}

float!(f32, single, 1 << 31, exp expm1 log tanh logistic);
float!(f64, double, 1 << 63, exp expm1 log tanh logistic);
