//! Products of AMX tiles: 16 rows of 64 bytes.

use std::arch::asm;

use super::operands::Pair;

/// Bytes of a tile.
pub const TILE: usize = 1024;

/// Palette 1, then for each tile the bytes of a row and the rows.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// Prepares this thread for tiles of so many rows of 64 bytes, at most 16; tile 4 has 16 rows always. [`block`] takes tiles of 16 rows.
///
/// # Safety
/// The processor must have AMX, and the process the permission to use it.
pub unsafe fn begin(rows: usize) {
    let mut configuration = Configuration { palette: 1, start: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
    configuration.bytes[..8].fill(64);
    configuration.rows[..8].fill(rows as u8);
    configuration.rows[4] = 16;
    asm!("ldtilecfg [{0}]", in(reg) &raw const configuration, options(nostack, preserves_flags, readonly));
}

/// Gives the tiles back, so that this thread is cheap to switch.
///
/// # Safety
/// As for [`begin`].
pub unsafe fn end() {
    asm!("tilerelease", options(nostack, preserves_flags, nomem));
}

/// Two by two tiles of sums, which begin as said: the sums of a row of tiles share the left tile, those of a column the right tile.
macro_rules! squares {
    ($name:literal, zero, $($rest:expr),*) => {
        squares!($name, ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"], $($rest),*)
    };
    ($name:literal, onto, $($rest:expr),*) => {
        squares!($name, ["tileloadd tmm0, [{o} + {t}]", "tileloadd tmm1, [{o} + {t} + 64]", "tileloadd tmm2, [{p} + {t}]", "tileloadd tmm3, [{p} + {t} + 64]"], $($rest),*)
    };
    ($name:literal, [$($start:literal),*], $steps:expr, $left:expr, $right:expr, $out:expr) => {
        asm!(
            $($start,)*
            "2:",
            "tileloadd tmm4, [{a} + {s}]",
            "tileloadd tmm6, [{c} + {s}]",
            concat!($name, " tmm0, tmm4, tmm6"),
            "tileloadd tmm7, [{d} + {s}]",
            concat!($name, " tmm1, tmm4, tmm7"),
            "tileloadd tmm5, [{b} + {s}]",
            concat!($name, " tmm2, tmm5, tmm6"),
            concat!($name, " tmm3, tmm5, tmm7"),
            "add {a}, 1024", "add {b}, 1024", "add {c}, 1024", "add {d}, 1024",
            "dec {n}", "jnz 2b",
            "tilestored [{o} + {t}], tmm0",
            "tilestored [{o} + {t} + 64], tmm1",
            "tilestored [{p} + {t}], tmm2",
            "tilestored [{p} + {t} + 64], tmm3",
            a = inout(reg) $left[0] => _, b = inout(reg) $left[1] => _,
            c = inout(reg) $right[0] => _, d = inout(reg) $right[1] => _,
            n = inout(reg) $steps => _, o = in(reg) $out, p = in(reg) $out.add(16 * 32), s = in(reg) 64usize, t = in(reg) 128usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        )
    };
}

/// One row of tiles by two columns of tiles.
macro_rules! pair {
    ($name:literal, $steps:expr, $left:expr, $right:expr, $out:expr) => {
        asm!(
            "tilezero tmm0", "tilezero tmm1",
            "2:",
            "tileloadd tmm4, [{a} + {s}]",
            "tileloadd tmm6, [{c} + {s}]",
            concat!($name, " tmm0, tmm4, tmm6"),
            "tileloadd tmm7, [{d} + {s}]",
            concat!($name, " tmm1, tmm4, tmm7"),
            "add {a}, 1024", "add {c}, 1024", "add {d}, 1024",
            "dec {n}", "jnz 2b",
            "tilestored [{o} + {t}], tmm0",
            "tilestored [{o} + {t} + 64], tmm1",
            a = inout(reg) $left[0] => _, c = inout(reg) $right[0] => _, d = inout(reg) $right[1] => _,
            n = inout(reg) $steps => _, o = in(reg) $out, s = in(reg) 64usize, t = in(reg) 128usize,
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        )
    };
}

macro_rules! both {
    ($name:literal, $two:expr, $($rest:expr),*) => {
        if $two { squares!($name, zero, $($rest),*) } else { pair!($name, $($rest),*) }
    };
}

/// One of the macros above for bytes, by whether the left and the right ones have a sign.
macro_rules! bytes {
    ($signed:expr, $make:ident, $($rest:tt)*) => {
        match $signed {
            [true, true] => $make!("tdpbssd", $($rest)*),
            [true, false] => $make!("tdpbsud", $($rest)*),
            [false, true] => $make!("tdpbusd", $($rest)*),
            [false, false] => $make!("tdpbuud", $($rest)*),
        }
    };
}

/// The sums of up to 32 rows and columns over `steps` steps, at least one.
///
/// # Safety
/// [`begin`] must have been called; each pointer has `steps` tiles.
pub unsafe fn block(pair: Pair, two: bool, steps: usize, left: [*const u8; 2], right: [*const u8; 2], out: *mut u32) {
    match pair {
        Pair::Bf16 => both!("tdpbf16ps", two, steps, left, right, out),
        Pair::Bytes { signed } => bytes!(signed, both, two, steps, left, right, out),
    }
}

/// Adds the sums of 32 rows and columns of bytes to those at `out`; `signed`: the left and the right bytes.
///
/// # Safety
/// As for [`block`].
pub unsafe fn add(signed: [bool; 2], steps: usize, left: [*const u8; 2], right: [*const u8; 2], out: *mut u32) {
    bytes!(signed, squares, onto, steps, left, right, out)
}
