//! One row times weights: the weights pass once, four columns side by side.

use std::arch::x86_64::*;
use std::ops::Range;

use super::widen::{by_signs, words, TOGETHER};
use crate::kernels::narrow::finish::Outcome;
use crate::kernels::narrow_weights::product::{parts, Product};
use crate::step::Run;

/// Columns that pass together: their row becomes words once.
const COLUMNS: usize = 4;

pub unsafe fn run(run: &Run, p: &Product) {
    parts(run, p.sizes, TOGETHER, |range| unsafe { by_signs!(p.signed, columns(p, range)) });
}

#[target_feature(enable = "avx2")]
unsafe fn columns<const X: bool, const W: bool>(p: &Product, range: Range<usize>) {
    let k = p.sizes[2];
    for column in range.clone().step_by(COLUMNS) {
        // Columns behind the last are that one again.
        let weights: [*const u8; COLUMNS] =
            std::array::from_fn(|i| p.weights.at((column + i).min(range.end - 1), 0).from);
        let mut sums = [_mm256_setzero_si256(); COLUMNS];
        for at in (0..k).step_by(TOGETHER) {
            let x = words::<X>(p.x.from.add(at), k - at);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, words::<W>(weights.add(at), k - at)));
            }
        }
        for (i, sum) in sums.into_iter().enumerate().take(range.end - column) {
            let mut lanes = [0i32; 8];
            _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum);
            let total = lanes.into_iter().fold(0, i32::wrapping_add);
            let total = p.epilogue.bias.map_or(total, |bias| total.plus(*bias.add(column + i)));
            *p.out.at(0, column + i).cast_mut() = if p.epilogue.relu { total.relu() } else { total };
        }
    }
}
