//! Scalar functions written so that loops over them vectorise: no branches, no calls, no tables.
//!
//! The exponential and logarithm follow fdlibm's reductions (errors below 1 ULP, about 2 for the functions built on
//! them). The rest comes from the `libm` crate, whose bits are the same on every system.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::dtype::Element;
use crate::isa::Level;

pub trait Float:
    Element + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    fn of(value: f64) -> Self;
    fn abs(self) -> Self;
    /// Fused where the level has it, else two roundings.
    fn mul_add<L: Level>(self, b: Self, c: Self) -> Self;
    fn exp(self) -> Self;
    fn expm1(self) -> Self;
    fn log(self) -> Self;

    #[inline(always)]
    fn logistic(self) -> Self {
        let e = (-self.abs()).exp();
        let top = if self < Self::ZERO { e } else { Self::ONE };
        top / (Self::ONE + e)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        let two = Self::of(2.0);
        let t = (two * self.abs()).expm1();
        let small = t / (t + two);
        let large = Self::ONE - two / (t + two);
        let r = if self.abs() > Self::of(0.55) { large } else { small };
        // The comparison keeps the sign of zero and NaN.
        if self < Self::ZERO {
            -r
        } else if self > Self::ZERO {
            r
        } else {
            self
        }
    }

    #[inline(always)]
    fn sign(self) -> Self {
        if self > Self::ZERO {
            Self::ONE
        } else if self < Self::ZERO {
            -Self::ONE
        } else {
            self
        }
    }
}

macro_rules! horner {
    ($x:expr, $last:expr) => { $last };
    ($x:expr, $first:expr, $($rest:expr),+) => { $first + $x * horner!($x, $($rest),+) };
}

/// `exp` and `expm1` share the reduction x = n·ln2 + (hi − lo) and exp(hi − lo) − 1.
macro_rules! float {
    ($t:ident, $int:ident, $uint:ident, magic: $magic:expr, bias: $bias:expr, mantissa: $mantissa:expr,
     ln2: ($hi:expr, $lo:expr), log_ln2: ($log_hi:expr, $log_lo:expr), exp_range: ($low:expr, $high:expr),
     expm1_low: $expm1_low:expr, tiny: $tiny:expr, exp_poly: [$($p:expr),+], odd: [$($odd:expr),+], even: [$($even:expr),+],
     half_sqrt2: $half_sqrt2:expr) => {
        impl Float for $t {
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $t
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
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
                let x = if self < $low { $low } else { self };
                let x = if x > $high { $high } else { x };
                let (n, m) = $t::reduce(x);
                let half = n >> 1;
                (1.0 + m) * $t::power(half) * $t::power(n - half)
            }

            #[inline(always)]
            fn expm1(self) -> Self {
                let x = if self < $expm1_low { $expm1_low } else { self };
                let x = if x > $high { $high } else { x };
                let (n, m) = $t::reduce(x);
                let half = $t::power(n - 1);
                let y = 2.0 * (half * m + (half - 0.5));
                if self.abs() < $tiny {
                    self
                } else {
                    y
                }
            }

            #[inline(always)]
            fn log(self) -> Self {
                const ONE: $uint = ($bias as $uint) << $mantissa;
                let subnormal = self < $t::MIN_POSITIVE;
                let scaled = if subnormal { self * $t::power(60) } else { self };
                let bits = scaled.to_bits().wrapping_add(ONE.wrapping_sub($half_sqrt2));
                let k = ((bits >> $mantissa) as $int).wrapping_sub($bias);
                let k = k.wrapping_sub(if subnormal { 60 } else { 0 });
                let x = $t::from_bits((bits & ((1 << $mantissa) - 1)).wrapping_add($half_sqrt2));
                let k = $t::from_bits(($magic as $t).to_bits().wrapping_add(k as $uint)) - $magic;
                let f = x - 1.0;
                let s = f / (2.0 + f);
                let z = s * s;
                let w = z * z;
                let odd = horner!(w, $($odd),+);
                let even = horner!(w, $($even),+);
                let r = z * odd + w * even;
                let half_square = 0.5 * f * f;
                let y = s * (half_square + r) + k * $log_lo - half_square + f + k * $log_hi;
                let y = if self > 0.0 { y } else { $t::NAN };
                let y = if self == $t::INFINITY { self } else { y };
                if self == 0.0 { $t::NEG_INFINITY } else { y }
            }
        }

        impl Reduce for $t {
            type Int = $int;

            #[inline(always)]
            fn reduce(x: $t) -> ($int, $t) {
                let shifted = x * std::f64::consts::LOG2_E as $t + $magic;
                let n = (shifted.to_bits() as $int).wrapping_sub(($magic as $t).to_bits() as $int);
                let rounded = shifted - $magic;
                let hi = x - rounded * $hi;
                let lo = rounded * $lo;
                let r = hi - lo;
                let t = r * r;
                let c = r - t * horner!(t, $($p),+);
                (n, (r * c / (2.0 - c) - lo) + hi)
            }

            #[inline(always)]
            fn power(n: $int) -> $t {
                $t::from_bits((n.wrapping_add($bias) as $uint) << $mantissa)
            }
        }
    };
}

trait Reduce: Sized {
    type Int;
    fn reduce(x: Self) -> (Self::Int, Self);
    /// Two to the n.
    fn power(n: Self::Int) -> Self;
}

float!(f32, i32, u32, magic: 12582912.0, bias: 127, mantissa: 23,
    ln2: (6.931_457_5e-1, 1.428_606_8e-6), log_ln2: (6.931_381e-1, 9.058_001e-6), exp_range: (-104.0, 89.0),
    expm1_low: -30.0, tiny: 1e-8, exp_poly: [1.666_662_5e-1, -2.766_733_3e-3],
    odd: [0.666_666_6, 0.284_987_87], even: [0.400_009_72, 0.242_790_79],
    half_sqrt2: 0x3f3504f3);

float!(f64, i64, u64, magic: 6755399441055744.0, bias: 1023, mantissa: 52,
    ln2: (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10),
    log_ln2: (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10), exp_range: (-746.0, 710.0),
    expm1_low: -50.0, tiny: 1e-17,
    exp_poly: [1.666_666_666_666_660_2e-1, -2.777_777_777_701_559_3e-3, 6.613_756_321_437_934e-5,
        -1.653_390_220_546_525_2e-6, 4.138_136_797_057_238_5e-8],
    odd: [6.666_666_666_666_735e-1, 2.857_142_874_366_239e-1, 1.818_357_216_161_805e-1, 1.479_819_860_511_658_6e-1],
    even: [3.999_999_999_940_942e-1, 2.222_219_843_214_978_4e-1, 1.531_383_769_920_937_3e-1],
    half_sqrt2: 0x3fe6a09e00000000);

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps32(got: f32, want: f64) -> f64 {
        let rounded = want as f32;
        if got == rounded || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        let unit = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() & 0x7f80_0000) as f64;
        let unit = f32::from_bits(unit as u32) as f64 * 2f64.powi(-23);
        (got as f64 - want).abs() / unit
    }

    fn worst32(low: f32, high: f32, f: impl Fn(f32) -> f32, oracle: impl Fn(f64) -> f64) -> f64 {
        (0..200_000)
            .map(|i| low + (high - low) * (i as f32 / 200_000.0))
            .map(|x| ulps32(f(x), oracle(x as f64)))
            .fold(0.0, f64::max)
    }

    fn worst64(low: f64, high: f64, f: impl Fn(f64) -> f64, oracle: impl Fn(f64) -> f64) -> f64 {
        (0..200_000)
            .map(|i| low + (high - low) * (i as f64 / 200_000.0))
            .map(|x| {
                let (got, want) = (f(x), oracle(x));
                if got == want {
                    0.0
                } else {
                    (got - want).abs() / want.abs()
                }
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn f32_functions_are_within_about_two_ulp() {
        let logistic = |x: f64| 1.0 / (1.0 + libm::exp(-x));
        let cases: [(&str, f64); 7] = [
            ("exp", worst32(-87.0, 88.7, Float::exp, libm::exp)),
            ("exp near 0", worst32(-1.0, 1.0, Float::exp, libm::exp)),
            ("expm1", worst32(-20.0, 88.0, Float::expm1, libm::expm1)),
            ("log", worst32(1e-30, 10.0, Float::log, libm::log)),
            ("log large", worst32(1.0, 1e30, Float::log, libm::log)),
            ("tanh", worst32(-10.0, 10.0, Float::tanh, libm::tanh)),
            ("logistic", worst32(-80.0, 80.0, Float::logistic, logistic)),
        ];
        for (name, worst) in cases {
            // tanh is the worst, with 2.04.
            assert!(worst <= 2.1, "{name}: {worst} ulp");
        }
    }

    #[test]
    fn f64_functions_are_within_1e15() {
        let logistic = |x: f64| {
            libm::exp(-x.abs()).mul_add(if x < 0.0 { 1.0 } else { 0.0 }, if x < 0.0 { 0.0 } else { 1.0 })
                / (1.0 + libm::exp(-x.abs()))
        };
        let cases: [(&str, f64); 7] = [
            ("exp", worst64(-700.0, 709.0, Float::exp, libm::exp)),
            ("expm1", worst64(-40.0, 700.0, Float::expm1, libm::expm1)),
            ("expm1 near 0", worst64(-1.0, 1.0, Float::expm1, libm::expm1)),
            ("log", worst64(1e-300, 10.0, Float::log, libm::log)),
            ("log large", worst64(1.5, 1e300, Float::log, libm::log)),
            ("tanh", worst64(-20.0, 20.0, Float::tanh, libm::tanh)),
            ("logistic", worst64(-700.0, 700.0, Float::logistic, logistic)),
        ];
        for (name, worst) in cases {
            assert!(worst <= 1e-15, "{name}: {worst}");
        }
    }

    #[test]
    fn special_values() {
        assert_eq!(Float::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Float::exp(f32::INFINITY), f32::INFINITY);
        assert!(Float::exp(f32::NAN).is_nan() && Float::exp(f64::NAN).is_nan());
        assert_eq!(Float::exp(1000.0f64), f64::INFINITY);
        assert_eq!(Float::expm1(f64::NEG_INFINITY), -1.0);
        assert_eq!(Float::expm1(f32::INFINITY), f32::INFINITY);
        assert!(Float::expm1(-0.0f32).is_sign_negative());
        assert_eq!(Float::log(0.0f32), f32::NEG_INFINITY);
        assert!(Float::log(-1.0f64).is_nan() && Float::log(f32::NAN).is_nan());
        assert_eq!(Float::log(f64::INFINITY), f64::INFINITY);
        assert_eq!(Float::log(5e-324f64), libm::log(5e-324));
        assert_eq!(Float::tanh(f32::INFINITY), 1.0);
        assert_eq!(Float::tanh(f64::NEG_INFINITY), -1.0);
        assert!(Float::tanh(-0.0f64).is_sign_negative() && Float::tanh(f32::NAN).is_nan());
        assert_eq!(Float::logistic(f32::NEG_INFINITY), 0.0);
        assert!(Float::logistic(f32::NAN).is_nan());
        assert!(Float::sign(-0.0f32).is_sign_negative() && Float::sign(f64::NAN).is_nan());
    }
}
