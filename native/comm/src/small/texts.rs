//! Descriptions of collectives, kept by fingerprint: a loop makes the same few calls again and again.

use crate::frame::Fnv;

/// Calls whose descriptions are kept; a call with the place of another replaces that one.
const KEPT: usize = 64;

/// Words of a description that the flight recorder keeps.
pub(crate) const TEXT_WORDS: usize = 22;

/// A checksum of words.
pub(crate) fn mix(seed: u64, words: impl Iterator<Item = u64>) -> u64 {
    // Never 0, which marks a slot that is being written.
    words.fold(seed, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)) | 1
}

/// The beginning of a description as the flight recorder keeps it, and its checksum.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) length: u64,
    pub(crate) words: [u64; TEXT_WORDS],
    pub(crate) check: u64,
}

impl Described {
    fn new(text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.len().min(TEXT_WORDS * 8)];
        let mut words = [0; TEXT_WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        Self { length: bytes.len() as u64, words, check: mix(0, words.into_iter()) }
    }
}

/// A description for peers: what people read, a zero byte, the name of the group.
#[derive(Debug, Default)]
pub(crate) struct Text {
    fingerprint: Option<u64>,
    pub(crate) whole: String,
    /// Bytes of what people read.
    pub(crate) what: usize,
    pub(crate) described: Described,
}

/// The descriptions of the last calls of a group.
#[derive(Debug, Default)]
pub(crate) struct Texts(Vec<Text>);

impl Texts {
    /// The description of the call with this fingerprint; `write` makes a new one and returns the length of what people read.
    pub(crate) fn of(&mut self, fingerprint: u64, write: impl FnOnce(&mut String) -> usize) -> &Text {
        let at = fingerprint as usize % KEPT;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Text::default);
        }
        let text = &mut self.0[at];
        if text.fingerprint != Some(fingerprint) {
            text.whole.clear();
            text.what = write(&mut text.whole);
            text.described = Described::new(&text.whole[..text.what]);
            text.fingerprint = Some(fingerprint);
        }
        text
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
    fn a_description_is_written_once_for_equal_calls() {
        let mut texts = Texts::default();
        let mut written = 0;
        // Two calls share a place, so each replaces the other.
        for (fingerprint, times) in [(1, 1), (1, 1), (2, 2), (1, 2), (1 + KEPT as u64, 3), (1, 4)] {
            let text = texts.of(fingerprint, |text| {
                written += 1;
                text.push_str(&fingerprint.to_string());
                text.len()
            });
            assert_eq!((text.whole.as_str(), text.what), (fingerprint.to_string().as_str(), text.whole.len()));
            assert_eq!(written, times);
        }
    }

    #[test]
    fn texts_that_differ_have_other_hashes() {
        let texts = ["", "a", "a\0", "allReduce", "allReducf", "allReduce 1", "allReduce 2", "12345678", "123456780"];
        let hashes = texts.map(|text| hash_text(Fnv::new(), text).finish());
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash), "{:?}", texts[index]);
        }
    }
}
