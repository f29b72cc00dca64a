//! Rows times weights by AMX tiles: weights are the left side, whose tiles are copies of their rows, and the rows are packed once as the
//! right side, for all threads. So what comes out is turned.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::product::{parts, Product};
use crate::buffer::Pages;
use crate::kernels::narrow::amx::{add, begin, end, TILE};
use crate::kernels::narrow::finish::{write, Epilogue, Sums};
use crate::kernels::narrow::operands::with_room;
use crate::kernels::narrow::pack::{tile, transposed, Side};
use crate::step::Run;

/// Weights and rows of a square of two by two tiles.
const SQUARE: usize = 32;
/// Numbers of a square.
const SUMS: usize = SQUARE * SQUARE;
/// Bytes of a step along the contracted dim.
const STEP: usize = 64;
/// Steps of a block: its weights and the rows of a square stay in L1.
const DEPTH: usize = 8;
/// Bytes by which weights are fetched ahead.
const AHEAD: usize = 2048;

thread_local! {
    // The packed rows of the thread that shares the work out, which takes parts itself.
    static ROWS: RefCell<Pages> = const { RefCell::new(Pages::NONE) };
}

pub unsafe fn run(run: &Run, p: &Product) {
    let [m, _, k] = p.sizes;
    let (steps, squares) = (k.div_ceil(STEP), m.div_ceil(SQUARE));
    ROWS.with_borrow_mut(|pages| {
        let packed = pages.room::<u8>(2 * squares * steps.next_multiple_of(DEPTH) * TILE) as usize;
        for (half, step) in (0..m.div_ceil(16)).flat_map(|half| (0..steps).map(move |step| (half, step))) {
            let to = (packed as *mut u8).add(place(squares, half, step));
            let (lines, count) = ((m - 16 * half).min(16), STEP.min(k - step * STEP));
            tile(p.x.at(16 * half, step * STEP), lines, count, Side::Right, false, to);
        }
        parts(run, p.sizes, SQUARE, |range| {
            with_room(2 * steps * TILE + 4 * (squares + 1) * SUMS, |room| {
                begin(16);
                for column in range.clone().step_by(SQUARE) {
                    columns(run, p, column..range.end.min(column + SQUARE), packed as *const u8, room);
                }
                end();
            });
        });
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
