//! Rows times weights by AMX tiles: weights are the left side, whose rows tiles load where they lie, and the rows are packed once as the
//! right side. So what comes out is turned.

use std::arch::asm;
use std::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512, _mm_prefetch, _MM_HINT_T1};

use super::product::{parts, Product};
use crate::kernels::narrow::amx::{begin, end};
use crate::kernels::narrow::finish::{write, Epilogue, Sums};
use crate::kernels::narrow::operands::with_room;
use crate::kernels::narrow::pack::{tile, transposed, Side};
use crate::step::Run;

/// Weights and rows of a square of two by two tiles.
pub const SQUARE: usize = 32;
/// Bytes of a step along the contracted dim.
pub const STEP: usize = 64;
/// Bytes of a tile.
const TILE: usize = 1024;

pub unsafe fn run(run: &Run, p: &Product) {
    let [m, _, k] = p.sizes;
    let (steps, halves) = (k / STEP, m.div_ceil(16));
    with_room(halves * steps * TILE, |room| {
        let (rows, packed) = (p.x, room as usize);
        let pack = |half: usize| {
            for step in 0..steps {
                let to = (packed as *mut u8).add((half * steps + step) * TILE);
                tile(rows.at(16 * half, step * STEP), (m - 16 * half).min(16), STEP, Side::Right, false, to);
            }
        };
        (0..halves).for_each(pack);
        parts(run, p.sizes, SQUARE, |range| unsafe {
            begin();
            for column in range.step_by(SQUARE) {
                columns(run, p, column.min(p.sizes[1] - SQUARE), packed as *const u8);
            }
            end();
        });
    });
}

#[repr(C, align(64))]
struct Square([i32; SQUARE * SQUARE]);

/// The products of all rows with 32 weights, the last ones again where fewer are left.
unsafe fn columns(run: &Run, p: &Product, column: usize, packed: *const u8) {
    let [m, n, k] = p.sizes;
    let (steps, row) = (k / STEP, p.weights.across as usize);
    let left = [0, 16].map(|line| p.weights.at(column + line, 0).from);
    let (mut square, mut turned) = (Square([0; SQUARE * SQUARE]), Square([0; SQUARE * SQUARE]));
    let squares = m.div_ceil(SQUARE);
    for i in 0..squares {
        // The next weights come while these are multiplied.
        for line in SQUARE * i / squares..SQUARE * (i + 1) / squares {
            let next = p.weights.at((column + SQUARE + line).min(n - 1), 0).from;
            (0..k).step_by(STEP).for_each(|at| _mm_prefetch::<_MM_HINT_T1>(next.add(at).cast()));
        }
        let half = |half: usize| packed.add((2 * i + half).min(m.div_ceil(16) - 1) * steps * TILE);
        products(p.signed, [left[0], left[1]], row, [half(0), half(1)], steps, square.0.as_mut_ptr());
        turn(square.0.as_ptr().cast(), SQUARE, turned.0.as_mut_ptr().cast());
        let sums = Sums {
            from: turned.0.as_mut_ptr().cast(),
            width: SQUARE,
            rows: SQUARE.min(m - SQUARE * i),
            columns: SQUARE,
        };
        let bias = p.epilogue.bias.map(|bias| bias.add(column));
        write(run.isa, sums, p.out.from(SQUARE * i, column), Epilogue { bias, relu: p.epilogue.relu });
    }
}

macro_rules! squares {
    ($name:literal, $left:expr, $row:expr, $right:expr, $steps:expr, $out:expr) => {
        asm!(
            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{a} + {s}]",
            "tileloadd tmm6, [{c} + {w}]",
            concat!($name, " tmm0, tmm4, tmm6"),
            "tileloadd tmm7, [{d} + {w}]",
            concat!($name, " tmm1, tmm4, tmm7"),
            "tileloadd tmm5, [{b} + {s}]",
            concat!($name, " tmm2, tmm5, tmm6"),
            concat!($name, " tmm3, tmm5, tmm7"),
            "add {a}, 64", "add {b}, 64", "add {c}, 1024", "add {d}, 1024",
            "dec {n}", "jnz 2b",
            "tilestored [{o} + {t}], tmm0", "tilestored [{o} + {t} + 64], tmm1",
            "tilestored [{p} + {t}], tmm2", "tilestored [{p} + {t} + 64], tmm3",
            a = inout(reg) $left[0] => _, b = inout(reg) $left[1] => _, s = in(reg) $row,
            c = inout(reg) $right[0] => _, d = inout(reg) $right[1] => _, w = in(reg) 64usize,
            n = inout(reg) $steps => _, o = in(reg) $out, p = in(reg) $out.add(16 * SQUARE), t = in(reg) 128usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        )
    };
}

/// The sums of 32 weights, a row each, by 32 rows, a column each.
unsafe fn products(
    signed: [bool; 2],
    left: [*const u8; 2],
    row: usize,
    right: [*const u8; 2],
    steps: usize,
    out: *mut i32,
) {
    // The weights are on the left here.
    match signed {
        [true, true] => squares!("tdpbssd", left, row, right, steps, out),
        [false, true] => squares!("tdpbsud", left, row, right, steps, out),
        [true, false] => squares!("tdpbusd", left, row, right, steps, out),
        [false, false] => squares!("tdpbuud", left, row, right, steps, out),
    }
}

/// Rows of words as columns, of a square whose sides are multiples of 16.
#[target_feature(enable = "avx512f")]
unsafe fn turn(from: *const i32, side: usize, to: *mut i32) {
    for (i, j) in (0..side).step_by(16).flat_map(|i| (0..side).step_by(16).map(move |j| (i, j))) {
        let rows = std::array::from_fn(|row| _mm512_loadu_si512(from.add((i + row) * side + j).cast()));
        for (row, words) in transposed(rows).into_iter().enumerate() {
            _mm512_storeu_si512(to.add((j + row) * side + i).cast(), words);
        }
    }
}
