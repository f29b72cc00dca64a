//! Transposing copies of small blocks, in the memory order of their source.

use std::mem::size_of;

/// `to[i · to_row + j] = from[j · from_row + i]` for `i < rows`, `j < columns`.
///
/// # Safety
/// All addresses must be valid, and source and target apart.
pub unsafe fn transpose<T: Copy>(
    from: *const T,
    from_row: isize,
    rows: usize,
    columns: usize,
    to: *mut T,
    to_row: isize,
) {
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 4 && rows >= 4 && columns >= 4 {
        return transpose_words(from.cast(), from_row, rows, columns, to.cast(), to_row);
    }
    for j in 0..columns {
        let source = from.offset(j as isize * from_row);
        for i in 0..rows {
            *to.offset(i as isize * to_row).add(j) = *source.add(i);
        }
    }
}

/// Squares of four by four in registers; the set is part of every x86-64.
#[cfg(target_arch = "x86_64")]
unsafe fn transpose_words(from: *const f32, from_row: isize, rows: usize, columns: usize, to: *mut f32, to_row: isize) {
    use std::arch::x86_64::*;
    // The last squares overlap those before.
    for j in (0..columns).step_by(4).map(|j| j.min(columns - 4)) {
        let source = from.offset(j as isize * from_row);
        for i in (0..rows).step_by(4).map(|i| i.min(rows - 4)) {
            let at = source.add(i);
            if i % 16 == 0 {
                for row in 4..8 {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_offset(row * from_row).cast());
                }
            }
            let a = _mm_loadu_ps(at);
            let b = _mm_loadu_ps(at.offset(from_row));
            let c = _mm_loadu_ps(at.offset(2 * from_row));
            let d = _mm_loadu_ps(at.offset(3 * from_row));
            let (ab_low, cd_low) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
            let target = to.offset(i as isize * to_row).add(j);
            _mm_storeu_ps(target, _mm_movelh_ps(ab_low, cd_low));
            _mm_storeu_ps(target.offset(to_row), _mm_movehl_ps(cd_low, ab_low));
            _mm_storeu_ps(target.offset(2 * to_row), _mm_movelh_ps(ab_high, cd_high));
            _mm_storeu_ps(target.offset(3 * to_row), _mm_movehl_ps(cd_high, ab_high));
        }
    }
}
