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
