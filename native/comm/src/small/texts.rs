//! Descriptions of collectives as the flight recorder keeps them, and hashes of texts.

use crate::frame::Fnv;

/// Words of a description that the flight recorder keeps.
pub(crate) const TEXT_WORDS: usize = 22;

/// A checksum of words.
pub(crate) fn mix(seed: u64, words: impl Iterator<Item = u64>) -> u64 {
    // Never 0, which marks a slot that is being written.
    words.fold(seed, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)) | 1
}

/// Words that a description of so many bytes fills.
pub(crate) fn used_words(length: u64) -> usize {
    (length as usize).min(TEXT_WORDS * 8).div_ceil(8)
}

/// The beginning of a description as the flight recorder keeps it, and its checksum.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) length: u64,
    pub(crate) words: [u64; TEXT_WORDS],
    pub(crate) check: u64,
}

impl Described {
    pub(crate) fn new(text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.len().min(TEXT_WORDS * 8)];
        let mut words = [0; TEXT_WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        let mut described = Self { length: bytes.len() as u64, words, check: 0 };
        described.check = mix(0, described.used().iter().copied());
        described
    }

    /// The words that the description fills.
    pub(crate) fn used(&self) -> &[u64] {
        &self.words[..used_words(self.length)]
    }
}

/// Mixes a text into a hash, eight bytes at a time.
pub(crate) fn hash_text(hash: Fnv, text: &str) -> Fnv {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let hash = words.iter().fold(hash.word(text.len() as u64), |hash, word| hash.word(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash.word(u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_have_other_hashes() {
        let texts = ["", "a", "a\0", "allReduce", "allReducf", "allReduce 1", "allReduce 2", "12345678", "123456780"];
        let hashes = texts.map(|text| hash_text(Fnv::new(), text).finish());
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash), "{:?}", texts[index]);
        }
    }
}
