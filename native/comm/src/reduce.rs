//! Element-wise combination of two pieces of memory.

use heddle_half::{Bf16, F16, Half};

use crate::{Dtype, Reduction};

/// A number that ranks combine. Integers wrap; max and min give NaN where either operand is NaN.
trait Scalar: Copy {
    fn sum(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}

macro_rules! float {
    ($($t:ty),*) => {$(
        impl Scalar for $t {
            fn sum(self, other: Self) -> Self {
                self + other
            }
            // `x != x` is true of NaN alone; written so that it becomes vector compares and blends.
            #[allow(clippy::eq_op)]
            fn max(self, other: Self) -> Self {
                if self > other || self != self { self } else { other }
            }
            #[allow(clippy::eq_op)]
            fn min(self, other: Self) -> Self {
                if self < other || self != self { self } else { other }
            }
        }
    )*};
}

macro_rules! integer {
    ($($t:ty),*) => {$(
        impl Scalar for $t {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
        }
    )*};
}

float!(f32, f64);
integer!(i32, u32, u8, i8, i64, u64);

macro_rules! half {
    ($($t:ty),*) => {$(
        impl Scalar for $t {
            fn sum(self, other: Self) -> Self {
                Self::narrow(self.wide() + other.wide())
            }
            fn max(self, other: Self) -> Self {
                Self::narrow(Scalar::max(self.wide(), other.wide()))
            }
            fn min(self, other: Self) -> Self {
                Self::narrow(Scalar::min(self.wide(), other.wide()))
            }
        }
    )*};
}

half!(F16, Bf16);

/// Three addresses and a size in bytes: `out = left ∘ right`. `left` need not be aligned unless it is `out`.
#[derive(Clone, Copy)]
pub(crate) struct Triple {
    pub(crate) out: *mut u8,
    pub(crate) left: *const u8,
    pub(crate) right: *const u8,
    pub(crate) bytes: usize,
}

/// Writes `out = left ∘ right`.
///
/// # Safety
/// The three pieces must be valid for `bytes`, `out` and `right` aligned for `dtype`; `out` must be equal to or apart from
/// each input.
pub(crate) unsafe fn combine(dtype: Dtype, reduction: Reduction, pieces: Triple) {
    // SAFETY: the caller keeps the contract of this function, which is that of `by_reduction`.
    unsafe {
        match dtype {
            Dtype::F32 => by_reduction::<f32>(reduction, pieces),
            Dtype::F64 => by_reduction::<f64>(reduction, pieces),
            Dtype::I32 => by_reduction::<i32>(reduction, pieces),
            Dtype::U32 => by_reduction::<u32>(reduction, pieces),
            Dtype::U8 => by_reduction::<u8>(reduction, pieces),
            Dtype::I8 => by_reduction::<i8>(reduction, pieces),
            Dtype::I64 => by_reduction::<i64>(reduction, pieces),
            Dtype::U64 => by_reduction::<u64>(reduction, pieces),
            Dtype::F16 => by_reduction::<F16>(reduction, pieces),
            Dtype::Bf16 => by_reduction::<Bf16>(reduction, pieces),
        }
    }
}

/// # Safety
/// As `combine`, with `T` as the dtype.
unsafe fn by_reduction<T: Scalar>(reduction: Reduction, pieces: Triple) {
    // SAFETY: as the caller's.
    unsafe {
        match reduction {
            Reduction::Sum => apply::<T>(pieces, T::sum),
            Reduction::Max => apply::<T>(pieces, T::max),
            Reduction::Min => apply::<T>(pieces, T::min),
        }
    }
}

/// # Safety
/// As `combine`, with `T` as the dtype.
#[inline(always)]
unsafe fn apply<T: Scalar>(pieces: Triple, op: impl Fn(T, T) -> T) {
    let Triple { out, left, right, bytes } = pieces;
    let count = bytes / size_of::<T>();
    if count == 0 {
        return;
    }
    // SAFETY: `out` is valid and aligned for `count` elements, and no other reference to it is alive.
    let to = unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), count) };
    // SAFETY: `left` is valid for `count` elements.
    let left_at = |index: usize| unsafe { left.cast::<T>().add(index).read_unaligned() };
    // Separate loops, so that the compiler sees slices that do not overlap.
    if out.cast_const() == right {
        to.iter_mut().enumerate().for_each(|(index, to)| *to = op(left_at(index), *to));
        return;
    }
    // SAFETY: `right` is valid, aligned and apart from `out`.
    let right = unsafe { std::slice::from_raw_parts(right.cast::<T>(), count) };
    if out.cast_const() == left {
        to.iter_mut().zip(right).for_each(|(to, right)| *to = op(*to, *right));
    } else {
        to.iter_mut().zip(right).enumerate().for_each(|(index, (to, right))| *to = op(left_at(index), *right));
    }
}
