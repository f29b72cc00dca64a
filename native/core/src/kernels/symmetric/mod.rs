//! Products of a matrix and its own transpose (`tsmm`): the tiles on and above the diagonal are computed, the others copied. An element
//! and its mirror image are the same chain of multiply-adds, so no bit differs from a product of two matrices.

use super::product::Matrix;
use crate::calls::DotJson;
use crate::verify::At;

/// Smaller products are not worth the copy.
const LEAST: usize = 32;
/// Rows and columns that are copied together.
const SIDE: usize = 16;

/// Whether both sides of a product of floats are the same memory, the second one transposed.
pub fn is_symmetric(call: &DotJson, [x, y, out]: [(At, [isize; 3]); 3]) -> bool {
    let ((from, [batch, row, step]), (other, [batches, steps, column])) = (x, y);
    let alone = call.epilogue.bias.is_none() && !call.epilogue.relu;
    let same = from == other && (batch == batches || call.b == 1) && row == column && step == steps;
    // A product into columns is turned, and its upper part would be the lower one.
    call.dtype.is_float() && same && alone && call.m == call.n && call.m >= LEAST && out.1[2] == 1
}

/// Copies what lies above the diagonal to below it.
///
/// # Safety
/// `out` must be valid for that size.
pub unsafe fn mirror<T: Copy>(size: usize, out: Matrix<T>) {
    for top in (0..size).step_by(SIDE) {
        for left in (0..=top).step_by(SIDE) {
            for row in top..(top + SIDE).min(size) {
                for column in left..(left + SIDE).min(row) {
                    *out.at(row, column).cast_mut() = *out.at(column, row);
                }
            }
        }
    }
}
