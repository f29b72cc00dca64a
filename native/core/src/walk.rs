//! What the inner loop of a product works on.

/// A register tile and what it multiplies; distances are in elements.
pub struct Walk<'a, T> {
    pub left: *const T,
    pub left_row: isize,
    pub left_step: isize,
    /// Where in `left` the runs of the contracted index begin; there is at least one.
    pub segments: &'a [isize],
    /// Length of a run.
    pub segment: usize,
    pub right: *const T,
    pub right_row: isize,
    /// Lanes of the last vector of columns.
    pub tail: usize,
    pub out: *mut T,
    pub out_row: isize,
    pub accumulate: bool,
}
