//! Strips of up to four tiles of rows, multiplied by one tile of columns: the columns are loaded once for four products.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::kernels::narrow::amx::TILE;

/// Tiles of rows of a strip.
pub const TILES: usize = 4;
/// Steps of 32 numbers whose products are added in a tile: as many as in a product of matrices.
pub const DEPTH: usize = 16;
/// Sums of a strip: tiles of 16 rows by 16 columns.
pub const SUMS: usize = TILES * TILE / 4;

/// The left side: where each tile begins, the bytes between its rows, and those from the beginning to each step.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    pub tiles: [*const u8; TILES],
    pub row: usize,
    pub steps: &'a [usize],
}

/// The sums of the first two tiles, or of all four; `right` has a tile for each step, and there is at least one step.
///
/// # Safety
/// `amx::begin` must have been called, all addresses be valid, and `out` have room for [`SUMS`] numbers.
pub unsafe fn sums(left: Left, four: bool, right: *const u8, out: *mut f32) {
    let Left { tiles: [a, b, c, d], row, steps } = left;
    if !four {
        asm!(
            "tilezero tmm0", "tilezero tmm1",
            "2:",
            "mov {t}, [{f}]",
            "tileloadd tmm4, [{r} + {w}]",
            "lea {u}, [{a} + {t}]", "tileloadd tmm5, [{u} + {s}]", "tdpbf16ps tmm0, tmm5, tmm4",
            "lea {u}, [{b} + {t}]", "tileloadd tmm6, [{u} + {s}]", "tdpbf16ps tmm1, tmm6, tmm4",
            "add {f}, 8", "add {r}, 1024", "dec {n}", "jnz 2b",
            "tilestored [{o} + {w}], tmm0", "tilestored [{o} + {w} + 1024], tmm1",
            f = inout(reg) steps.as_ptr() => _, n = inout(reg) steps.len() => _, r = inout(reg) right => _,
            a = in(reg) a, b = in(reg) b, s = in(reg) row, w = in(reg) 64usize, o = in(reg) out,
            t = out(reg) _, u = out(reg) _,
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
            options(nostack)
        );
        return;
    }
    asm!(
        "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
        "2:",
        "mov {t}, [{f}]",
        "tileloadd tmm4, [{r} + {w}]",
        "lea {u}, [{a} + {t}]", "tileloadd tmm5, [{u} + {s}]", "tdpbf16ps tmm0, tmm5, tmm4",
        "lea {u}, [{b} + {t}]", "tileloadd tmm6, [{u} + {s}]", "tdpbf16ps tmm1, tmm6, tmm4",
        "lea {u}, [{c} + {t}]", "tileloadd tmm7, [{u} + {s}]", "tdpbf16ps tmm2, tmm7, tmm4",
        "lea {u}, [{d} + {t}]", "tileloadd tmm5, [{u} + {s}]", "tdpbf16ps tmm3, tmm5, tmm4",
        "add {f}, 8", "add {r}, 1024", "dec {n}", "jnz 2b",
        "tilestored [{o} + {w}], tmm0", "tilestored [{o} + {w} + 1024], tmm1",
        "tilestored [{o} + {w} + 2048], tmm2", "tilestored [{o} + {w} + 3072], tmm3",
        f = inout(reg) steps.as_ptr() => _, n = inout(reg) steps.len() => _, r = inout(reg) right => _,
        a = in(reg) a, b = in(reg) b, c = in(reg) c, d = in(reg) d, s = in(reg) row, w = in(reg) 64usize, o = in(reg) out,
        t = out(reg) _, u = out(reg) _,
        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
        options(nostack)
    );
}

/// Adds sums to totals.
#[target_feature(enable = "avx512f")]
pub unsafe fn join(totals: *mut f32, sums: *const f32, count: usize) {
    for i in (0..count).step_by(16) {
        _mm512_storeu_ps(totals.add(i), _mm512_add_ps(_mm512_loadu_ps(totals.add(i)), _mm512_loadu_ps(sums.add(i))));
    }
}

/// Copies elements without calls, since most runs are short.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn copy(from: *const u16, to: *mut u16, count: usize) {
    for i in (0..count).step_by(32) {
        let mask = u32::MAX >> (32 - (count - i).min(32));
        _mm512_mask_storeu_epi16(to.add(i).cast(), mask, _mm512_maskz_loadu_epi16(mask, from.add(i).cast()));
    }
}

/// A right tile of up to 32 rows of 16 columns: words of the rows 0 and 1, of 2 and 3, and so on, with zeros behind the last.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub unsafe fn rows(rows: &[usize], from: *const u16, to: *mut u8) {
    let row = |i: usize| match rows.get(i) {
        Some(at) => _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.add(*at).cast())),
        None => _mm512_setzero_si512(),
    };
    for i in 0..16 {
        let words = _mm512_or_si512(row(2 * i), _mm512_slli_epi32::<16>(row(2 * i + 1)));
        _mm512_storeu_si512(to.add(64 * i).cast(), words);
    }
}

/// Rounds to bf16, kept as f32, as `Bf16::narrow` does.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn rounded(x: __m512) -> __m512 {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    let all = _mm512_mask_or_epi32(nearest, nan, bits, _mm512_set1_epi32(0x40_0000));
    _mm512_castsi512_ps(_mm512_and_si512(all, _mm512_set1_epi32(0xffff_0000u32.cast_signed())))
}

/// What follows the sums of up to 16 columns.
#[derive(Clone, Copy)]
pub struct Last {
    pub columns: usize,
    pub bias: Option<*const u16>,
    pub relu: bool,
}

/// Writes rows of sums as bf16, `apart` elements from each other, with the bits of a fused step after the rounding.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub unsafe fn write(sums: *const f32, rows: usize, out: *mut u16, apart: usize, last: Last) {
    let mask = (u32::MAX >> (32 - last.columns)) as __mmask16;
    let bias = last.bias.map(|from| {
        let bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
    });
    for i in 0..rows {
        let mut x = rounded(_mm512_loadu_ps(sums.add(16 * i)));
        if let Some(bias) = bias {
            x = rounded(_mm512_add_ps(x, bias));
        }
        if last.relu {
            let kept = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, _mm512_setzero_ps());
            x = _mm512_maskz_mov_ps(kept, x);
        }
        let bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_castps_si512(x)));
        _mm256_mask_storeu_epi16(out.add(i * apart).cast(), mask, bits);
    }
}
