//! Rows times weights by a register tile of 6 rows and 16 columns. The rows become words once, for all threads, in panels of 6 that lie as the
//! tile reads them; each thread turns its columns into pairs of words, a block of steps at a time, which stay in L1 while all rows pass.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::widen::{by_signs, words, TOGETHER};
use crate::buffer::Pages;
use crate::kernels::narrow::finish::{write, Epilogue, Sums};
use crate::kernels::narrow::operands::with_room;
use crate::kernels::narrow_weights::product::{parts, Product};
use crate::step::Run;
use crate::walk::fetch;

/// Rows and columns of the register tile.
const ROWS: usize = 6;
const COLUMNS: usize = 16;
/// Steps of a block.
const DEPTH: usize = 512;
/// Totals of the columns that pass together, which stay in L2 or near it; a thread keeps room for them.
const TOTALS: usize = 1 << 18;

thread_local! {
    // The rows of the thread that shares the work out, which takes parts itself.
    static WIDE: RefCell<Pages> = const { RefCell::new(Pages::NONE) };
}

/// Rows as pairs of words, in panels of `ROWS`: a pair of each row, then the next pairs. Where the first panel is, and the pairs of each.
#[derive(Clone, Copy)]
struct Wide(usize, usize);

impl Wide {
    fn at(self, row: usize, step: usize) -> *mut i32 {
        (self.0 as *mut i32).wrapping_add(row / ROWS * self.1 + step / 2 * ROWS + row % ROWS)
    }
}

pub unsafe fn run(run: &Run, p: &Product) {
    let [m, _, k] = p.sizes;
    let panel = k.next_multiple_of(TOGETHER) / 2 * ROWS;
    WIDE.with_borrow_mut(|pages| {
        let wide = Wide(pages.room::<i32>(m.div_ceil(ROWS) * panel) as usize, panel);
        run.pool.run(m.div_ceil(ROWS), usize::MAX, |_, part| {
            for row in part * ROWS..m.min((part + 1) * ROWS) {
                unsafe { by_signs!(p.signed, widen(p, row, wide)) };
            }
        });
        let most = (TOTALS / m / COLUMNS * COLUMNS).max(COLUMNS);
        parts(run, p.sizes, COLUMNS, |range| {
            for first in range.clone().step_by(most) {
                let some = first..range.end.min(first + most);
                unsafe { by_signs!(p.signed, columns(run, p, some, wide)) };
            }
        });
    });
}

#[target_feature(enable = "avx2")]
unsafe fn widen<const X: bool, const W: bool>(p: &Product, row: usize, wide: Wide) {
    let (k, from) = (p.sizes[2], p.x.at(row, 0).from);
    for at in (0..k).step_by(TOGETHER) {
        let mut pairs = [0i32; TOGETHER / 2];
        _mm256_storeu_si256(pairs.as_mut_ptr().cast(), words::<X>(from.add(at), k - at));
        pairs.iter().enumerate().for_each(|(i, pair)| *wide.at(row, at + 2 * i) = *pair);
    }
}

/// All rows times some columns. A block of the rows' steps stays in L2 while all columns pass.
#[target_feature(enable = "avx2")]
unsafe fn columns<const X: bool, const W: bool>(run: &Run, p: &Product, range: Range<usize>, wide: Wide) {
    let [m, _, k] = p.sizes;
    let width = range.len().next_multiple_of(COLUMNS);
    with_room(4 * (width * m + COLUMNS * DEPTH / 2), |room| {
        let totals = room.cast::<i32>();
        let pairs = totals.add(width * m);
        std::slice::from_raw_parts_mut(totals, width * m).fill(0);
        let groups = || range.clone().step_by(COLUMNS).map(|column| (column, totals.add((column - range.start) * m)));
        for first in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - first);
            for (column, totals) in groups() {
                let some = column..range.end.min(column + COLUMNS);
                pair_up::<W>(p, some, first..first + depth, pairs);
                // What passes next: runs of weights are too short for the processor to read ahead.
                let next =
                    if column + COLUMNS < range.end { (column + COLUMNS, first) } else { (range.start, first + DEPTH) };
                for (line, column) in (0..depth).step_by(64).flat_map(|l| (0..COLUMNS).map(move |c| (l, next.0 + c))) {
                    fetch(p.weights.at(column, next.1 + line).from, 64);
                }
                for row in (0..m).step_by(ROWS) {
                    rows(m - row, wide.at(row, first), pairs, depth.div_ceil(2), totals.add(row * COLUMNS));
                }
            }
        }
        for (column, totals) in groups() {
            let sums = Sums { from: totals.cast(), width: COLUMNS, rows: m, columns: COLUMNS.min(range.end - column) };
            let bias = p.epilogue.bias.map(|bias| bias.add(column));
            write(run.isa, sums, p.out.from(0, column), Epilogue { bias, ..p.epilogue });
        }
    });
}

/// Writes the weights of up to 16 columns as pairs of words, those of all columns side by side.
#[target_feature(enable = "avx2")]
unsafe fn pair_up<const W: bool>(p: &Product, columns: Range<usize>, steps: Range<usize>, pairs: *mut i32) {
    for step in steps.clone().step_by(TOGETHER) {
        for half in [0, COLUMNS / 2] {
            let lines = std::array::from_fn(|line| match columns.start + half + line {
                column if column < columns.end => words::<W>(p.weights.at(column, step).from, steps.end - step),
                _ => _mm256_setzero_si256(),
            });
            for (pair, turned) in turn(lines).into_iter().enumerate() {
                let at = ((step - steps.start) / 2 + pair) * COLUMNS + half;
                _mm256_store_si256(pairs.add(at).cast(), turned);
            }
        }
    }
}

/// The tile for at most six of the rows that are left.
#[target_feature(enable = "avx2")]
unsafe fn rows(left: usize, x: *const i32, pairs: *const i32, steps: usize, to: *mut i32) {
    match left {
        1 => tile::<1>(x, pairs, steps, to),
        2 => tile::<2>(x, pairs, steps, to),
        3 => tile::<3>(x, pairs, steps, to),
        4 => tile::<4>(x, pairs, steps, to),
        5 => tile::<5>(x, pairs, steps, to),
        _ => tile::<ROWS>(x, pairs, steps, to),
    }
}

/// Adds the products of `M` rows with 16 columns of pairs to their totals.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tile<const M: usize>(x: *const i32, pairs: *const i32, steps: usize, totals: *mut i32) {
    let mut sums = [[_mm256_setzero_si256(); 2]; M];
    for step in 0..steps {
        let line = pairs.add(step * COLUMNS).cast::<__m256i>();
        let right = [_mm256_load_si256(line), _mm256_load_si256(line.add(1))];
        for (i, sums) in sums.iter_mut().enumerate() {
            let left = _mm256_set1_epi32(*x.add(step * ROWS + i));
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(left, right));
            }
        }
    }
    for (i, half) in (0..M).flat_map(|i| [(i, 0), (i, 1)]) {
        let to = totals.add(i * COLUMNS + half * COLUMNS / 2).cast::<__m256i>();
        _mm256_store_si256(to, _mm256_add_epi32(_mm256_load_si256(to), sums[i][half]));
    }
}

/// Lines of 8 pairs as 8 lines of one pair each.
#[inline]
#[target_feature(enable = "avx2")]
fn turn(lines: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = lines;
    let low = [(a, b), (c, d), (e, f), (g, h)].map(|(a, b)| _mm256_unpacklo_epi32(a, b));
    let high = [(a, b), (c, d), (e, f), (g, h)].map(|(a, b)| _mm256_unpackhi_epi32(a, b));
    // Four lines: pairs 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    let four = |at: usize| {
        [
            _mm256_unpacklo_epi64(low[at], low[at + 1]),
            _mm256_unpackhi_epi64(low[at], low[at + 1]),
            _mm256_unpacklo_epi64(high[at], high[at + 1]),
            _mm256_unpackhi_epi64(high[at], high[at + 1]),
        ]
    };
    let (first, second) = (four(0), four(2));
    std::array::from_fn(|pair| {
        let (a, b) = (first[pair % 4], second[pair % 4]);
        if pair < 4 {
            _mm256_permute2x128_si256::<0x20>(a, b)
        } else {
            _mm256_permute2x128_si256::<0x31>(a, b)
        }
    })
}
