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

/// How far one rank is on both lanes of a pair.
#[derive(Default)]
pub(crate) struct Steps {
    sent: u64,
    taken: u64,
    /// The collective whose description stands on the lane.
    described: Option<[u64; 2]>,
}

fn mark(header: &Header) -> [u64; 3] {
    [header.group, header.sequence, header.fingerprint]
}

/// Two ranks that share memory, as one of them sees it.
pub(crate) trait Pair {
    /// What this rank has for the other, and the other for this one.
    fn lanes(&self) -> (&Lane, &Lane);

    fn steps(&self) -> &Steps;

    fn steps_mut(&mut self) -> &mut Steps;

    /// Wakes the peer, if it sleeps.
    fn wake(&self);

    /// Whether a message of the peer is here.
    fn has_next(&self) -> bool;
}

impl dyn Pair + '_ {
    /// The next message of the peer, if it is here.
    pub(crate) fn next(&self) -> Option<&Slot> {
        let number = self.steps().taken + 1;
        let slot = &self.lanes().1.slots[number as usize % 2];
        (slot.number.load(Ordering::Acquire) == number).then_some(slot)
    }

    /// Sends a message of a collective with this header and description.
    pub(crate) fn post(&mut self, header: &Header, text: &[u8], memory: &Memory<'_>, from: &Place) {
        let [group, sequence, fingerprint] = mark(header);
        let lane = self.lanes().0;
        if self.steps().described != Some([group, fingerprint]) {
            lane.length.store(text.len() as u64, Ordering::Relaxed);
            for (word, chunk) in lane.text.iter().zip(text.chunks(8)) {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
            }
        }
        let number = self.steps().sent + 1;
        let slot = &lane.slots[number as usize % 2];
        slot.mark
            .iter()
            .zip([group, sequence, fingerprint])
            .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        let mut at = 0;
        while at < from.len {
            let (start, count) = memory.piece(from, at);
            // SAFETY: the message is at most `MOST` bytes long, the piece is readable, and the peer has taken what was here.
            unsafe { std::ptr::copy_nonoverlapping(start, slot.start(from.len).add(at), count) };
            at += count;
        }
        slot.number.store(number, Ordering::Release);
        let steps = self.steps_mut();
        (steps.sent, steps.described) = (number, Some([group, fingerprint]));
        self.wake();
    }

    /// Takes the next message, if it is here; the error is the header of another collective, with its description.
    pub(crate) fn take_next(
        &mut self,
        header: &Header,
        memory: &Memory<'_>,
        into: &Place,
    ) -> Result<bool, (Header, Vec<u8>)> {
        let Some(slot) = self.next() else { return Ok(false) };
        if slot.mark.each_ref().map(|word| word.load(Ordering::Relaxed)) != mark(header) {
            return Err(self.described(header, slot));
        }
        let mut at = 0;
        while at < into.len {
            let (to, count) = memory.piece(into, at);
            // SAFETY: the piece is an output or scratch, apart from the slot, of which at most `MOST` bytes are read.
            unsafe { std::ptr::copy_nonoverlapping(slot.start(into.len).add(at), to, count) };
            at += count;
        }
        self.steps_mut().taken += 1;
        Ok(true)
    }

    fn described(&self, header: &Header, slot: &Slot) -> (Header, Vec<u8>) {
        let lane = self.lanes().1;
        let [group, sequence, fingerprint] = slot.mark.each_ref().map(|word| word.load(Ordering::Relaxed));
        let length = (lane.length.load(Ordering::Relaxed) as usize).min(MAX_TEXT);
        let mut text: Vec<u8> = lane.text.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        text.truncate(length);
        (Header { group, sequence, fingerprint, ..*header }, text)
    }

    /// The collective of the peer's next message, if it is here; other fields as in `header`.
    pub(crate) fn collective(&self, header: &Header) -> Option<(Header, Vec<u8>)> {
        Some(self.described(header, self.next()?))
    }
}
