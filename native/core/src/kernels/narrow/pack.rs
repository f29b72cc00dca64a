//! Tiles of 1 KB: a left tile has 16 rows, each of 16 words of its steps along the contracted dim; a right tile has 16 such words of
//! steps, each of 16 columns. A word has two bf16 or four bytes, neighbours along the contracted dim.

use std::arch::x86_64::*;

use super::operands::Lines;

/// The side of a tile.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Left,
    Right,
}

/// Packs up to 16 lines of up to a step's elements, and fills up with zeros; `flip` changes the highest bit of each byte.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
pub unsafe fn tile(x: Lines, lines: usize, steps: usize, side: Side, flip: bool, to: *mut u8) {
    let (mut words, packed) = if x.along == 1 {
        (rows(x, lines, steps), Side::Left)
    } else if x.across == 1 {
        (if x.size == 2 { pairs(x, lines, steps) } else { quads(x, lines, steps) }, Side::Right)
    } else {
        (scattered(x, lines, steps), Side::Left)
    };
    if packed != side {
        words = transposed(words);
    }
    let bits = _mm512_set1_epi8(if flip { -128 } else { 0 });
    for (i, word) in words.into_iter().enumerate() {
        _mm512_store_si512(to.cast::<__m512i>().add(i), _mm512_xor_si512(word, bits));
    }
}

/// Lines whose elements follow each other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn rows(x: Lines, lines: usize, steps: usize) -> [__m512i; 16] {
    let mut words = [_mm512_setzero_si512(); 16];
    let mask = u64::MAX >> (64 - steps * x.size).min(63);
    for (line, word) in words.iter_mut().enumerate().take(lines) {
        *word = _mm512_maskz_loadu_epi8(mask, x.at(line, 0).from.cast());
    }
    words
}

/// Steps of neighbouring lines of two bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pairs(x: Lines, lines: usize, steps: usize) -> [__m512i; 16] {
    let mask = ((1u32 << lines) - 1) as __mmask16;
    let mut words = [_mm512_setzero_si512(); 16];
    for (i, word) in words.iter_mut().enumerate() {
        let step = |step: usize| {
            let mask = if step < steps { mask } else { 0 };
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x.at(0, step.min(steps - 1)).from.cast()))
        };
        *word = _mm512_or_si512(step(2 * i), _mm512_slli_epi32::<16>(step(2 * i + 1)));
    }
    words
}

/// Steps of neighbouring lines of one byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn quads(x: Lines, lines: usize, steps: usize) -> [__m512i; 16] {
    let mask = ((1u32 << lines) - 1) as __mmask16;
    let mut words = [_mm512_setzero_si512(); 16];
    for (i, word) in words.iter_mut().enumerate() {
        let step = |step: usize| {
            let mask = if step < steps { mask } else { 0 };
            _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, x.at(0, step.min(steps - 1)).from.cast()))
        };
        let low = _mm512_or_si512(step(4 * i), _mm512_slli_epi32::<8>(step(4 * i + 1)));
        let high = _mm512_or_si512(step(4 * i + 2), _mm512_slli_epi32::<8>(step(4 * i + 3)));
        *word = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
    }
    words
}

/// Lines of any strides.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn scattered(x: Lines, lines: usize, steps: usize) -> [__m512i; 16] {
    let mut words = [_mm512_setzero_si512(); 16];
    for (line, word) in words.iter_mut().enumerate().take(lines) {
        let to = std::ptr::from_mut(word).cast::<u8>();
        for step in 0..steps {
            std::ptr::copy_nonoverlapping(x.at(line, step).from, to.add(step * x.size), x.size);
        }
    }
    words
}

/// Rows of words as columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub unsafe fn transposed(x: [__m512i; 16]) -> [__m512i; 16] {
    let mut pairs = x;
    for i in (0..16).step_by(2) {
        pairs[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    // `quads[4 q + c]`: column `c` of each quarter, of the rows `4 q` to `4 q + 3`.
    let mut quads = x;
    for q in (0..16).step_by(4) {
        quads[q] = _mm512_unpacklo_epi64(pairs[q], pairs[q + 2]);
        quads[q + 1] = _mm512_unpackhi_epi64(pairs[q], pairs[q + 2]);
        quads[q + 2] = _mm512_unpacklo_epi64(pairs[q + 1], pairs[q + 3]);
        quads[q + 3] = _mm512_unpackhi_epi64(pairs[q + 1], pairs[q + 3]);
    }
    let mut columns = x;
    for c in 0..4 {
        let [a, b, d, e] = [quads[c], quads[4 + c], quads[8 + c], quads[12 + c]];
        let (even_low, odd_low) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
        let (even_high, odd_high) = (_mm512_shuffle_i32x4::<0x88>(d, e), _mm512_shuffle_i32x4::<0xdd>(d, e));
        columns[c] = _mm512_shuffle_i32x4::<0x88>(even_low, even_high);
        columns[8 + c] = _mm512_shuffle_i32x4::<0xdd>(even_low, even_high);
        columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd_low, odd_high);
        columns[12 + c] = _mm512_shuffle_i32x4::<0xdd>(odd_low, odd_high);
    }
    columns
}
