//! A place for each of the last two small messages, in the memory that two ranks share. A message of a few bytes is one cache
//! line; a ring would lead through all of its memory.
//!
//! Where each of two ranks sends the other one message of a collective, none enters the next collective before the other has
//! taken part in this one, and so has taken what came in the one before: two places are always enough, and no rank tells the
//! other that it has taken something.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::frame::{Header, MAX_TEXT};
use crate::memory::{Memory, Place};

/// Most bytes of a message.
pub(crate) const MOST: usize = 16 << 10;
/// Most bytes of a message in the cache line of its mark; a longer one begins at the next line.
const BESIDE: usize = 32;
const TEXT_WORDS: usize = MAX_TEXT / 8;
/// Most bytes of a message whose cache lines are fetched ahead.
const CLAIMED: usize = 1 << 10;
const CACHE_LINE: usize = 64;

/// One message.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// The number of the message on its lane, from 1; stored last.
    number: AtomicU64,
    /// Group, sequence and fingerprint of its collective.
    mark: [AtomicU64; 3],
    bytes: UnsafeCell<[u8; BESIDE + MOST]>,
}

impl Slot {
    /// Where a message of so many bytes stands.
    fn start(&self, bytes: usize) -> *mut u8 {
        self.bytes.get().cast::<u8>().wrapping_add(if bytes <= BESIDE { 0 } else { BESIDE })
    }

    /// Whether the message is of this collective.
    fn is_of(&self, mark: &Mark) -> bool {
        self.mark.iter().zip(mark).all(|(word, value)| word.load(Ordering::Relaxed) == *value)
    }

    /// Fetches the cache lines of a message of so many bytes for writing, while this rank does other things.
    fn claim(&self, bytes: usize) {
        let first = std::ptr::from_ref(self).cast::<u8>();
        for line in (0..=BESIDE + bytes.min(CLAIMED)).step_by(CACHE_LINE) {
            let line = first.wrapping_add(line);
            // SAFETY: a hint, which changes nothing; 64-bit processors without the instruction do nothing.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
            }
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
    }
}

/// What one rank has for the other. All zeros is an empty lane.
#[repr(C)]
pub(crate) struct Lane {
    slots: [Slot; 2],
    /// The description of the last message's collective, for a rank that is in another one: its bytes, then the text.
    length: AtomicU64,
    text: [AtomicU64; TEXT_WORDS],
}

// SAFETY: the bytes of a slot are written by one rank while the other waits for the slot's number, and read after it.
unsafe impl Sync for Lane {}

/// What a message is of: group, sequence and fingerprint of its collective.
pub(crate) type Mark = [u64; 3];

/// How far one rank is on both lanes of a pair.
#[derive(Default)]
pub(crate) struct Steps {
    sent: u64,
    taken: u64,
    /// The collective whose description stands on the lane.
    described: Option<[u64; 2]>,
}

pub(crate) fn mark(header: &Header) -> Mark {
    [header.group, header.sequence, header.fingerprint]
}

impl Lane {
    /// The message after those that the peer has taken, if it is here.
    fn next(&self, steps: &Steps) -> Option<&Slot> {
        let number = steps.taken + 1;
        let slot = &self.slots[number as usize % 2];
        (slot.number.load(Ordering::Acquire) == number).then_some(slot)
    }

    /// Whether a message is here.
    pub(crate) fn has_next(&self, steps: &Steps) -> bool {
        self.next(steps).is_some()
    }
}

/// Two ranks that share memory, as one of them sees it.
pub(crate) struct Pair<'a> {
    /// What this rank has for the other.
    pub(crate) mine: &'a Lane,
    /// What the other has for this one.
    pub(crate) theirs: &'a Lane,
    pub(crate) steps: &'a mut Steps,
}

impl Pair<'_> {
    /// Whether a message of the peer is here.
    pub(crate) fn has_next(&self) -> bool {
        self.theirs.has_next(self.steps)
    }

    /// Sends a message, which `write` writes to the address it gets. A peer that sleeps still sleeps: `Transport::wake` comes
    /// once all messages of a collective are sent, since it waits until what was written has left this processor.
    ///
    /// # Safety
    /// `write` must write at most `bytes` bytes, which are at most `MOST`.
    pub(crate) unsafe fn post(&mut self, mark: &Mark, text: &[u8], bytes: usize, write: impl FnOnce(*mut u8)) {
        let [group, _, fingerprint] = *mark;
        let lane = self.mine;
        let described = Some([group, fingerprint]);
        if self.steps.described != described {
            lane.length.store(text.len() as u64, Ordering::Relaxed);
            for (word, chunk) in lane.text.iter().zip(text.chunks(8)) {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
            }
        }
        let number = self.steps.sent + 1;
        let slot = &lane.slots[number as usize % 2];
        slot.mark.iter().zip(mark).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        write(slot.start(bytes));
        slot.number.store(number, Ordering::Release);
        (self.steps.sent, self.steps.described) = (number, described);
    }

    /// Sends a message that lies at a place.
    pub(crate) fn post_from(&mut self, header: &Header, text: &[u8], memory: &Memory<'_>, from: &Place) {
        let write = |to: *mut u8| {
            let mut at = 0;
            while at < from.len {
                let (start, count) = memory.piece(from, at);
                // SAFETY: the piece is readable, the place of the message as long, and the peer has taken what was there.
                unsafe { std::ptr::copy_nonoverlapping(start, to.add(at), count) };
                at += count;
            }
        };
        // SAFETY: small collectives alone send on lanes (`is_small`).
        unsafe { self.post(&mark(header), text, from.len, write) };
    }

    /// The bytes of the next message, if it is here and of this collective; they stay until
    /// this rank is in another collective with the peer.
    pub(crate) fn arrived(&self, mark: &Mark, bytes: usize) -> Option<*const u8> {
        let slot = self.theirs.next(self.steps)?;
        slot.is_of(mark).then(|| slot.start(bytes).cast_const())
    }

    /// Whether the next message is here; the error is the header of another collective, with its description.
    pub(crate) fn look(&self, header: &Header) -> Result<bool, (Header, Vec<u8>)> {
        match self.theirs.next(self.steps) {
            Some(slot) if !slot.is_of(&mark(header)) => Err(self.described(header, slot)),
            slot => Ok(slot.is_some()),
        }
    }

    /// Takes the next message, which is here and of `bytes` bytes, and fetches what the one after it will be written to.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.steps.taken += 1;
        self.mine.slots[(self.steps.sent + 1) as usize % 2].claim(bytes);
    }

    /// Takes the next message, which is here, to a place.
    pub(crate) fn take_to(&mut self, header: &Header, memory: &Memory<'_>, into: &Place) {
        let Some(start) = self.arrived(&mark(header), into.len) else { return };
        let mut at = 0;
        while at < into.len {
            let (to, count) = memory.piece(into, at);
            // SAFETY: the piece is an output or scratch, apart from the slot, of which at most `MOST` bytes are read.
            unsafe { std::ptr::copy_nonoverlapping(start.add(at), to, count) };
            at += count;
        }
        self.taken(into.len);
    }

    fn described(&self, header: &Header, slot: &Slot) -> (Header, Vec<u8>) {
        let lane = self.theirs;
        let [group, sequence, fingerprint] = slot.mark.each_ref().map(|word| word.load(Ordering::Relaxed));
        let length = (lane.length.load(Ordering::Relaxed) as usize).min(MAX_TEXT);
        let mut text: Vec<u8> = lane.text.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        text.truncate(length);
        (Header { group, sequence, fingerprint, ..*header }, text)
    }

    /// The collective of the peer's next message, if it is here; other fields as in `header`.
    pub(crate) fn collective(&self, header: &Header) -> Option<(Header, Vec<u8>)> {
        Some(self.described(header, self.theirs.next(self.steps)?))
    }
}
