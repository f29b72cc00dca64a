//! The few vector operations that matrix products need, per instruction set.

#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use crate::isa::{Level, Scalar};
use crate::scalar::Float;
use crate::walk::Walk;

/// Vectors of `T` at one level. All functions must be inlined into code compiled for that level.
pub trait Simd<T>: Level {
    type V: Copy;
    const LANES: usize;
    /// Rows and vectors of columns of the product's register tile.
    const ROWS: usize;
    unsafe fn zero() -> Self::V;
    unsafe fn splat(value: T) -> Self::V;
    unsafe fn load(from: *const T) -> Self::V;
    unsafe fn store(to: *mut T, value: Self::V);
    /// The first `count` lanes, the others zero.
    unsafe fn load_some(from: *const T, count: usize) -> Self::V;
    unsafe fn store_some(to: *mut T, count: usize, value: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Computes a tile of `M` rows and `V` vectors if this level has a hand-written loop for it: for left steps (`ALONG`) or
    /// left rows that follow each other without gaps. Returns false otherwise.
    #[inline(always)]
    unsafe fn straight<const M: usize, const V: usize, const FULL: bool, const ALONG: bool>(_: &Walk<T>) -> bool {
        false
    }
}

/// Floats that have vectors at a level.
pub trait Lanes<L: Level>: Float {
    type S: Simd<Self>;
}

impl<T: Float, L: Simd<T>> Lanes<L> for T {
    type S = L;
}

/// Floats that have vectors at every level.
#[cfg(target_arch = "x86_64")]
pub trait Vectors: Lanes<Scalar> + Lanes<Avx2> + Lanes<Avx512> {}
#[cfg(not(target_arch = "x86_64"))]
pub trait Vectors: Lanes<Scalar> {}

impl Vectors for f32 {}
impl Vectors for f64 {}

macro_rules! scalar {
    ($t:ty, $lanes:expr) => {
        impl Simd<$t> for Scalar {
            type V = [$t; $lanes];
            const LANES: usize = $lanes;
            const ROWS: usize = 3;

            #[inline(always)]
            unsafe fn zero() -> Self::V {
                [0.0; $lanes]
            }

            #[inline(always)]
            unsafe fn splat(value: $t) -> Self::V {
                [value; $lanes]
            }

            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self::V {
                from.cast::<Self::V>().read_unaligned()
            }

            #[inline(always)]
            unsafe fn store(to: *mut $t, value: Self::V) {
                to.cast::<Self::V>().write_unaligned(value)
            }

            #[inline(always)]
            unsafe fn load_some(from: *const $t, count: usize) -> Self::V {
                let mut v = [0.0; $lanes];
                for (i, lane) in v.iter_mut().enumerate().take(count) {
                    *lane = *from.add(i);
                }
                v
            }

            #[inline(always)]
            unsafe fn store_some(to: *mut $t, count: usize, value: Self::V) {
                for (i, lane) in value.iter().enumerate().take(count) {
                    *to.add(i) = *lane;
                }
            }

            #[inline(always)]
            unsafe fn add(mut a: Self::V, b: Self::V) -> Self::V {
                for i in 0..$lanes {
                    a[i] += b[i];
                }
                a
            }

            #[inline(always)]
            unsafe fn mul_add(a: Self::V, b: Self::V, mut c: Self::V) -> Self::V {
                for i in 0..$lanes {
                    c[i] = crate::scalar::Float::mul_add::<Scalar>(a[i], b[i], c[i]);
                }
                c
            }
        }
    };
}

scalar!(f32, 8);
scalar!(f64, 4);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use crate::isa::{Avx2, Avx512};
    use crate::walk::Walk;
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($level:ty, $t:ty, $v:ty, $lanes:expr, $rows:expr, $zero:ident, $splat:ident, $load:ident, $store:ident, $add:ident, $fma:ident,
         |$count:ident| $mask:expr, |$lf:ident, $lm:ident| $masked_load:expr, |$st:ident, $sm:ident, $sv:ident| $masked_store:expr $(, $straight:ident)?) => {
            impl Simd<$t> for $level {
                type V = $v;
                const LANES: usize = $lanes;
                const ROWS: usize = $rows;

                #[inline(always)]
                unsafe fn zero() -> $v {
                    $zero()
                }

                #[inline(always)]
                unsafe fn splat(value: $t) -> $v {
                    $splat(value)
                }

                #[inline(always)]
                unsafe fn load(from: *const $t) -> $v {
                    $load(from)
                }

                #[inline(always)]
                unsafe fn store(to: *mut $t, value: $v) {
                    $store(to, value)
                }

                #[inline(always)]
                unsafe fn load_some(from: *const $t, $count: usize) -> $v {
                    let ($lf, $lm) = (from, $mask);
                    $masked_load
                }

                #[inline(always)]
                unsafe fn store_some(to: *mut $t, $count: usize, value: $v) {
                    let ($st, $sm, $sv) = (to, $mask, value);
                    $masked_store
                }

                #[inline(always)]
                unsafe fn add(a: $v, b: $v) -> $v {
                    $add(a, b)
                }

                #[inline(always)]
                unsafe fn mul_add(a: $v, b: $v, c: $v) -> $v {
                    $fma(a, b, c)
                }

                $(
                    #[inline(always)]
                    unsafe fn straight<const M: usize, const V: usize, const FULL: bool, const ALONG: bool>(walk: &Walk<$t>) -> bool {
                        crate::straight::$straight::<M, V, FULL, ALONG>(walk);
                        true
                    }
                )?
            }
        };
    }

    static MASK32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    static MASK64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

    vector! {
        Avx2, f32, __m256, 8, 6,
        _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_fmadd_ps,
        |count| _mm256_loadu_si256(MASK32.as_ptr().add(8 - count).cast()),
        |from, mask| _mm256_maskload_ps(from, mask),
        |to, mask, value| _mm256_maskstore_ps(to, mask, value),
        avx2_single
    }
    vector! {
        Avx2, f64, __m256d, 4, 6,
        _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_fmadd_pd,
        |count| _mm256_loadu_si256(MASK64.as_ptr().add(4 - count).cast()),
        |from, mask| _mm256_maskload_pd(from, mask),
        |to, mask, value| _mm256_maskstore_pd(to, mask, value),
        avx2_double
    }
    vector! {
        Avx512, f32, __m512, 16, 14,
        _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps,
        |count| ((1u32 << count) - 1) as __mmask16,
        |from, mask| _mm512_maskz_loadu_ps(mask, from),
        |to, mask, value| _mm512_mask_storeu_ps(to, mask, value),
        avx512_single
    }
    vector! {
        Avx512, f64, __m512d, 8, 14,
        _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_fmadd_pd,
        |count| ((1u32 << count) - 1) as __mmask8,
        |from, mask| _mm512_maskz_loadu_pd(mask, from),
        |to, mask, value| _mm512_mask_storeu_pd(to, mask, value),
        avx512_double
    }
}
