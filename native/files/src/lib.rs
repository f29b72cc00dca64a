//! Files whose chunks have sums: chunks are read to where they are needed, and verified while they are in the processor's cache.

mod pair;
mod read;
mod sha256;
mod sums;

pub use read::{read_chunks, Chunk, Run};
pub use sha256::Digest;
pub use sums::{sums, Sum};
