//! Products of tiles with AVX-512: pairs of bf16 (`vdpbf16ps`), or four 8-bit integers (`vpdpbusd`), per lane.

use std::arch::x86_64::*;

use super::operands::Pair;

/// Rows whose sums are in registers.
const ROWS: usize = 8;

/// The sums of up to 32 rows and columns over `steps` steps, at least one.
///
/// # Safety
/// The processor must have the instructions; each pointer has `steps` tiles.
pub unsafe fn block(pair: Pair, two: bool, steps: usize, left: [*const u8; 2], right: [*const u8; 2], out: *mut u32) {
    for half in 0..if two { 4 } else { 2 } {
        let from = left[half / 2].add(half % 2 * ROWS * 64).cast::<i32>();
        let (columns, to) = (right.map(|tile| tile.cast::<__m512i>()), out.add(half * ROWS * 32).cast::<__m512i>());
        match pair {
            Pair::Bf16 => floats(steps, from, columns, to),
            Pair::Bytes { signed: [false, true] } => bytes::<false, false>(steps, from, columns, to),
            Pair::Bytes { signed: [true, true] } => bytes::<true, false>(steps, from, columns, to),
            Pair::Bytes { signed: [false, false] } => bytes::<false, true>(steps, from, columns, to),
            Pair::Bytes { signed: [true, false] } => bytes::<true, true>(steps, from, columns, to),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn floats(steps: usize, left: *const i32, right: [*const __m512i; 2], out: *mut __m512i) {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for line in 0..steps * 16 {
        let columns = right.map(|tile| std::mem::transmute::<__m512i, __m512bh>(_mm512_load_si512(tile.add(line))));
        for (row, sum) in sums.iter_mut().enumerate() {
            let pair = *left.add(line / 16 * 256 + row * 16 + line % 16);
            let pairs = std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(pair));
            *sum = [_mm512_dpbf16_ps(sum[0], pairs, columns[0]), _mm512_dpbf16_ps(sum[1], pairs, columns[1])];
        }
    }
    for (row, sum) in sums.into_iter().enumerate() {
        _mm512_storeu_si512(out.add(2 * row), _mm512_castps_si512(sum[0]));
        _mm512_storeu_si512(out.add(2 * row + 1), _mm512_castps_si512(sum[1]));
    }
}

/// The instruction takes left bytes without a sign and right bytes with one. So packing has added 128 to left bytes with a sign
/// (`RAISED`), and taken 128 from right bytes without one (`LOWERED`), also where they fill up a tile; it is undone here.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn bytes<const RAISED: bool, const LOWERED: bool>(
    steps: usize,
    left: *const i32,
    right: [*const __m512i; 2],
    out: *mut __m512i,
) {
    let (ones, raise) = (_mm512_set1_epi8(1), _mm512_set1_epi8(-128));
    let mut sums = [[_mm512_setzero_si512(); 2]; ROWS];
    let mut lowered = [_mm512_setzero_si512(); ROWS];
    let mut raised = [_mm512_setzero_si512(); 2];
    for line in 0..steps * 16 {
        let columns = [_mm512_load_si512(right[0].add(line)), _mm512_load_si512(right[1].add(line))];
        if RAISED {
            raised =
                [_mm512_dpbusd_epi32(raised[0], raise, columns[0]), _mm512_dpbusd_epi32(raised[1], raise, columns[1])];
        }
        for (row, sum) in sums.iter_mut().enumerate() {
            let quads = _mm512_set1_epi32(*left.add(line / 16 * 256 + row * 16 + line % 16));
            *sum = [_mm512_dpbusd_epi32(sum[0], quads, columns[0]), _mm512_dpbusd_epi32(sum[1], quads, columns[1])];
            if LOWERED {
                lowered[row] = _mm512_dpbusd_epi32(lowered[row], quads, ones);
            }
        }
    }
    // What both add to each of the products, 64 of them in a step.
    let both = if RAISED && LOWERED { (steps as i32).wrapping_mul(64 << 14) } else { 0 };
    for (row, column) in (0..ROWS).flat_map(|row| (0..2).map(move |column| (row, column))) {
        let raised = _mm512_add_epi32(raised[column], _mm512_set1_epi32(both));
        let sum = _mm512_add_epi32(sums[row][column], _mm512_slli_epi32::<7>(lowered[row]));
        _mm512_storeu_si512(out.add(2 * row + column), _mm512_sub_epi32(sum, raised));
    }
}
