//! The operations of reductions, and the order in which they combine.
//!
//! Element `i` of a run belongs to lane `i mod 64`; a lane folds its elements in order from the identity, and the
//! lanes combine by halves, whatever the processor. No more than `CHAIN` values are added one after another: sums of that
//! many go to a total that keeps what rounding takes from it, so that long sums of one sign are as exact as short ones.

use crate::calls::ReduceOp;
use crate::dtype::{DType, Element};
use crate::isa::{by_isa, Isa, Level};

/// The lanes of a run.
pub const LANES: usize = 64;
/// Most values that are added one after another.
pub const CHAIN: usize = 64;
/// Elements whose lanes are one value of a total.
pub const RUN: usize = LANES * CHAIN / 2;

pub trait Fold: 'static {
    /// Whether the order of values matters, as each step rounds.
    const ROUNDS: bool = false;
    fn identity<T: Element>() -> T;
    fn fold<T: Element>(a: T, b: T) -> T;
    /// Folds a value into a total; `lost` is the rounding error of the total so far.
    #[inline(always)]
    fn join<T: Element>(total: T, lost: T, value: T) -> (T, T) {
        (Self::fold(total, value), lost)
    }
    /// The total, corrected by its rounding error.
    #[inline(always)]
    fn settle<T: Element>(total: T, _lost: T) -> T {
        total
    }
}

/// Folds, each with its identity and its result for two values.
macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident from $identity:expr, |$a:ident, $b:ident| $folded:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Fold for $name {
            #[inline(always)]
            fn identity<T: Element>() -> T {
                $identity
            }
            #[inline(always)]
            fn fold<T: Element>($a: T, $b: T) -> T {
                $folded
            }
        }
    )*};
}

folds! {
    Max from T::LOWEST, |a, b| a.max_nan(b);
    Min from T::HIGHEST, |a, b| a.min_nan(b);
    And from T::ALL, |a, b| a.bit_and(b);
    Or from T::ZERO, |a, b| a.bit_or(b);
    Prod from T::ONE, |a, b| a.mul(b);
    /// Keeps the last value.
    Replace from T::ZERO, |_a, b| b;
}

pub struct Sum;

impl Fold for Sum {
    const ROUNDS: bool = true;
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.add(b)
    }
    /// The rounding error of a sum is itself a float: D. E. Knuth, The Art of Computer Programming 2, section 4.2.2, theorem B. It goes into the
    /// next value (W. Kahan, Further remarks on reducing truncation errors, 1965), so that it stays small beside the total.
    #[inline(always)]
    fn join<T: Element>(total: T, lost: T, value: T) -> (T, T) {
        let value = value.add(lost);
        let sum = total.add(value);
        let part = sum.sub(total);
        let error = total.sub(sum.sub(part)).add(value.sub(part));
        // The error of an infinite sum is NaN.
        (sum, if error.nan() { T::ZERO } else { error })
    }
    #[inline(always)]
    fn settle<T: Element>(total: T, lost: T) -> T {
        total.add(lost)
    }
}

/// Joins values to totals, side by side.
#[inline(always)]
pub fn join<T: Element, F: Fold>(totals: &mut [T], lost: &mut [T], values: &[T]) {
    for ((t, l), v) in totals.iter_mut().zip(lost).zip(values) {
        (*t, *l) = F::join(*t, *l, *v);
    }
}

by_isa! { fn join_rows<T: Element>(totals: &mut [T], lost: &mut [T], values: &[T]) => join_rows_body, wide if T::WIDE }

#[inline(always)]
unsafe fn join_rows_body<L: Level, T: Element>(totals: &mut [T], lost: &mut [T], values: &[T]) {
    join::<T, Sum>(totals, lost, values);
}

/// Joins values to sums, side by side, with the vectors of the instruction set.
pub fn add_rows<T: Element>(isa: Isa, totals: &mut [T], lost: &mut [T], values: &[T]) {
    unsafe { join_rows(isa, totals, lost, values) }
}

/// Corrects totals by their rounding errors.
#[inline(always)]
pub fn settle<T: Element, F: Fold>(totals: &mut [T], lost: &[T]) {
    totals.iter_mut().zip(lost).for_each(|(t, l)| *t = F::settle(*t, *l));
}

/// Runs a block with `$f` standing for the operation and `$t` for the type of the numbers, one type for all dtypes of which
/// the operation makes the same bits.
macro_rules! for_fold {
    (($op:expr, $dtype:expr), $t:ident, $f:ident => $body:expr) => {{
        use $crate::calls::ReduceOp;
        use $crate::dtype::{for_bits, for_number, for_wrapping, with_type};
        use $crate::kernels::fold;
        match $op {
            ReduceOp::Sum => with_type!($f = fold::Sum, for_wrapping!($dtype, $t => $body)),
            ReduceOp::Max => with_type!($f = fold::Max, for_number!($dtype, $t => $body)),
            ReduceOp::Min => with_type!($f = fold::Min, for_number!($dtype, $t => $body)),
            ReduceOp::And => with_type!($f = fold::And, for_bits!($dtype, $t => $body)),
            ReduceOp::Or => with_type!($f = fold::Or, for_bits!($dtype, $t => $body)),
        }
    }};
}
pub(crate) use for_fold;

/// Whether an operation exists for a dtype.
pub fn defined(op: ReduceOp, dtype: DType) -> bool {
    match op {
        _ if dtype.is_half() => false,
        ReduceOp::And | ReduceOp::Or => !dtype.is_float(),
        ReduceOp::Sum => dtype != DType::Bool,
        ReduceOp::Max | ReduceOp::Min => true,
    }
}

/// Combines lanes by halves.
#[inline(always)]
pub fn tree<T: Element, F: Fold, const W: usize>(lanes: &mut [T; W]) -> T {
    let mut width = W / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] = F::fold(lanes[l], lanes[l + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Folds the bits of two numbers.
pub type Pair = fn(u64, u64) -> u64;

/// The fold of two numbers of a dtype.
pub fn pair(op: ReduceOp, dtype: DType) -> Pair {
    fn folded<T: Element, F: Fold>(a: u64, b: u64) -> u64 {
        F::fold(T::of_bits(a), T::of_bits(b)).bits()
    }
    for_fold!((op, dtype), T, F => folded::<T, F>)
}

/// Folds the bits of values `low..high` by a tree that depends on their number alone.
pub fn pairwise(pair: Pair, low: usize, high: usize, value: &dyn Fn(usize) -> u64) -> u64 {
    let n = high - low;
    if n == 1 {
        return value(low);
    }
    // The left part is the largest power of two below the whole.
    let left = n.next_power_of_two() / 2;
    pair(pairwise(pair, low, low + left, value), pairwise(pair, low + left, high, value))
}

by_isa! {
    fn trees<T: Element, F: Fold>(lanes: *const T, used: usize, rows: usize, out: *mut T) => trees_body,
    wide if T::WIDE, vector if T::FLOAT
}

#[inline(always)]
unsafe fn trees_body<L: Level, T: Element, F: Fold>(lanes: *const T, used: usize, rows: usize, out: *mut T) {
    for r in 0..rows {
        let from = lanes.add(r * LANES);
        // Lanes beyond the used ones hold the identity, which changes nothing.
        *out.add(r) = if used <= 16 {
            tree::<T, F, 16>(&mut from.cast::<[T; 16]>().read())
        } else {
            tree::<T, F, LANES>(&mut from.cast::<[T; LANES]>().read())
        };
    }
}

/// The result of each of `rows` groups of lanes, of which the first `used` hold elements.
///
/// # Safety
/// There must be `rows` groups of lanes to read, and as many elements to write at `out`.
pub unsafe fn finish(
    isa: Isa,
    (op, dtype): (ReduceOp, DType),
    lanes: *mut u8,
    (rows, used): (usize, usize),
    out: *mut u8,
) {
    for_fold!((op, dtype), T, F => trees::<T, F>(isa, lanes.cast(), used, rows, out.cast()));
}

/// Fills with the identity of a fold; truth values are 0 or 1.
///
/// # Safety
/// There must be `n` elements to write at `to`.
pub unsafe fn start((op, dtype): (ReduceOp, DType), to: *mut u8, n: usize) {
    if dtype == DType::Bool {
        let all = matches!(op, ReduceOp::And | ReduceOp::Min);
        return std::slice::from_raw_parts_mut(to, n).fill(u8::from(all));
    }
    for_fold!((op, dtype), T, F => {
        std::slice::from_raw_parts_mut(to.cast::<T>(), n).fill(<F as Fold>::identity::<T>());
    });
}
