//! The operands of the inner loop of a matrix product.

/// A register tile and its operands; distances are in elements.
pub struct Walk<'a, T> {
    pub left: *const T,
    pub left_row: isize,
    pub left_step: isize,
    /// Offsets in `left` at which the runs of the contracted index begin; there is at least one run.
    pub segments: &'a [isize],
    /// The length of a run.
    pub segment: usize,
    pub right: *const T,
    pub right_row: isize,
    /// Lanes of the last vector of columns.
    pub tail: usize,
    pub out: *mut T,
    pub out_row: isize,
    pub accumulate: bool,
    /// Two cache lines that are fetched, and the distance to those that are fetched four steps later.
    pub ahead: *const T,
    pub ahead_row: isize,
}

/// Fetches the first `bytes`, at most two cache lines, into the caches. Nothing is read, so that any address may be named.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn fetch<T>(at: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::*;
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
        if bytes > 64 {
            _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(64));
        }
    }
}
