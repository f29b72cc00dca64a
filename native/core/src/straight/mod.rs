//! The inner loops of a product's register tile, written out for the instruction sets that have vectors.
//!
//! Multiply-adds and address arithmetic compete for the same ports, and what comes next has to be fetched every few steps; a
//! loop that is unrolled in Rust spills the sums.

mod avx2;
mod avx512;
mod frame;

pub use avx2::{double as avx2_double, single as avx2_single};
pub use avx512::{double as avx512_double, single as avx512_single};
