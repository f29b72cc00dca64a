//! Bytes as words.

use std::arch::x86_64::*;

/// Bytes that become words at once.
pub const TOGETHER: usize = 16;

/// The first `count` bytes, at most 16, as words; zeros behind them. Only those bytes are read.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn words<const SIGNED: bool>(from: *const u8, count: usize) -> __m256i {
    let bytes = if count >= TOGETHER {
        _mm_loadu_si128(from.cast())
    } else {
        let mut some = [0u8; TOGETHER];
        std::ptr::copy_nonoverlapping(from, some.as_mut_ptr(), count);
        _mm_loadu_si128(some.as_ptr().cast())
    };
    if SIGNED {
        _mm256_cvtepi8_epi16(bytes)
    } else {
        _mm256_cvtepu8_epi16(bytes)
    }
}

/// Calls a function that takes as constants whether the bytes of the two sides have a sign.
macro_rules! by_signs {
    ($signed:expr, $name:ident($($argument:expr),*)) => {
        match $signed {
            [false, false] => $name::<false, false>($($argument),*),
            [false, true] => $name::<false, true>($($argument),*),
            [true, false] => $name::<true, false>($($argument),*),
            [true, true] => $name::<true, true>($($argument),*),
        }
    };
}
pub(super) use by_signs;
