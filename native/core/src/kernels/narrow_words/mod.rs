//! Products of bytes for AVX2, where no instruction multiplies four of them: bytes become words of 16 bits, which `vpmaddwd` multiplies and
//! adds in pairs. Sums of i32 are exact, so that any cut has the same bits.

mod row;
mod tile;
mod widen;

use super::narrow_weights::product::Product;
use crate::isa::Isa;
use crate::step::Run;

/// Whether these are the best instructions that there are.
pub fn serves(isa: Isa) -> bool {
    (Isa::Avx2..Isa::Vnni).contains(&isa)
}

/// # Safety
/// The product must be valid, and the processor must have AVX2.
pub unsafe fn run(run: &Run, p: &Product) {
    if p.sizes[0] == 1 {
        row::run(run, p);
    } else {
        tile::run(run, p);
    }
}
