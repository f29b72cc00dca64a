//! One row times weights, with AVX-512's VNNI: the weights pass once, as one stream.

use std::arch::x86_64::*;
use std::ops::Range;

use super::product::{parts, Product};
use crate::kernels::narrow::finish::Outcome;
use crate::step::Run;

/// Sums side by side, so that none waits for the one before.
const SUMS: usize = 4;

pub unsafe fn run(run: &Run, p: &Product) {
    let columns: unsafe fn(&Product, Range<usize>) = match p.signed {
        [false, true] => columns::<false, true>,
        [true, true] => columns::<true, true>,
        [false, false] => columns::<false, false>,
        [true, false] => columns::<true, false>,
    };
    parts(run, p.sizes, 16, |range| unsafe { columns(p, range) });
}

/// The instruction takes left bytes without a sign and right bytes with one. Where a number is not so, its highest bit is changed,
/// which adds or takes 128; the sums of what 128 was multiplied with undo it.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn columns<const X: bool, const W: bool>(p: &Product, range: Range<usize>) {
    let k = p.sizes[2];
    let (ones, high) = (_mm512_set1_epi8(1), _mm512_set1_epi8(-128));
    let zero = _mm512_setzero_si512();
    let load = |from: *const u8, at: usize| {
        let mask = u64::MAX >> (64 - (k - at).min(64));
        (_mm512_maskz_loadu_epi8(mask, from.add(at).cast()), _mm512_maskz_mov_epi8(mask, high))
    };
    for column in range {
        let weights = p.weights.at(column, 0).from;
        let mut sums = [zero; SUMS];
        let mut beside = [zero; 2];
        for at in (0..k).step_by(64) {
            let (mut x, bit) = load(p.x.from, at);
            let (mut w, _) = load(weights, at);
            if X {
                x = _mm512_xor_si512(x, bit);
            }
            if !W {
                beside[0] = _mm512_dpbusd_epi32(beside[0], x, ones);
                w = _mm512_xor_si512(w, bit);
            }
            if X {
                beside[1] = _mm512_dpbusd_epi32(beside[1], bit, w);
            }
            let sum = &mut sums[at / 64 % SUMS];
            *sum = _mm512_dpbusd_epi32(*sum, x, w);
        }
        let sum = _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
        let added = _mm512_sub_epi32(_mm512_slli_epi32::<7>(beside[0]), beside[1]);
        // What both changes add to each of the products.
        let both = if X && !W { (k as i32).wrapping_mul(1 << 14) } else { 0 };
        let total = _mm512_reduce_add_epi32(_mm512_add_epi32(sum, added)).wrapping_sub(both);
        let with_bias = p.epilogue.bias.map_or(total, |bias| total.plus(*bias.add(column)));
        let to = p.out.at(0, column).cast_mut();
        *to = if p.epilogue.relu { with_bias.relu() } else { with_bias };
    }
}
