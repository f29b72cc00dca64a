//! Which way a product goes.

use super::product::{Product, PART};
use super::{tiles, vector};
use crate::calls::NarrowDotJson;
use crate::isa::Isa;
use crate::kernels::narrow::operands::Pair;
use crate::kernels::narrow::NarrowDot;
use crate::kernels::narrow_words;
use crate::step::Run;

pub type Way = unsafe fn(&Run, &Product);

/// What multiplies, if anything here does.
pub fn way(dot: &NarrowDot, isa: Isa) -> Option<Way> {
    let NarrowDotJson { b, m, n, k2: k, ref x, ref y, .. } = dot.call;
    let along = y.strides[1] == 1 && x.strides[2] == 1 && matches!(dot.pair, Pair::Bytes { .. });
    // Threads share a product here, and products of a batch elsewhere.
    if !along || k == 0 || (b > 1 && n * k < PART) {
        return None;
    }
    match m {
        1 if isa >= Isa::Vnni => Some(vector::run),
        2.. if isa >= Isa::Amx && n > 0 => Some(tiles::run),
        1.. if n > 0 && narrow_words::serves(isa) => Some(narrow_words::run),
        _ => None,
    }
}

/// Whether tiles multiply several rows.
pub fn by_tiles(dot: &NarrowDot, isa: Isa) -> bool {
    dot.call.m > 1 && isa >= Isa::Amx && way(dot, isa).is_some()
}
