//! Where the bytes of a collective are: the parts of a bucket seen as one flat vector, and scratch.

use crate::Part;

/// The memory that a place is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    In,
    Out,
    Scratch,
}

/// A range of bytes in one block of a space. A block is one rank's flat vector: a slice of every part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: Space,
    pub(crate) block: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Aligned memory that a group keeps between calls.
#[derive(Default)]
pub(crate) struct Scratch(Vec<Line>);

impl Scratch {
    /// At least `bytes` bytes; grows only, so equal calls allocate nothing.
    pub(crate) fn at_least(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// The memory of one call.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) parts: &'a [Part<'a>],
    /// End of each part in the flat vector of one block.
    pub(crate) ends: &'a [usize],
    /// Scratch blocks, `stride` apart.
    pub(crate) scratch: *mut u8,
    pub(crate) stride: usize,
    /// Memory for one received segment before it is combined.
    pub(crate) staging: *mut u8,
}

impl Memory<'_> {
    /// Address and length of the contiguous piece that begins `at` bytes into `place`; nothing at its end.
    pub(crate) fn piece(&self, place: &Place, at: usize) -> (*mut u8, usize) {
        let left = place.len - at;
        let position = place.start + at;
        if left == 0 {
            return (self.staging, 0);
        }
        if place.space == Space::Scratch {
            return (self.scratch.wrapping_add(place.block * self.stride + position), left);
        }
        let index = self.ends.partition_point(|end| *end <= position);
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let block = self.ends[index] - begin;
        let part = &self.parts[index];
        let base = if place.space == Space::In { part.input.cast_mut() } else { part.output };
        (base.wrapping_add(place.block * block + position - begin), left.min(self.ends[index] - position))
    }

    /// Copies between two places of equal length; equal or overlapping ones too.
    ///
    /// # Safety
    /// Both must lie within this memory.
    pub(crate) unsafe fn copy(&self, from: &Place, to: &Place) {
        let mut at = 0;
        while at < from.len {
            let (source, readable) = self.piece(from, at);
            let (target, writable) = self.piece(to, at);
            let count = readable.min(writable);
            if source != target {
                // SAFETY: both pieces are at least `count` long; `copy` allows overlap.
                unsafe { std::ptr::copy(source, target, count) };
            }
            at += count;
        }
    }
}
