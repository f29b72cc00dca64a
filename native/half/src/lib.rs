//! The 16-bit floats: f16 (IEEE 754 binary16) and bf16 (the upper half of an f32). Conversions round once, to nearest
//! even; what is too large becomes infinite, and NaN stays NaN and is quiet, as `VCVTPS2PH` has it.

/// A 16-bit float by its bits.
pub trait Half: Copy + 'static {
    fn of_bits(bits: u16) -> Self;
    fn bits(self) -> u16;
    /// Exact.
    fn wide(self) -> f32;
    fn narrow(x: f32) -> Self;
}

/// The upper half of an f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// IEEE 754 binary16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

impl Half for Bf16 {
    #[inline(always)]
    fn of_bits(bits: u16) -> Bf16 {
        Bf16(bits)
    }

    #[inline(always)]
    fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline(always)]
    fn narrow(x: f32) -> Bf16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
        Bf16((if x.is_nan() { bits | 0x40_0000 } else { rounded } >> 16) as u16)
    }
}

impl Half for F16 {
    #[inline(always)]
    fn of_bits(bits: u16) -> F16 {
        F16(bits)
    }

    #[inline(always)]
    fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    fn wide(self) -> f32 {
        let bits = u32::from(self.0);
        let (sign, shifted) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
        // 2^112 moves the exponent, and makes subnormal numbers normal.
        let finite = (f32::from_bits(shifted) * f32::from_bits(0x7780_0000)).to_bits();
        let quiet = if shifted > 0x0f80_0000 { 0x40_0000 } else { 0 };
        let special = shifted | 0x7f80_0000 | quiet;
        f32::from_bits(sign | if shifted >= 0x0f80_0000 { special } else { finite })
    }

    #[inline(always)]
    fn narrow(x: f32) -> F16 {
        let bits = x.to_bits();
        let (sign, abs) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
        let normal = abs.wrapping_sub(112 << 23).wrapping_add(0xfff + ((abs >> 13) & 1)) >> 13;
        // A unit in the last place of 0.5 is the smallest f16: the addition rounds to it.
        let subnormal = (f32::from_bits(abs) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        let nan = 0x7e00 | ((abs >> 13) & 0x3ff);
        let magnitude = if abs > 0x7f80_0000 {
            nan
        } else if abs >= 0x477f_f000 {
            0x7c00
        } else if abs < 0x3880_0000 {
            subnormal
        } else {
            normal
        };
        F16((sign | magnitude) as u16)
    }
}

/// Numbers as f32 rounded to odd: rounding the result to a 16-bit float gives what rounding the number itself would.
pub trait Odd: Copy {
    fn odd(self) -> f32;
}

/// Of the two neighbours of a number that is no f32 the odd one; `nearest` is one of them, `beyond` says that it is the
/// one that is closer to zero.
fn odd_neighbour(nearest: f32, beyond: bool) -> f32 {
    let bits = nearest.to_bits();
    match (bits & 1, beyond) {
        (1, _) => nearest,
        (_, true) => f32::from_bits(bits + 1),
        (_, false) => f32::from_bits(bits - 1),
    }
}

impl Odd for f64 {
    #[inline(always)]
    fn odd(self) -> f32 {
        let nearest = self as f32;
        let back = f64::from(nearest);
        if back == self || self.is_nan() {
            return nearest;
        }
        odd_neighbour(nearest, back.abs() < self.abs())
    }
}

impl Odd for f32 {
    #[inline(always)]
    fn odd(self) -> f32 {
        self
    }
}

macro_rules! exact {
    ($($t:ty)+) => { $(impl Odd for $t {
        #[inline(always)]
        fn odd(self) -> f32 {
            f64::from(self).odd()
        }
    })+ };
}
exact!(i8 u8 i32 u32);

macro_rules! long {
    ($($t:ty)+) => { $(impl Odd for $t {
        #[inline(always)]
        fn odd(self) -> f32 {
            let nearest = self as f32;
            let (back, value) = (nearest as i128, i128::from(self));
            if back == value {
                return nearest;
            }
            odd_neighbour(nearest, back.abs() < value.abs())
        }
    })+ };
}
long!(i64 u64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every 16-bit pattern goes to f32 and back; NaN becomes quiet.
    fn there_and_back<H: Half>(exponent: u16, quiet: u16) {
        for bits in 0..=u16::MAX {
            let nan = bits & 0x7fff > exponent;
            let back = H::narrow(H::of_bits(bits).wide()).bits();
            assert_eq!(back, if nan { bits | quiet } else { bits }, "{bits:#x}");
            assert_eq!(H::of_bits(bits).wide().is_nan(), nan);
        }
    }

    #[test]
    fn conversions_to_f32_are_exact() {
        there_and_back::<F16>(0x7c00, 0x200);
        there_and_back::<Bf16>(0x7f80, 0x40);
    }

    /// Between neighbours: the midpoint goes to the even one, what lies beside it to the nearer one, however close.
    fn midpoints<H: Half>(infinity: u16) {
        for bits in 0..infinity - 1 {
            let (low, high) = (f64::from(H::of_bits(bits).wide()), f64::from(H::of_bits(bits + 1).wide()));
            let middle = (low + high) / 2.0;
            let even = if bits & 1 == 0 { bits } else { bits + 1 };
            let cases = [(middle, even), (middle.next_down(), bits), (middle.next_up(), bits + 1)];
            for (x, wanted) in cases {
                assert_eq!(H::narrow(x.odd()).bits(), wanted, "{x:e}");
                assert_eq!(H::narrow((-x).odd()).bits(), wanted | 0x8000, "{:e}", -x);
            }
            assert_eq!(H::narrow(middle as f32).bits(), even, "{middle:e}");
        }
        assert_eq!(H::narrow(f32::MAX).bits(), infinity);
        assert_eq!(H::narrow(f64::MAX.odd()).bits(), infinity);
        assert_eq!(H::narrow((-f64::MIN_POSITIVE).odd()).bits(), 0x8000);
    }

    #[test]
    fn rounding_is_to_nearest_even_and_once() {
        midpoints::<F16>(0x7c00);
        midpoints::<Bf16>(0x7f80);
    }

    #[test]
    fn long_integers_round_once() {
        // 2^62 + half a unit of bf16, and one more.
        let middle = (1i64 << 62) + (1 << 54);
        assert_eq!(Bf16::narrow(middle.odd()).bits(), 0x5e80);
        assert_eq!(Bf16::narrow((middle + 1).odd()).bits(), 0x5e81);
        assert_eq!(Bf16::narrow((-middle - 1).odd()).bits(), 0xde81);
        assert_eq!(Bf16::narrow(i64::MIN.odd()).bits(), 0xdf00);
        assert_eq!(Bf16::narrow(u64::MAX.odd()).bits(), 0x5f80);
    }
}
