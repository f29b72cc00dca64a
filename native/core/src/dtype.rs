//! The dtypes of the lowered program, and the numbers behind them.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    F32,
    F64,
    F16,
    Bf16,
    I32,
    U32,
    U8,
    I8,
    I64,
    U64,
    Bool,
}

impl DType {
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::U8 | DType::I8 | DType::Bool => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::Bool => "bool",
        }
    }

    /// Floats that kernels compute in.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// 16-bit floats: they are moved, and cast to and from, but nothing is computed in them.
    pub fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16)
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
    fn sub(self, other: Self) -> Self;
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
    ($t:ty, $low:expr, $high:expr, $bits:ty, |$a:ident, $b:ident| $add:expr, $sub:expr, |$n:ident| $nan:expr, $from:path, $to:path) => {
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
            fn sub(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sub
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

element!(f32, f32::NEG_INFINITY, f32::INFINITY, u32, |a, b| a + b, a - b, |a| a.is_nan(), f32::from_bits, f32::to_bits);
element!(f64, f64::NEG_INFINITY, f64::INFINITY, u64, |a, b| a + b, a - b, |a| a.is_nan(), f64::from_bits, f64::to_bits);
element!(
    i32,
    i32::MIN,
    i32::MAX,
    u32,
    |a, b| a.wrapping_add(b),
    a.wrapping_sub(b),
    |_a| false,
    u32::cast_signed,
    i32::cast_unsigned
);
element!(u32, u32::MIN, u32::MAX, u32, |a, b| a.wrapping_add(b), a.wrapping_sub(b), |_a| false, same, same);
element!(u8, u8::MIN, u8::MAX, u8, |a, b| a.wrapping_add(b), a.wrapping_sub(b), |_a| false, same, same);
element!(
    i8,
    i8::MIN,
    i8::MAX,
    u8,
    |a, b| a.wrapping_add(b),
    a.wrapping_sub(b),
    |_a| false,
    u8::cast_signed,
    i8::cast_unsigned
);
element!(
    i64,
    i64::MIN,
    i64::MAX,
    u64,
    |a, b| a.wrapping_add(b),
    a.wrapping_sub(b),
    |_a| false,
    u64::cast_signed,
    i64::cast_unsigned
);
element!(u64, u64::MIN, u64::MAX, u64, |a, b| a.wrapping_add(b), a.wrapping_sub(b), |_a| false, same, same);
// Stands for 16-bit floats where they are moved.
element!(u16, u16::MIN, u16::MAX, u16, |a, b| a.wrapping_add(b), a.wrapping_sub(b), |_a| false, same, same);

/// Runs a block with `$t` standing for the Rust type of a dtype; 16-bit floats are their bits, for kernels that move them.
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
            $crate::dtype::DType::I8 => {
                type $t = i8;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $t = i64;
                $body
            }
            $crate::dtype::DType::U64 => {
                type $t = u64;
                $body
            }
            $crate::dtype::DType::F16 | $crate::dtype::DType::Bf16 => {
                type $t = u16;
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
