//! Rows times weights by AMX tiles: weights are the left side, whose tiles are copies of their rows, and the rows are packed once as the
//! right side, for all threads. So what comes out is turned.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::product::{parts, Product};
use crate::buffer::Pages;
use crate::kernels::narrow::amx::{add, begin, end, TILE};
use crate::kernels::narrow::finish::{write, Epilogue, Sums};
use crate::kernels::narrow::operands::{with_room, Lines};
use crate::kernels::narrow::pack::{tile, transposed, Side};
use crate::kernels::product::Matrix;
use crate::step::Run;

/// Weights and rows of a square of two by two tiles.
const SQUARE: usize = 32;
/// Numbers of a square.
const SUMS: usize = SQUARE * SQUARE;
/// Bytes of a step along the contracted dim.
pub const STEP: usize = 64;
/// Steps of a block: its weights and the rows of a square stay in L1.
pub const DEPTH: usize = 8;
/// Bytes by which weights are fetched ahead.
const AHEAD: usize = 2048;

thread_local! {
    // The packed rows of the thread that shares the work out, which takes parts itself.
    static ROWS: RefCell<Pages> = const { RefCell::new(Pages::NONE) };
}

pub unsafe fn run(run: &Run, p: &Product) {
    packed(run, p, (DEPTH, None), 0, |ready| {
        parts(run, p.sizes, SQUARE, |range| unsafe { part(run, p, range, ready, None) });
    });
}

/// Makes the bytes of 16 rows from a step on: takes the number of the rows, the step, and room for them; gives where they are and the bytes
/// from row to row.
pub type Rows<'a> = &'a (dyn Fn(usize, usize, *mut u8) -> (*const u8, usize) + Sync);

/// Packed rows, and room for numbers behind them.
#[derive(Clone, Copy)]
pub struct Ready(usize, usize);

impl Ready {
    pub fn numbers(self) -> *mut f32 {
        (self.0 + self.1) as *mut f32
    }
}

/// Packs the rows for all threads, so many steps at once, and calls `f` with them and with room for so many f32. Without `rows` they are
/// bytes in memory.
pub unsafe fn packed(
    run: &Run,
    p: &Product,
    (depth, rows): (usize, Option<Rows>),
    numbers: usize,
    f: impl FnOnce(Ready),
) {
    let [m, _, k] = p.sizes;
    let (steps, halves) = (k.div_ceil(STEP), m.div_ceil(16));
    let bytes = 2 * m.div_ceil(SQUARE) * steps.next_multiple_of(DEPTH) * TILE;
    ROWS.with_borrow_mut(|pages| {
        let to = pages.room::<u8>(bytes + 4 * numbers) as usize;
        // Threads share the contracted dim as they shared the columns of the product that made the rows.
        run.pool.run(steps.div_ceil(depth), usize::MAX, |_, block| {
            with_room(16 * depth * STEP, |room| {
                let first = block * depth;
                for half in 0..halves {
                    let made = rows.map(|rows| rows(half, first, room));
                    for step in first..steps.min(first + depth) {
                        let from = match made {
                            Some((from, across)) => {
                                Lines { from, size: 1, across: across as isize, along: 1 }.at(0, (step - first) * STEP)
                            }
                            None => p.x.at(16 * half, step * STEP),
                        };
                        let (lines, count) = ((m - 16 * half).min(16), STEP.min(k - step * STEP));
                        let to = (to as *mut u8).add(place(m.div_ceil(SQUARE), half, step));
                        tile(from, lines, count, Side::Right, false, to);
                    }
                }
            });
        });
        f(Ready(to, bytes));
    });
}

/// The products of all rows with weights: written, or given to `after` as rows without gaps.
pub unsafe fn part(run: &Run, p: &Product, range: Range<usize>, ready: Ready, after: Option<&dyn Fn(*mut u8)>) {
    let [m, _, k] = p.sizes;
    let own = 2 * k.div_ceil(STEP) * TILE + 4 * (m.div_ceil(SQUARE) + 1) * SUMS;
    with_room(own + after.map_or(0, |_| 4 * m * range.len()), |room| {
        let kept = room.add(own);
        let ptr = kept.cast::<i32>().wrapping_sub(range.start).cast_const();
        let out = after.map_or(p.out, |_| Matrix { ptr, rows: range.len() as isize, columns: 1 });
        let product = Product { out, ..*p };
        begin(16);
        for column in range.clone().step_by(SQUARE) {
            columns(run, &product, column..range.end.min(column + SQUARE), ready.0 as *const u8, room);
        }
        end();
        if let Some(after) = after {
            after(kept);
        }
    });
}

/// Where the packed tile of 16 rows is: those of a block lie together.
fn place(squares: usize, half: usize, step: usize) -> usize {
    ((step / DEPTH * 2 * squares + half) * DEPTH + step % DEPTH) * TILE
}

/// The products of all rows with up to 32 weights.
unsafe fn columns(run: &Run, p: &Product, range: Range<usize>, packed: *const u8, room: *mut u8) {
    let [m, _, k] = p.sizes;
    let (steps, squares) = (k.div_ceil(STEP), m.div_ceil(SQUARE));
    for line in 0..SQUARE {
        let from = (line < range.len()).then(|| p.weights.at(range.start + line, 0).from);
        copy(from, k, room.add(line / 16 * steps * TILE + line % 16 * STEP));
    }
    let totals = room.add(2 * steps * TILE).cast::<u32>();
    let turned = totals.add(squares * SUMS);
    std::slice::from_raw_parts_mut(totals, squares * SUMS).fill(0);
    // The weights are on the left here.
    let signed = [p.signed[1], p.signed[0]];
    for first in (0..steps).step_by(DEPTH) {
        let count = DEPTH.min(steps - first);
        let left = [0, steps].map(|half| room.add((half + first) * TILE).cast_const());
        for i in 0..squares {
            let right = [0, 1].map(|half| packed.add(place(squares, (2 * i + half).min(m.div_ceil(16) - 1), first)));
            let total = totals.add(i * SUMS);
            add(signed, count, left, right, total);
            if first + count == steps {
                let rows = SQUARE.min(m - SQUARE * i);
                let (to, bias) = (p.out.from(SQUARE * i, range.start), p.epilogue.bias);
                let plain = to.columns == 1 && bias.is_none() && !p.epilogue.relu;
                if plain && [rows, range.len()] == [SQUARE; 2] {
                    turn(total, to.ptr.cast_mut().cast(), to.rows);
                    continue;
                }
                turn(total, turned, SQUARE as isize);
                let results = Sums { from: turned, width: SQUARE, rows, columns: range.len() };
                let bias = bias.map(|bias| bias.add(range.start));
                write(run.isa, results, to, Epilogue { bias, ..p.epilogue });
            }
        }
    }
}

/// Copies a row to its place in each step's tile, with zeros behind it, or zeros alone.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn copy(from: Option<*const u8>, k: usize, to: *mut u8) {
    for (step, at) in (0..k).step_by(STEP).enumerate() {
        let mut bytes = _mm512_setzero_si512();
        if let Some(from) = from {
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at + AHEAD).cast());
            bytes = _mm512_maskz_loadu_epi8(u64::MAX >> (STEP - (k - at).min(STEP)), from.add(at).cast());
        }
        _mm512_store_si512(to.add(step * TILE).cast(), bytes);
    }
}

/// Rows of a square as columns, `width` apart.
#[target_feature(enable = "avx512f")]
unsafe fn turn(from: *const u32, to: *mut u32, width: isize) {
    for (i, j) in [(0, 0), (0, 16), (16, 0), (16, 16)] {
        let rows = std::array::from_fn(|row| _mm512_loadu_si512(from.add((i + row) * SQUARE + j).cast()));
        for (row, words) in transposed(rows).into_iter().enumerate() {
            _mm512_storeu_si512(to.offset((j + row) as isize * width).add(i).cast(), words);
        }
    }
}
