//! The dtypes of the lowered program, and the numbers behind them.

/// Declares the dtypes: name in lowered programs and bytes of an element.
macro_rules! dtypes {
    ($($dtype:ident $name:literal $size:literal)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DType { $($dtype),+ }

        impl DType {
            pub fn named(name: &str) -> Option<DType> {
                match name { $($name => Some(DType::$dtype),)+ _ => None }
            }

            pub fn name(self) -> &'static str {
                match self { $(DType::$dtype => $name),+ }
            }

            pub fn size(self) -> usize {
                match self { $(DType::$dtype => $size),+ }
            }
        }
    };
}

dtypes! {
    F32 "f32" 4
    F64 "f64" 8
    F16 "f16" 2
    Bf16 "bf16" 2
    I32 "i32" 4
    U32 "u32" 4
    U8 "u8" 1
    I8 "i8" 1
    I64 "i64" 8
    U64 "u64" 8
    Bool "bool" 1
}

impl DType {
    /// Whether kernels compute in this float dtype.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// Whether this is a 16-bit float: kernels move and cast these, but compute nothing in them.
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
    /// Whether kernels that are generic over all numbers are compiled for AVX-512, too. Only those of f32 are, the usual dtype
    /// of networks: for the other dtypes the gain is not worth a third of the compile time.
    const WIDE: bool = false;
    /// Whether the type is a float.
    const FLOAT: bool;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Whether the value is NaN; always false for integers.
    fn nan(self) -> bool;
    /// All bits set: identity of `bit_and`.
    const ALL: Self;
    fn bit_and(self, other: Self) -> Self;
    fn bit_or(self, other: Self) -> Self;
    /// An index as a number of this type.
    fn from_index(index: usize) -> Self;
    /// The bits of the number, extended with zeros.
    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;

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
    ($t:ty $(: $wide:ident)?, $float:literal, $low:expr, $high:expr, $bits:ty, |$a:ident, $b:ident| $add:expr, $sub:expr, $mul:expr, |$n:ident| $nan:expr, $from:path, $to:path) => {
        impl Element for $t {
            const ZERO: Self = 0 as $t;
            const ONE: Self = 1 as $t;
            const LOWEST: Self = $low;
            const HIGHEST: Self = $high;
            $(const $wide: bool = true;)?
            const FLOAT: bool = $float;
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
            fn mul(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $mul
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
            fn from_index(index: usize) -> Self {
                index as $t
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from($to(self))
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                $from(bits as $bits)
            }
        }
    };
}

const fn same<T: Copy>(x: T) -> T {
    x
}

macro_rules! float {
    ($t:ident $(: $wide:ident)?, $bits:ty) => {
        element!(
            $t $(: $wide)?, true, $t::NEG_INFINITY, $t::INFINITY, $bits,
            |a, b| a + b, a - b, a * b, |a| a.is_nan(), $t::from_bits, $t::to_bits
        );
    };
}

macro_rules! integer {
    ($t:ident, $bits:ty, $from:path, $to:path) => {
        element! {
            $t, false, $t::MIN, $t::MAX, $bits,
            |a, b| a.wrapping_add(b), a.wrapping_sub(b), a.wrapping_mul(b), |_a| false, $from, $to
        }
    };
}

float!(f32: WIDE, u32);
float!(f64, u64);
integer!(i32, u32, u32::cast_signed, i32::cast_unsigned);
integer!(u32, u32, same, same);
integer!(u8, u8, same, same);
integer!(i8, u8, u8::cast_signed, i8::cast_unsigned);
integer!(i64, u64, u64::cast_signed, i64::cast_unsigned);
integer!(u64, u64, same, same);
// Holds the bits of 16-bit floats.
integer!(u16, u16, same, same);

/// A block with `$t` standing for a type.
macro_rules! with_type {
    ($t:ident = $of:ty, $body:expr) => {{
        type $t = $of;
        $body
    }};
}
pub(crate) use with_type;

/// Runs a block with `$t` standing for the unsigned integer of this size in bytes.
macro_rules! for_size {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            8 => $crate::dtype::with_type!($t = u64, $body),
            4 => $crate::dtype::with_type!($t = u32, $body),
            2 => $crate::dtype::with_type!($t = u16, $body),
            _ => $crate::dtype::with_type!($t = u8, $body),
        }
    };
}
pub(crate) use for_size;

/// The bits of one element.
///
/// # Safety
/// There must be an element of `size` bytes at `from`.
pub unsafe fn read_bits(size: usize, from: *const u8) -> u64 {
    match size {
        8 => *from.cast::<u64>(),
        4 => u64::from(*from.cast::<u32>()),
        2 => u64::from(*from.cast::<u16>()),
        _ => u64::from(*from),
    }
}

/// Writes the bits of one element.
///
/// # Safety
/// There must be room for an element of `size` bytes at `to`.
pub unsafe fn write_bits(size: usize, bits: u64, to: *mut u8) {
    for_size!(size, T => *to.cast() = bits as T)
}

/// Runs a block with `$t` standing for the Rust type of a dtype's numbers; verification has refused 16-bit floats.
macro_rules! for_number {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => $crate::dtype::with_type!($t = f32, $body),
            $crate::dtype::DType::F64 => $crate::dtype::with_type!($t = f64, $body),
            $crate::dtype::DType::I32 => $crate::dtype::with_type!($t = i32, $body),
            $crate::dtype::DType::U32 => $crate::dtype::with_type!($t = u32, $body),
            $crate::dtype::DType::U8 | $crate::dtype::DType::Bool => $crate::dtype::with_type!($t = u8, $body),
            $crate::dtype::DType::I8 => $crate::dtype::with_type!($t = i8, $body),
            $crate::dtype::DType::I64 => $crate::dtype::with_type!($t = i64, $body),
            $crate::dtype::DType::U64 => $crate::dtype::with_type!($t = u64, $body),
            $crate::dtype::DType::F16 | $crate::dtype::DType::Bf16 => {
                unreachable!("nothing is computed in 16-bit floats")
            }
        }
    };
}
pub(crate) use for_number;

/// The same where only the bits matter: integers of a size are one type.
macro_rules! for_bits {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.size() {
            8 => $crate::dtype::with_type!($t = u64, $body),
            4 => $crate::dtype::with_type!($t = u32, $body),
            1 => $crate::dtype::with_type!($t = u8, $body),
            _ => unreachable!("nothing is computed in 16-bit floats"),
        }
    };
}
pub(crate) use for_bits;

/// The same where numbers are added or multiplied: integers of a size wrap to the same bits, with a sign or without.
macro_rules! for_wrapping {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => $crate::dtype::with_type!($t = f32, $body),
            $crate::dtype::DType::F64 => $crate::dtype::with_type!($t = f64, $body),
            dtype => $crate::dtype::for_bits!(dtype, $t => $body),
        }
    };
}
pub(crate) use for_wrapping;

/// Runs a block for f32 or f64; verification has refused the others.
macro_rules! for_float {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F64 => $crate::dtype::with_type!($t = f64, $body),
            _ => $crate::dtype::with_type!($t = f32, $body),
        }
    };
}
pub(crate) use for_float;
