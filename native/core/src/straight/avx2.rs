//! The loop for AVX2: 6 rows, 2 vectors of columns.

use std::arch::asm;
use std::arch::x86_64::*;

use super::frame::Frame;
use crate::walk::Walk;

/// One step: a row of the right operand against all rows of the left one.
macro_rules! step {
    ($load:literal, $some:literal, $splat:literal, $fma:literal, $unrolled:literal, $after:literal, [$($i:literal $first:literal $second:literal $at:literal)+]) => {
        concat!(
            ".if {v} == 2\n",
            $load, " ymm12, [{right}]\n",
            ".if {full}\n", $load, " ymm13, [{right} + 32]\n",
            ".else\n", $some, " ymm13, ymm15, [{right} + 32]\n.endif\n",
            ".else\n",
            $some, " ymm12, ymm15, [{right}]\n",
            ".endif\n",
            "add {right}, {right_row}\n",
            $(
                ".if {m} > ", $i, "\n",
                $splat, " ymm14, [", $at, " + ", $unrolled, " * {size}]\n",
                $fma, " ymm", $first, ", ymm12, ymm14\n",
                ".if {v} == 2\n", $fma, " ymm", $second, ", ymm13, ymm14\n.endif\n",
                ".endif\n",
            )+
            $after, "\n"
        )
    };
}

macro_rules! walk {
    ($walk:expr, $size:literal, $m:expr, $v:expr, $full:expr, $mask:expr, $load:literal, $some:literal, $splat:literal, $fma:literal, $v_type:ty, $stride:expr,
     run: $run:literal, after: $after:literal, unrolled: [$u0:literal $u1:literal $u2:literal $u3:literal], next: $next:literal, one: $one:literal, $rows:tt) => {{
        let x = $walk;
        let frame = Frame::new(x);
        let zero: $v_type = std::mem::zeroed();
        let mut sum = [[zero; 2]; 6];
        asm!(
            "2:",
            "mov {base}, [{segments}]",
            "add {segments}, 8",
            "lea {base}, [{base} * {size}]",
            "add {base}, [{frame}]",
            $run,
            "mov {count}, [{frame} + 16]",
            "test {count}, {count}",
            "jz 4f",
            ".p2align 4",
            "3:",
            step!($load, $some, $splat, $fma, $u0, $after, $rows),
            step!($load, $some, $splat, $fma, $u1, $after, $rows),
            step!($load, $some, $splat, $fma, $u2, $after, $rows),
            step!($load, $some, $splat, $fma, $u3, $after, $rows),
            $next,
            "prefetcht1 [{ahead}]",
            "add {ahead}, {ahead_row}",
            "dec {count}",
            "jnz 3b",
            "4:",
            "mov {count}, [{frame} + 24]",
            "test {count}, {count}",
            "jz 6f",
            "5:",
            step!($load, $some, $splat, $fma, "0", $after, $rows),
            $one,
            "dec {count}",
            "jnz 5b",
            "6:",
            "cmp {segments}, [{frame} + 8]",
            "jne 2b",
            m = const $m,
            v = const $v,
            full = const $full as i32,
            size = const $size,
            frame = in(reg) &frame,
            segments = inout(reg) x.segments.as_ptr() => _,
            right = inout(reg) x.right => _,
            right_row = in(reg) x.right_row * $size,
            s = in(reg) $stride * $size,
            base = out(reg) _,
            base3 = out(reg) _,
            count = out(reg) _,
            ahead = inout(reg) x.ahead => _,
            ahead_row = in(reg) x.ahead_row * $size,
            inout("ymm0") sum[0][0], inout("ymm1") sum[0][1], inout("ymm2") sum[1][0], inout("ymm3") sum[1][1],
            inout("ymm4") sum[2][0], inout("ymm5") sum[2][1], inout("ymm6") sum[3][0], inout("ymm7") sum[3][1],
            inout("ymm8") sum[4][0], inout("ymm9") sum[4][1], inout("ymm10") sum[5][0], inout("ymm11") sum[5][1],
            out("ymm12") _, out("ymm13") _, out("ymm14") _, in("ymm15") $mask,
            options(nostack, readonly),
        );
        sum
    }};
}

macro_rules! straight {
    ($name:ident, $t:ty, $v:ty, $size:literal, $load:literal, $some:literal, $splat:literal, $fma:literal, $count:ident => $mask:expr, $add:ident, $read:ident, $read_some:ident, $write:ident, $write_some:ident) => {
        /// A tile of `M` (at most 6) rows and `V` vectors of columns. Rows of the left operand (`ALONG` false) or its
        /// steps (`ALONG`) follow each other without gaps.
        ///
        /// # Safety
        /// All addresses that the walk describes must be valid, and the processor must have AVX2 and FMA.
        #[target_feature(enable = "avx2,fma")]
        pub unsafe fn $name<const M: usize, const V: usize, const FULL: bool, const ALONG: bool>(x: &Walk<$t>) {
            // The tile of the result is there when the loop ends.
            for i in 0..M {
                let out = x.out.wrapping_offset(i as isize * x.out_row);
                let last = (V - 1) * (32 / $size) + x.tail - 1;
                _mm_prefetch::<_MM_HINT_T0>(out.cast());
                _mm_prefetch::<_MM_HINT_T0>(out.wrapping_add(last).cast());
            }
            let $count = x.tail;
            let mask = $mask;
            let sum = if ALONG {
                // Rows 0 to 5 from two addresses.
                walk!(x, $size, M, V, FULL, mask, $load, $some, $splat, $fma, $v, x.left_row,
                    run: "lea {base3}, [{s} + {s} * 2]\nadd {base3}, {base}",
                    after: "",
                    unrolled: ["0" "1" "2" "3"],
                    next: "add {base}, 4 * {size}\nadd {base3}, 4 * {size}",
                    one: "add {base}, {size}\nadd {base3}, {size}",
                    ["0" "0" "1" "{base}"
                     "1" "2" "3" "{base} + {s}"
                     "2" "4" "5" "{base} + {s} * 2"
                     "3" "6" "7" "{base3}"
                     "4" "8" "9" "{base3} + {s}"
                     "5" "10" "11" "{base3} + {s} * 2"])
            } else {
                walk!(x, $size, M, V, FULL, mask, $load, $some, $splat, $fma, $v, x.left_step,
                    run: "/* {base3} */",
                    after: "add {base}, {s}",
                    unrolled: ["0" "0" "0" "0"],
                    next: "",
                    one: "",
                    ["0" "0" "1" "{base}"
                     "1" "2" "3" "{base} + {size}"
                     "2" "4" "5" "{base} + 2 * {size}"
                     "3" "6" "7" "{base} + 3 * {size}"
                     "4" "8" "9" "{base} + 4 * {size}"
                     "5" "10" "11" "{base} + 5 * {size}"])
            };
            for (i, row) in sum.iter().enumerate().take(M) {
                for (v, value) in row.iter().enumerate().take(V) {
                    let to = x.out.offset(i as isize * x.out_row).add(v * (32 / $size));
                    if FULL || v + 1 < V {
                        $write(to, if x.accumulate { $add($read(to), *value) } else { *value });
                    } else {
                        $write_some(to, mask, if x.accumulate { $add($read_some(to, mask), *value) } else { *value });
                    }
                }
            }
        }
    };
}

static ONES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

straight! {
    single, f32, __m256, 4, "vmovups", "vmaskmovps", "vbroadcastss", "vfmadd231ps",
    count => _mm256_loadu_si256(ONES.as_ptr().add(8 - count).cast()),
    _mm256_add_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_storeu_ps, _mm256_maskstore_ps
}
straight! {
    double, f64, __m256d, 8, "vmovupd", "vmaskmovpd", "vbroadcastsd", "vfmadd231pd",
    count => _mm256_loadu_si256(ONES.as_ptr().add(8 - 2 * count).cast()),
    _mm256_add_pd, _mm256_loadu_pd, _mm256_maskload_pd, _mm256_storeu_pd, _mm256_maskstore_pd
}
