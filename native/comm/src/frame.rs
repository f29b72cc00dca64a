//! The header of every data message, and its check on receipt.

/// Bytes of an encoded header.
pub(crate) const HEADER: usize = 72;
/// Most bytes of the description that follows the first header of a collective.
pub(crate) const MAX_TEXT: usize = 320;
const MAGIC: u32 = u32::from_le_bytes(*b"HDLd");
const VERSION: u16 = 1;

/// Identifies the sender (run, epoch, rank, incarnation) and the part of a collective that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) run: u64,
    pub(crate) epoch: u64,
    pub(crate) incarnation: u64,
    pub(crate) group: u64,
    pub(crate) sequence: u64,
    pub(crate) fingerprint: u64,
    pub(crate) sender: u32,
    /// Payload bytes.
    pub(crate) length: u32,
    /// Number of this frame among those to the same peer in this collective.
    pub(crate) ordinal: u32,
    /// Bytes of the description between header and payload; 0 except in the first frame.
    pub(crate) text: u16,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6..8].copy_from_slice(&self.text.to_le_bytes());
        let longs = [self.run, self.epoch, self.incarnation, self.group, self.sequence, self.fingerprint];
        for (to, value) in out[8..56].chunks_exact_mut(8).zip(longs) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        for (to, value) in out[56..68].chunks_exact_mut(4).zip([self.sender, self.length, self.ordinal]) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        out
    }

    /// Reads a header; the error says why the header is malformed.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self, &'static str> {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let int = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if int(0) != MAGIC {
            return Err("a message has a malformed header");
        }
        if short(4) != VERSION {
            return Err("a message is of another protocol version");
        }
        if short(6) as usize > MAX_TEXT {
            return Err("a description is too long");
        }
        Ok(Self {
            run: long(8),
            epoch: long(16),
            incarnation: long(24),
            group: long(32),
            sequence: long(40),
            fingerprint: long(48),
            sender: int(56),
            length: int(60),
            ordinal: int(64),
            text: short(6),
        })
    }

    /// Whether the sender is in the collective that `mine` is in.
    pub(crate) fn same_collective(&self, mine: &Self) -> bool {
        (self.group, self.sequence, self.fingerprint) == (mine.group, mine.sequence, mine.fingerprint)
    }

    /// What is wrong with the sender of this header, when `sender` in `incarnation` should have sent it.
    pub(crate) fn wrong_sender(&self, mine: &Self, sender: u32, incarnation: u64) -> Option<&'static str> {
        if self.run != mine.run {
            Some("a message belongs to another run")
        } else if self.epoch != mine.epoch {
            Some("a message belongs to another epoch")
        } else if self.sender != sender {
            Some("a message names another sender")
        } else if self.incarnation != incarnation {
            Some("a message comes from another incarnation of that rank")
        } else {
            None
        }
    }
}

/// FNV-1a over 64-bit words: cheap, and equal on every machine.
#[derive(Clone, Copy)]
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn word(self, word: u64) -> Self {
        Self((self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29))
    }

    pub(crate) fn finish(self) -> u64 {
        // The last words have not yet spread to the low bits.
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Header = Header {
        run: 1,
        epoch: 2,
        incarnation: 3,
        group: 4,
        sequence: 5,
        fingerprint: 6,
        sender: 7,
        length: 8,
        ordinal: 9,
        text: 10,
    };

    #[test]
    fn a_header_survives_the_wire() {
        assert_eq!(Header::decode(&MINE.encode()), Ok(MINE));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = MINE.encode();
        let with = |at: usize, value: u8| {
            let mut bytes = bytes;
            bytes[at] = value;
            Header::decode(&bytes)
        };
        assert_eq!(with(0, 0), Err("a message has a malformed header"));
        assert_eq!(with(4, 9), Err("a message is of another protocol version"));
        assert_eq!(with(7, 0xff), Err("a description is too long"));
    }

    #[test]
    fn messages_of_other_senders_are_refused() {
        let wrong = |header: Header| header.wrong_sender(&MINE, 7, 3);
        assert_eq!(wrong(MINE), None);
        assert_eq!(wrong(Header { run: 0, ..MINE }), Some("a message belongs to another run"));
        assert_eq!(wrong(Header { epoch: 1, ..MINE }), Some("a message belongs to another epoch"));
        assert_eq!(wrong(Header { sender: 0, ..MINE }), Some("a message names another sender"));
        assert_eq!(
            wrong(Header { incarnation: 0, ..MINE }),
            Some("a message comes from another incarnation of that rank")
        );
    }
}
