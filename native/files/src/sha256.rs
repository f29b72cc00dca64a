//! SHA-256 (FIPS 180-4) of one text, or of two at once.

use std::slice::from_raw_parts;

use sha2::compress256;

use crate::pair;

pub const BLOCK: usize = 64;
pub type Digest = [u8; 32];

const FIRST: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// The hash of a text that comes in parts of whole blocks, apart from the last.
pub struct Hash {
    state: [u32; 8],
    bytes: usize,
}

impl Hash {
    pub fn new() -> Hash {
        Hash { state: FIRST, bytes: 0 }
    }

    /// Takes whole blocks.
    pub fn update(&mut self, blocks: &[u8]) {
        debug_assert_eq!(blocks.len() % BLOCK, 0);
        // An array of bytes has no alignment.
        compress256(&mut self.state, unsafe { from_raw_parts(blocks.as_ptr().cast(), blocks.len() / BLOCK) });
        self.bytes += blocks.len();
    }

    /// Takes equally many whole blocks of two texts. The instructions of one text wait for each other most of the time: those of the other run meanwhile.
    pub fn update_both(first: &mut Hash, second: &mut Hash, blocks: [&[u8]; 2]) {
        if !pair::is_there() {
            first.update(blocks[0]);
            second.update(blocks[1]);
            return;
        }
        debug_assert_eq!(blocks[0].len(), blocks[1].len());
        // The processor has the instructions.
        unsafe { pair::compress([&mut first.state, &mut second.state], blocks) };
        first.bytes += blocks[0].len();
        second.bytes += blocks[1].len();
    }

    /// The hash, after the last part, which need not be whole blocks.
    pub fn finish(mut self, last: &[u8]) -> Digest {
        let whole = last.len() / BLOCK * BLOCK;
        self.update(&last[..whole]);
        let rest = &last[whole..];
        let bits = (self.bytes + rest.len()) as u64 * 8;
        let mut end = [0; 2 * BLOCK];
        end[..rest.len()].copy_from_slice(rest);
        end[rest.len()] = 0x80;
        let length = if rest.len() + 9 <= BLOCK { BLOCK } else { 2 * BLOCK };
        end[length - 8..length].copy_from_slice(&bits.to_be_bytes());
        self.update(&end[..length]);
        let mut digest = [0; 32];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }
}
