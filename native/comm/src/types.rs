//! What a collective works on: element types, reductions and parts of a bucket.

use std::fmt;
use std::marker::PhantomData;

/// Declares the dtypes: name in lowered programs and bytes of an element.
macro_rules! dtypes {
    ($($(#[$doc:meta])* $dtype:ident $name:literal $size:literal)+) => {
        /// Element type of the data of a collective.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Dtype { $($(#[$doc])* $dtype),+ }

        impl Dtype {
            /// Bytes of one element.
            #[must_use]
            pub const fn size(self) -> usize {
                match self { $(Self::$dtype => $size),+ }
            }

            /// The name used in lowered programs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$dtype => $name),+ }
            }
        }
    };
}

dtypes! {
    /// 32-bit float.
    F32 "f32" 4
    /// 64-bit float.
    F64 "f64" 8
    /// IEEE 754 binary16; every combination is rounded.
    F16 "f16" 2
    /// The upper half of an f32; every combination is rounded.
    Bf16 "bf16" 2
    /// 32-bit signed integer; sums wrap.
    I32 "i32" 4
    /// 32-bit unsigned integer; sums wrap.
    U32 "u32" 4
    /// 8-bit unsigned integer; sums wrap.
    U8 "u8" 1
    /// 8-bit signed integer; sums wrap.
    I8 "i8" 1
    /// 64-bit signed integer; sums wrap.
    I64 "i64" 8
    /// 64-bit unsigned integer; sums wrap.
    U64 "u64" 8
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the values of the ranks are combined. Max and min propagate NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum; integers wrap.
    Sum,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
}

impl Reduction {
    /// The name used in lowered programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust number type that a [`Part`] can be made of.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// Its dtype.
    const DTYPE: Dtype;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

element!(f32 => F32, f64 => F64, i32 => I32, u32 => U32, u8 => U8, i8 => I8, i64 => I64, u64 => U64);
element!(heddle_half::F16 => F16, heddle_half::Bf16 => Bf16);

/// One piece of a bucket: where a collective reads and where it writes. Sizes are in bytes.
#[derive(Debug)]
pub struct Part<'a> {
    pub(crate) input: *const u8,
    pub(crate) input_bytes: usize,
    pub(crate) output: *mut u8,
    pub(crate) output_bytes: usize,
    data: PhantomData<(&'a [u8], &'a mut [u8])>,
}

// SAFETY: a part stands for a `&[T]` and a `&mut [T]` of plain numbers, both of which are Send.
unsafe impl Send for Part<'_> {}

impl<'a> Part<'a> {
    /// A part that reads `input` and writes `output`.
    pub fn new<T: Element>(input: &'a [T], output: &'a mut [T]) -> Self {
        Self {
            input: input.as_ptr().cast(),
            input_bytes: size_of_val(input),
            output: output.as_mut_ptr().cast(),
            output_bytes: size_of_val(output),
            data: PhantomData,
        }
    }

    /// A part whose result replaces its input (`all_reduce` and `broadcast`).
    pub fn in_place<T: Element>(values: &'a mut [T]) -> Self {
        let bytes = size_of_val(values);
        let output: *mut u8 = values.as_mut_ptr().cast();
        Self { input: output, input_bytes: bytes, output, output_bytes: bytes, data: PhantomData }
    }

    /// A part from addresses and sizes in bytes.
    ///
    /// # Safety
    /// For as long as the part lives, `input` must be valid for reads of `input_bytes`, `output` valid for writes of
    /// `output_bytes`, and nothing else may touch either. Outputs of different parts, and the output of one part and
    /// the input of another, must not overlap. The two of one part may be equal or apart; where a collective cannot
    /// work on an overlap it returns [`Error::Invalid`](crate::Error::Invalid).
    pub unsafe fn from_raw(input: *const u8, input_bytes: usize, output: *mut u8, output_bytes: usize) -> Self {
        Self { input, input_bytes, output, output_bytes, data: PhantomData }
    }
}
