//! The dtypes of the lowered program, and the numbers behind them.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    F32,
    F64,
    I32,
    U32,
    U8,
    Bool,
}

impl DType {
    pub fn size(self) -> usize {
        match self {
            DType::F64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::U8 | DType::Bool => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}

/// A number kernels are generic over.
pub trait Element: Copy + PartialOrd + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    const ZERO: Self;
    const ONE: Self;
    /// Identity of max: minus infinity or the lowest integer.
    const LOWEST: Self;
    /// Identity of min.
    const HIGHEST: Self;
    fn add(self, other: Self) -> Self;
    /// Whether the value is NaN; always false for integers.
    fn nan(self) -> bool;
    /// All bits set: identity of `bit_and`.
    const ALL: Self;
    fn bit_and(self, other: Self) -> Self;
    fn bit_or(self, other: Self) -> Self;

    /// The larger; NaN wins, and 0 is larger than -0.
    #[inline(always)]
    fn max_nan(self, other: Self) -> Self {
        if self == other {
            self.bit_and(other)
        } else if self > other || self.nan() {
            self
        } else {
            other
        }
    }

    /// The smaller; NaN wins, and -0 is smaller than 0.
    #[inline(always)]
    fn min_nan(self, other: Self) -> Self {
        if self == other {
            self.bit_or(other)
        } else if self < other || self.nan() {
            self
        } else {
            other
        }
    }
}

macro_rules! element {
    ($t:ty, $low:expr, $high:expr, $bits:ty, |$a:ident, $b:ident| $add:expr, |$n:ident| $nan:expr, $from:path, $to:path) => {
        impl Element for $t {
            const ZERO: Self = 0 as $t;
            const ONE: Self = 1 as $t;
            const LOWEST: Self = $low;
            const HIGHEST: Self = $high;
            const ALL: Self = $from(<$bits>::MAX);
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $add
            }
            #[inline(always)]
            fn nan(self) -> bool {
                let $n = self;
                $nan
            }
            #[inline(always)]
            fn bit_and(self, other: Self) -> Self {
                $from($to(self) & $to(other))
            }
            #[inline(always)]
            fn bit_or(self, other: Self) -> Self {
                $from($to(self) | $to(other))
            }
        }
    };
}

const fn same<T: Copy>(x: T) -> T {
    x
}

element!(f32, f32::NEG_INFINITY, f32::INFINITY, u32, |a, b| a + b, |a| a.is_nan(), f32::from_bits, f32::to_bits);
element!(f64, f64::NEG_INFINITY, f64::INFINITY, u64, |a, b| a + b, |a| a.is_nan(), f64::from_bits, f64::to_bits);
element!(i32, i32::MIN, i32::MAX, u32, |a, b| a.wrapping_add(b), |_a| false, u32::cast_signed, i32::cast_unsigned);
element!(u32, u32::MIN, u32::MAX, u32, |a, b| a.wrapping_add(b), |_a| false, same, same);
element!(u8, u8::MIN, u8::MAX, u8, |a, b| a.wrapping_add(b), |_a| false, same, same);

/// Runs a block with `$t` standing for the Rust type of a dtype.
macro_rules! for_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => {
                type $t = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $t = f64;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $t = i32;
                $body
            }
            $crate::dtype::DType::U32 => {
                type $t = u32;
                $body
            }
            $crate::dtype::DType::U8 | $crate::dtype::DType::Bool => {
                type $t = u8;
                $body
            }
        }
    };
}
pub(crate) use for_dtype;

/// Runs a block for f32 or f64; verification has refused the others.
macro_rules! for_float {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F64 => {
                type $t = f64;
                $body
            }
            _ => {
                type $t = f32;
                $body
            }
        }
    };
}
pub(crate) use for_float;
