//! Scalar functions, each written once for the interpreter of tiles and for generated code: no branches, no tables.

pub mod double;
pub mod errors;
mod fits;
pub mod functions;
pub mod gamma;
pub mod inverse;
pub mod ops;
pub mod powers;
pub mod single;
pub mod special;
pub mod table;
pub mod trigonometric;

use crate::isa::Level;
pub use ops::{Family, Float};
use ops::{Ops, Plain};

macro_rules! float {
    ($t:ident, $module:ident, $bits:expr, $start:expr, $fits:expr, $exp:expr, $($name:ident)+) => {
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
            fn decay(self) -> Self {
                functions::decay(&mut Plain::<$t>::new(), self)
            }

            #[inline(always)]
            fn log(self) -> Self {
                functions::log(&mut Plain::<$t>::new(), self)
            }
        }

        impl Family for $t {
            const SIGN: u64 = 1 << (8 * size_of::<$t>() - 1);
            const BITS: i32 = $bits;
            const MANTISSA: u32 = $bits - 1;
            const BIAS: f64 = ($t::MAX_EXP - 1) as f64;
            const LEAST: f64 = $t::MIN_POSITIVE as f64;
            const MAGIC: f64 = 1.5 * (1u64 << ($bits - 1)) as f64;
            const MAGIC_BITS: u64 = (Self::MAGIC as $t).to_bits() as u64;
            const START: u64 = $start;
            const FITS: fits::Fits = $fits;
            const EXP: [f64; 2] = $exp;

            #[inline(always)]
            fn parts<O: Ops<N = Self>>(o: &mut O, x: O::F) -> (O::F, O::F) {
                $module::parts(o, x)
            }

            #[inline(always)]
            fn log_of<O: Ops<N = Self>>(o: &mut O, n: O::F, f: O::F) -> O::F {
                $module::log_of(o, n, f)
            }

            #[inline(always)]
            fn lgamma_of<O: Ops<N = Self>>(o: &mut O, a: O::F) -> (O::M, O::F) {
                $module::lgamma_of(o, a)
            }

            #[inline(always)]
            fn digamma_of<O: Ops<N = Self>>(o: &mut O, a: O::F) -> (O::M, O::F) {
                $module::digamma_of(o, a)
            }
            $(
                #[inline(always)]
                fn $name<O: Ops<N = Self>>(o: &mut O, x: O::F) -> O::F {
                    $module::$name(o, x)
                }
            )+
        }
    };
}

// Mantissas begin at 2/3 in f32, and at sqrt(2)/2 in f64.
float!(f32, single, 24, 0x3f2a_aaab, fits::SINGLE, [-104.0, 89.0], expm1 tanh logistic erf erfc erf_inv exp_of);
float!(f64, double, 53, 0x3fe6_a09e_0000_0000, fits::DOUBLE, [-746.0, 710.0], expm1 tanh logistic erf erfc erf_inv exp_of);
