//! Rows times weights by AMX tiles: weights are the left side, whose tiles are copies of their rows, and the rows are packed once as the
//! right side, for all threads. So what comes out is turned.

use std::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512, _mm_prefetch, _MM_HINT_T1};
use std::cell::RefCell;
use std::ops::Range;

use super::product::{parts, Product};
use crate::buffer::Pages;
use crate::kernels::narrow::amx::{begin, block, end};
use crate::kernels::narrow::finish::{join, write, Epilogue, Sums};
use crate::kernels::narrow::operands::{with_room, Pair};
use crate::kernels::narrow::pack::{tile, transposed, Side};
use crate::step::Run;

/// Weights and rows of a square of two by two tiles.
const SQUARE: usize = 32;
/// Numbers of a square.
const SUMS: usize = SQUARE * SQUARE;
/// Bytes of a step along the contracted dim.
const STEP: usize = 64;
/// Steps of a block: its weights stay in L1 while all rows pass.
const DEPTH: usize = 16;
/// Bytes of a tile.
const TILE: usize = 1024;

thread_local! {
    // The packed rows of the thread that shares the work out, which takes parts itself.
    static ROWS: RefCell<Pages> = const { RefCell::new(Pages::NONE) };
}

pub unsafe fn run(run: &Run, p: &Product) {
    let [m, _, k] = p.sizes;
    let steps = k.div_ceil(STEP);
    let halves = 2 * m.div_ceil(SQUARE);
    ROWS.with_borrow_mut(|pages| {
        let packed = pages.room::<u8>(halves * steps * TILE) as usize;
        for half in 0..m.div_ceil(16) {
            let lines = (m - 16 * half).min(16);
            for step in 0..steps {
                let to = (packed as *mut u8).add((half * steps + step) * TILE);
                let count = STEP.min(k - step * STEP);
                tile(p.x.at(16 * half, step * STEP), lines, count, Side::Right, false, to);
            }
        }
        parts(run, p.sizes, SQUARE, |range| {
            let squares = m.div_ceil(SQUARE) + 2;
            with_room(2 * DEPTH * TILE + 4 * squares * SUMS, |room| {
                begin();
                for column in range.clone().step_by(SQUARE) {
                    columns(run, p, column..range.end.min(column + SQUARE), packed as *const u8, room);
                }
                end();
            });
        });
    });
}

/// The products of all rows with up to 32 weights.
unsafe fn columns(run: &Run, p: &Product, range: Range<usize>, packed: *const u8, room: *mut u8) {
    let [m, n, k] = p.sizes;
    let (steps, squares) = (k.div_ceil(STEP), m.div_ceil(SQUARE));
    let left = [0, 1].map(|half| room.add(half * DEPTH * TILE));
    let totals = room.add(2 * DEPTH * TILE).cast::<u32>();
    let [sums, turned] = [0, 1].map(|i| totals.add((squares + i) * SUMS));
    // The weights are on the left here.
    let pair = Pair::Bytes { signed: [p.signed[1], p.signed[0]] };
    for first in (0..steps).step_by(DEPTH) {
        let count = DEPTH.min(steps - first);
        for (half, to) in left.into_iter().enumerate() {
            let lines = range.len().saturating_sub(16 * half).min(16);
            for step in 0..count {
                let at = (first + step) * STEP;
                let from = p.weights.at(range.start + 16 * half, at);
                tile(from, lines, STEP.min(k - at), Side::Left, false, to.add(step * TILE));
            }
        }
        for i in 0..squares {
            // The next weights come while these are multiplied.
            for line in SQUARE * i / squares..SQUARE * (i + 1) / squares {
                let next = p.weights.at((range.end + line).min(n - 1), first * STEP).from;
                (0..count).for_each(|step| _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(step * STEP).cast()));
            }
            let right = [2 * i, (2 * i + 1).min(m.div_ceil(16) - 1)];
            let right = right.map(|half| packed.add((half * steps + first) * TILE));
            let total = totals.add(i * SUMS);
            let into = if first == 0 { total } else { sums };
            block(pair, true, count, left.map(<*mut u8>::cast_const), right, into);
            let square = |from| Sums { from, width: SQUARE, rows: SQUARE, columns: SQUARE };
            if first > 0 {
                join::<i32>(run.isa, square(total), square(into));
            }
            if first + count == steps {
                turn(total, turned);
                let rows = SQUARE.min(m - SQUARE * i);
                let results = Sums { rows, columns: range.len(), ..square(turned) };
                let bias = p.epilogue.bias.map(|bias| bias.add(range.start));
                let to = p.out.from(SQUARE * i, range.start);
                write(run.isa, results, to, Epilogue { bias, relu: p.epilogue.relu });
            }
        }
    }
}

/// Rows of a square as columns.
#[target_feature(enable = "avx512f")]
unsafe fn turn(from: *const u32, to: *mut u32) {
    for (i, j) in [(0, 0), (0, 16), (16, 0), (16, 16)] {
        let rows = std::array::from_fn(|row| _mm512_loadu_si512(from.add((i + row) * SQUARE + j).cast()));
        for (row, words) in transposed(rows).into_iter().enumerate() {
            _mm512_storeu_si512(to.add((j + row) * SQUARE + i).cast(), words);
        }
    }
}
