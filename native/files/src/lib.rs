//! Files whose chunks have SHA-256 hashes: chunks are read to where they are needed, and verified while they are in the processor's cache.

mod pair;
mod read;
mod sha256;

pub use read::{read_chunks, Chunk, Run};
pub use sha256::{digests, Digest};
