//! Sums of chunks: SHA-256, and CRC32C, which takes a third of the time and finds damage, but not what somebody has changed on purpose.

use crc32c::{crc32c, crc32c_append};

use crate::sha256::{Digest, Hash, BLOCK};

/// Bytes that are read or copied before they are summed: whole blocks, and of two chunks they stay in a second-level cache.
pub const PART: usize = 128 << 10;

/// What a chunk is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    Sha256(Digest),
    Crc32c(u32),
}

/// The sum of a text that comes in parts of whole blocks, apart from the last.
pub enum Running {
    Sha256(Hash),
    Crc32c(u32),
}

impl Running {
    /// A sum of the same kind.
    pub fn of(sum: &Sum) -> Running {
        match sum {
            Sum::Sha256(_) => Running::Sha256(Hash::new()),
            Sum::Crc32c(_) => Running::Crc32c(0),
        }
    }

    pub fn update(&mut self, part: &[u8]) {
        match self {
            Running::Sha256(hash) => hash.update(part),
            Running::Crc32c(crc) => *crc = crc32c_append(*crc, part),
        }
    }

    /// Takes equally many whole blocks of two texts.
    pub fn update_both(first: &mut Running, second: &mut Running, parts: [&[u8]; 2]) {
        if let (Running::Sha256(first), Running::Sha256(second)) = (&mut *first, &mut *second) {
            return Hash::update_both(first, second, parts);
        }
        first.update(parts[0]);
        second.update(parts[1]);
    }

    pub fn finish(self, last: &[u8]) -> Sum {
        match self {
            Running::Sha256(hash) => Sum::Sha256(hash.finish(last)),
            Running::Crc32c(crc) => Sum::Crc32c(crc32c_append(crc, last)),
        }
    }
}

/// Both sums of each chunk of some texts: chunks of `chunk` bytes, of which the last of a text may be shorter; a text without bytes is one chunk.
pub fn sums(texts: &[&[u8]], chunk: usize) -> Vec<(Digest, u32)> {
    let chunks: Vec<&[u8]> = texts
        .iter()
        .flat_map(|text| (0..text.len().max(1)).step_by(chunk).map(|at| &text[at..text.len().min(at + chunk)]))
        .collect();
    let of = |pair: &[&[u8]]| match *pair {
        [first, second] => both([first, second]).to_vec(),
        _ => pair.iter().map(|text| (Hash::new().finish(text), crc32c(text))).collect(),
    };
    chunks.chunks(2).flat_map(of).collect()
}

/// The sums of two texts, in one pass.
fn both(texts: [&[u8]; 2]) -> [(Digest, u32); 2] {
    let common = texts[0].len().min(texts[1].len()) / BLOCK * BLOCK;
    let (mut first, mut second, mut crcs) = (Hash::new(), Hash::new(), [0; 2]);
    for at in (0..common).step_by(PART) {
        let parts = texts.map(|text| &text[at..common.min(at + PART)]);
        Hash::update_both(&mut first, &mut second, parts);
        crcs = [crc32c_append(crcs[0], parts[0]), crc32c_append(crcs[1], parts[1])];
    }
    let [one, other] = texts.map(|text| &text[common..]);
    [(first.finish(one), crc32c_append(crcs[0], one)), (second.finish(other), crc32c_append(crcs[1], other))]
}
