//! Products by tiles: both sides are packed, then squares of two by two tiles are summed in registers.

use super::amx::{self, TILE};
use super::finish::{join, write, Epilogue, Outcome, Sums};
use super::operands::{with_room, Lines, Pair, Part};
use super::pack::{tile, Side};
use super::vector;
use crate::isa::Isa;

/// Steps of a block of the contracted dim, each of 64 bytes: a row of tiles of this length fits L1, with the columns in L2.
const DEPTH: usize = 16;
/// Rows and columns of a square.
const SQUARE: usize = 32;

/// What multiplies tiles.
#[derive(Clone, Copy)]
pub struct Unit {
    amx: bool,
    /// Whether packing changes the highest bit of the left and right bytes.
    flips: [bool; 2],
}

impl Unit {
    /// The unit of an instruction set, if it has one for these dtypes.
    pub fn of(isa: Isa, pair: Pair) -> Option<Unit> {
        let (amx, none) = (isa >= Isa::Amx, [false; 2]);
        match pair {
            Pair::Bf16 if isa >= Isa::Bf16 => Some(Unit { amx, flips: none }),
            Pair::Bytes { .. } if amx => Some(Unit { amx, flips: none }),
            Pair::Bytes { signed: [left, right] } if isa >= Isa::Vnni => Some(Unit { amx, flips: [left, !right] }),
            _ => None,
        }
    }
}

impl<O: Outcome> Part<O> {
    /// The product, where it has steps and results.
    pub(super) unsafe fn tiled(&self, unit: Unit) {
        let width = 64 / self.x.size;
        let steps = self.k.div_ceil(width);
        let depth = DEPTH.min(steps);
        let (rows, columns) = (self.m.div_ceil(SQUARE), self.n.div_ceil(SQUARE));
        let blocks = steps > depth;
        let right = 2 * columns * depth * TILE;
        let squares = if blocks { rows * columns } else { 1 } * 4 * SQUARE * SQUARE;
        with_room(right + 2 * depth * TILE + squares + 4 * SQUARE * SQUARE, |room| {
            let [left, totals] = [room.add(right), room.add(right + 2 * depth * TILE)];
            let sums = totals.add(squares);
            if unit.amx {
                amx::begin(16);
            }
            for first in (0..steps).step_by(depth) {
                let count = depth.min(steps - first);
                let along = first * width..self.k.min((first + count) * width);
                let halves = |from: *mut u8| [from, from.add(depth * TILE)];
                let pack = |x: Lines, lines, side, to| pack(x, lines, along.len(), side, unit, halves(to));
                for column in 0..columns {
                    let (j, to) = (SQUARE * column, room.add(2 * column * depth * TILE));
                    pack(self.y.at(j, along.start), self.n - j, Side::Right, to);
                }
                for row in 0..rows {
                    let i = SQUARE * row;
                    let two = self.m - i > 16;
                    pack(self.x.at(i, along.start), self.m - i, Side::Left, left);
                    for column in 0..columns {
                        let [left, right] = [left, room.add(2 * column * depth * TILE)]
                            .map(|side| halves(side).map(<*mut u8>::cast_const));
                        let total =
                            totals.add(if blocks { (row * columns + column) * 4 * SQUARE * SQUARE } else { 0 }).cast();
                        let into = if first == 0 { total } else { sums.cast() };
                        let block = if unit.amx { amx::block } else { vector::block };
                        block(self.pair, two, count, left, right, into);
                        self.settle(row, column, total, into, first + count == steps);
                    }
                }
            }
            if unit.amx {
                amx::end();
            }
        });
    }

    /// Joins the sums of a square to the total, and writes the results if they are the last.
    unsafe fn settle(&self, row: usize, column: usize, total: *mut u32, sums: *mut u32, last: bool) {
        let (i, j) = (SQUARE * row, SQUARE * column);
        let square = |from| Sums { from, width: SQUARE, rows: SQUARE.min(self.m - i), columns: SQUARE.min(self.n - j) };
        if total != sums {
            join::<O>(self.isa, square(total), square(sums));
        }
        if last {
            let bias = self.epilogue.bias.map(|bias| bias.add(j));
            write(self.isa, square(total), self.out.from(i, j), Epilogue { bias, ..self.epilogue });
        }
    }
}

/// Packs up to 32 lines as two rows or columns of tiles; of `left` lines in all.
unsafe fn pack(x: Lines, left: usize, k: usize, side: Side, unit: Unit, to: [*mut u8; 2]) {
    let width = 64 / x.size;
    for (half, to) in to.into_iter().enumerate() {
        let lines = left.saturating_sub(16 * half).min(16);
        // Nothing reads the sums of a tile without lines.
        if lines == 0 {
            return;
        }
        for (step, first) in (0..k).step_by(width).enumerate() {
            let (from, steps) = (x.at(16 * half, first), width.min(k - first));
            tile(from, lines, steps, side, unit.flips[side as usize], to.add(step * TILE));
        }
    }
}
