//! Products of narrow numbers through f32, where the processor has no instructions for them. f32 holds every sum of 256 products of
//! bytes, so that those are exact.

use heddle_half::{Bf16, Half};

use super::finish::{join, Outcome, Sums};
use super::operands::{Lines, Pair};
use crate::isa::{by_isa, Isa, Level};
use crate::kernels::product::{product, Matrix};

/// Steps of the contracted dim that are widened at once.
const DEPTH: usize = 256;

/// Memory for [`sums`]: both sides and a block of sums.
pub fn words(rows: usize, columns: usize, k: usize) -> usize {
    (rows + columns) * DEPTH.min(k) + rows * columns
}

/// All sums of some rows and columns, into `totals`.
///
/// # Safety
/// The lines must be valid for the sizes, and `room` must have as much as [`words`] says.
pub unsafe fn sums<O: Outcome>(isa: Isa, pair: Pair, [x, y]: [Lines; 2], k: usize, totals: Sums, room: *mut f32) {
    let (rows, columns) = (totals.rows, totals.columns);
    let (left, right) = (room, room.add(rows * DEPTH.min(k)));
    let block = Sums { from: right.add(columns * DEPTH.min(k)).cast(), width: columns, ..totals };
    for p in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - p);
        widen(isa, pair, 0, x.at(0, p), rows, depth, left, depth, 1);
        widen(isa, pair, 1, y.at(0, p), columns, depth, right, 1, columns);
        let [a, b] =
            [(left, depth), (right, columns)].map(|(ptr, rows)| Matrix { ptr, rows: rows as isize, columns: 1 });
        let out = Matrix { ptr: block.from.cast(), rows: columns as isize, columns: 1 };
        product::<f32>(isa, [rows, columns, depth], [a, b, out], false);
        if pair != Pair::Bf16 {
            for sum in std::slice::from_raw_parts_mut(block.from, rows * columns) {
                *sum = (f32::from_bits(*sum) as i32).cast_unsigned();
            }
        }
        join::<O>(isa, totals, block);
    }
}

by_isa! {
    fn widen(pair: Pair, side: usize, x: Lines, lines: usize, depth: usize, to: *mut f32, across: usize, along: usize) => widen_body
}

/// Elements as f32: `across` from line to line, `along` along the contracted dim.
#[inline(always)]
unsafe fn widen_body<L: Level>(
    pair: Pair,
    side: usize,
    x: Lines,
    lines: usize,
    depth: usize,
    to: *mut f32,
    across: usize,
    along: usize,
) {
    let each = |read: &dyn Fn(*const u8) -> f32| {
        // The inner loop runs along the memory that is read.
        let (outer, inner) = if x.along == 1 { (lines, depth) } else { (depth, lines) };
        for i in 0..outer {
            for j in 0..inner {
                let (line, step) = if x.along == 1 { (i, j) } else { (j, i) };
                *to.add(line * across + step * along) = read(x.at(line, step).from);
            }
        }
    };
    match pair {
        Pair::Bf16 => each(&|from| Bf16::of_bits(*from.cast()).wide()),
        Pair::Bytes { signed } if signed[side] => each(&|from| f32::from(*from.cast::<i8>())),
        Pair::Bytes { .. } => each(&|from| f32::from(*from)),
    }
}
