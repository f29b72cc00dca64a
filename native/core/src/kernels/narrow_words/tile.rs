//! Rows times weights by a register tile of 6 rows and 16 columns. The rows become words once, for all threads; each thread turns its
//! columns into pairs of words, a block of steps at a time, which stay in L1 while all rows pass.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::widen::{by_signs, words, TOGETHER};
use crate::buffer::Pages;
use crate::kernels::narrow::finish::{write, Epilogue, Sums};
use crate::kernels::narrow::operands::with_room;
use crate::kernels::narrow_weights::product::{parts, Product};
use crate::step::Run;

/// Rows and columns of the register tile.
const ROWS: usize = 6;
const COLUMNS: usize = 16;
/// Steps of a block.
const DEPTH: usize = 512;
/// Words between the ends of rows and the next ones, so that rows do not compete for places of the cache.
const APART: usize = 32;

thread_local! {
    // The rows of the thread that shares the work out, which takes parts itself.
    static WIDE: RefCell<Pages> = const { RefCell::new(Pages::NONE) };
}

/// Rows as words: where the first is, and how far apart they are.
#[derive(Clone, Copy)]
struct Wide(usize, usize);

impl Wide {
    fn at(self, row: usize, step: usize) -> *mut i16 {
        (self.0 as *mut i16).wrapping_add(row * self.1 + step)
    }
}

pub unsafe fn run(run: &Run, p: &Product) {
    let [m, _, k] = p.sizes;
    let apart = k.next_multiple_of(TOGETHER) + APART;
    WIDE.with_borrow_mut(|pages| {
        let wide = Wide(pages.room::<i16>(m * apart) as usize, apart);
        run.pool.run(m.div_ceil(ROWS), usize::MAX, |_, part| {
            for row in part * ROWS..m.min((part + 1) * ROWS) {
                unsafe { by_signs!(p.signed, widen(p, row, wide)) };
            }
        });
        parts(run, p.sizes, COLUMNS, |range| {
            for column in range.clone().step_by(COLUMNS) {
                let some = column..range.end.min(column + COLUMNS);
                unsafe { by_signs!(p.signed, columns(run, p, some, wide)) };
            }
        });
    });
}

#[target_feature(enable = "avx2")]
unsafe fn widen<const X: bool, const W: bool>(p: &Product, row: usize, wide: Wide) {
    let (k, from) = (p.sizes[2], p.x.at(row, 0).from);
    for at in (0..k).step_by(TOGETHER) {
        _mm256_storeu_si256(wide.at(row, at).cast(), words::<X>(from.add(at), k - at));
    }
}

/// All rows times up to 16 columns.
#[target_feature(enable = "avx2")]
unsafe fn columns<const X: bool, const W: bool>(run: &Run, p: &Product, range: Range<usize>, wide: Wide) {
    let [m, _, k] = p.sizes;
    with_room(4 * COLUMNS * (m + DEPTH / 2), |room| {
        let totals = room.cast::<i32>();
        let pairs = totals.add(COLUMNS * m);
        std::slice::from_raw_parts_mut(totals, COLUMNS * m).fill(0);
        for first in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - first);
            for step in (0..depth).step_by(TOGETHER) {
                let count = TOGETHER.min(depth - step);
                for half in [0, COLUMNS / 2] {
                    let lines = std::array::from_fn(|line| match range.start + half + line {
                        column if column < range.end => words::<W>(p.weights.at(column, first + step).from, count),
                        _ => _mm256_setzero_si256(),
                    });
                    for (pair, turned) in turn(lines).into_iter().enumerate() {
                        _mm256_store_si256(pairs.add((step / 2 + pair) * COLUMNS + half).cast(), turned);
                    }
                }
            }
            let steps = depth.div_ceil(2);
            for row in (0..m).step_by(ROWS) {
                let (x, to) = (wide.at(row, first), totals.add(row * COLUMNS));
                match m - row {
                    1 => tile::<1>(x, wide.1, pairs, steps, to),
                    2 => tile::<2>(x, wide.1, pairs, steps, to),
                    3 => tile::<3>(x, wide.1, pairs, steps, to),
                    4 => tile::<4>(x, wide.1, pairs, steps, to),
                    5 => tile::<5>(x, wide.1, pairs, steps, to),
                    _ => tile::<ROWS>(x, wide.1, pairs, steps, to),
                }
            }
        }
        let sums = Sums { from: totals.cast(), width: COLUMNS, rows: m, columns: range.len() };
        let bias = p.epilogue.bias.map(|bias| bias.add(range.start));
        write(run.isa, sums, p.out.from(0, range.start), Epilogue { bias, ..p.epilogue });
    });
}

/// Adds the products of `M` rows with 16 columns of pairs to their totals.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tile<const M: usize>(x: *const i16, apart: usize, pairs: *const i32, steps: usize, totals: *mut i32) {
    let mut sums = [[_mm256_setzero_si256(); 2]; M];
    for step in 0..steps {
        let line = pairs.add(step * COLUMNS).cast::<__m256i>();
        let right = [_mm256_load_si256(line), _mm256_load_si256(line.add(1))];
        for (i, sums) in sums.iter_mut().enumerate() {
            let left = _mm256_set1_epi32(x.add(i * apart + 2 * step).cast::<i32>().read_unaligned());
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
