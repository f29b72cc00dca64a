//! The loop for AVX-512: 14 rows, 2 vectors of columns. For every step of the contracted index, the compiler's loop has ten
//! instructions besides the multiply-adds, and this loop has two.

use std::arch::asm;
use std::arch::x86_64::*;

use super::frame::Frame;
use crate::walk::Walk;

/// One step: a row of the right operand against all rows of the left one.
macro_rules! step {
    ($load:literal, $splat:literal, $fma:literal, $unrolled:literal, $after:literal, [$($i:literal $first:literal $second:literal $at:literal)+]) => {
        concat!(
            ".if {v} == 2\n",
            $load, " zmm28, [{right}]\n",
            // A mask takes a port that the multiply-adds need.
            ".if {full}\n", $load, " zmm29, [{right} + 64]\n",
            ".else\n", $load, " zmm29 {{{mask}}} {{z}}, [{right} + 64]\n.endif\n",
            ".else\n",
            $load, " zmm28 {{{mask}}} {{z}}, [{right}]\n",
            ".endif\n",
            "add {right}, {right_row}\n",
            $(
                ".if {m} > ", $i, "\n",
                $splat, " zmm30, [", $at, " + ", $unrolled, " * {size}]\n",
                $fma, " zmm", $first, ", zmm28, zmm30\n",
                ".if {v} == 2\n", $fma, " zmm", $second, ", zmm29, zmm30\n.endif\n",
                ".endif\n",
            )+
            $after, "\n"
        )
    };
}

macro_rules! walk {
    ($walk:expr, $size:literal, $m:expr, $v:expr, $full:expr, $load:literal, $splat:literal, $fma:literal, $v_type:ty, $stride:expr,
     begin: $begin:literal, run: $run:literal, after: $after:literal, unrolled: [$u0:literal $u1:literal $u2:literal $u3:literal], next: $next:literal, one: $one:literal, $rows:tt) => {{
        let x = $walk;
        let frame = Frame::new(x);
        let mask = ((1u32 << x.tail) - 1) as u16;
        let zero: $v_type = std::mem::zeroed();
        let mut sum = [[zero; 2]; 14];
        asm!(
            $begin,
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
            step!($load, $splat, $fma, $u0, $after, $rows),
            step!($load, $splat, $fma, $u1, $after, $rows),
            step!($load, $splat, $fma, $u2, $after, $rows),
            step!($load, $splat, $fma, $u3, $after, $rows),
            $next,
            "prefetcht1 [{ahead}]",
            "prefetcht1 [{ahead} + 64]",
            "add {ahead}, {ahead_row}",
            "dec {count}",
            "jnz 3b",
            "4:",
            "mov {count}, [{frame} + 24]",
            "test {count}, {count}",
            "jz 6f",
            "5:",
            step!($load, $splat, $fma, "0", $after, $rows),
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
            s3 = out(reg) _,
            s5 = out(reg) _,
            base = out(reg) _,
            base7 = out(reg) _,
            count = out(reg) _,
            ahead = inout(reg) x.ahead => _,
            ahead_row = in(reg) x.ahead_row * $size,
            mask = in(kreg) mask,
            inout("zmm0") sum[0][0], inout("zmm1") sum[0][1], inout("zmm2") sum[1][0], inout("zmm3") sum[1][1],
            inout("zmm4") sum[2][0], inout("zmm5") sum[2][1], inout("zmm6") sum[3][0], inout("zmm7") sum[3][1],
            inout("zmm8") sum[4][0], inout("zmm9") sum[4][1], inout("zmm10") sum[5][0], inout("zmm11") sum[5][1],
            inout("zmm12") sum[6][0], inout("zmm13") sum[6][1], inout("zmm14") sum[7][0], inout("zmm15") sum[7][1],
            inout("zmm16") sum[8][0], inout("zmm17") sum[8][1], inout("zmm18") sum[9][0], inout("zmm19") sum[9][1],
            inout("zmm20") sum[10][0], inout("zmm21") sum[10][1], inout("zmm22") sum[11][0], inout("zmm23") sum[11][1],
            inout("zmm24") sum[12][0], inout("zmm25") sum[12][1], inout("zmm26") sum[13][0], inout("zmm27") sum[13][1],
            out("zmm28") _, out("zmm29") _, out("zmm30") _,
            options(nostack, readonly),
        );
        sum
    }};
}

macro_rules! straight {
    ($name:ident, $t:ty, $v:ty, $size:literal, $load:literal, $splat:literal, $fma:literal, $mask:ty, $add:ident, $some:ident, $store:ident) => {
        /// A tile of `M` (at most 14) rows and `V` vectors of columns. Rows of the left operand (`ALONG` false) or its
        /// steps (`ALONG`) follow each other without gaps.
        ///
        /// # Safety
        /// All addresses that the walk describes must be valid, and the processor must have AVX-512.
        #[target_feature(enable = "avx512f,avx512bw")]
        pub unsafe fn $name<const M: usize, const V: usize, const FULL: bool, const ALONG: bool>(x: &Walk<$t>) {
            // The tile of the result is there when the loop ends.
            for i in 0..M {
                let out = x.out.wrapping_offset(i as isize * x.out_row);
                for v in 0..V {
                    asm!("prefetchw [{}]", in(reg) out.wrapping_add(v * (64 / $size)), options(nostack, preserves_flags, readonly));
                }
            }
            let sum = if ALONG {
                // Rows 0 to 13 from two addresses and three multiples of the distance.
                walk!(x, $size, M, V, FULL, $load, $splat, $fma, $v, x.left_row,
                    begin: "lea {s3}, [{s} + {s} * 2]\nlea {s5}, [{s} + {s} * 4]",
                    run: "lea {base7}, [{base} + {s3} * 2]\nadd {base7}, {s}",
                    after: "",
                    unrolled: ["0" "1" "2" "3"],
                    next: "add {base}, 4 * {size}\nadd {base7}, 4 * {size}",
                    one: "add {base}, {size}\nadd {base7}, {size}",
                    ["0" "0" "1" "{base}"
                     "1" "2" "3" "{base} + {s}"
                     "2" "4" "5" "{base} + {s} * 2"
                     "3" "6" "7" "{base} + {s3}"
                     "4" "8" "9" "{base} + {s} * 4"
                     "5" "10" "11" "{base} + {s5}"
                     "6" "12" "13" "{base} + {s3} * 2"
                     "7" "14" "15" "{base7}"
                     "8" "16" "17" "{base} + {s} * 8"
                     "9" "18" "19" "{base7} + {s} * 2"
                     "10" "20" "21" "{base7} + {s3}"
                     "11" "22" "23" "{base7} + {s} * 4"
                     "12" "24" "25" "{base} + {s3} * 4"
                     "13" "26" "27" "{base7} + {s3} * 2"])
            } else {
                walk!(x, $size, M, V, FULL, $load, $splat, $fma, $v, x.left_step,
                    begin: "/* {s3} {s5} {base7} */",
                    run: "",
                    after: "add {base}, {s}",
                    unrolled: ["0" "0" "0" "0"],
                    next: "",
                    one: "",
                    ["0" "0" "1" "{base}"
                     "1" "2" "3" "{base} + {size}"
                     "2" "4" "5" "{base} + 2 * {size}"
                     "3" "6" "7" "{base} + 3 * {size}"
                     "4" "8" "9" "{base} + 4 * {size}"
                     "5" "10" "11" "{base} + 5 * {size}"
                     "6" "12" "13" "{base} + 6 * {size}"
                     "7" "14" "15" "{base} + 7 * {size}"
                     "8" "16" "17" "{base} + 8 * {size}"
                     "9" "18" "19" "{base} + 9 * {size}"
                     "10" "20" "21" "{base} + 10 * {size}"
                     "11" "22" "23" "{base} + 11 * {size}"
                     "12" "24" "25" "{base} + 12 * {size}"
                     "13" "26" "27" "{base} + 13 * {size}"])
            };
            for (i, row) in sum.iter().enumerate().take(M) {
                for (v, value) in row.iter().enumerate().take(V) {
                    let to = x.out.offset(i as isize * x.out_row).add(v * (64 / $size));
                    let lanes = if FULL || v + 1 < V { !0 } else { ((1u32 << x.tail) - 1) as $mask };
                    let value = if x.accumulate { $add($some(lanes, to), *value) } else { *value };
                    $store(to, lanes, value);
                }
            }
        }
    };
}

straight! {
    single, f32, __m512, 4, "vmovups", "vbroadcastss", "vfmadd231ps", __mmask16,
    _mm512_add_ps, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps
}
straight! {
    double, f64, __m512d, 8, "vmovupd", "vbroadcastsd", "vfmadd231pd", __mmask8,
    _mm512_add_pd, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd
}
