//! A byte queue in memory between exactly one sender and one receiver: two threads, or two processes that map it.

use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};

use super::link::LinkError;

/// A counter in cache lines of its own; processors fetch them in pairs.
#[repr(C, align(128))]
#[derive(Default)]
struct Apart(AtomicU64);

/// How far both sides are. All zeros is an empty queue.
#[repr(C)]
#[derive(Default)]
pub(super) struct Counters {
    /// Bytes ever written; only the sender stores.
    written: Apart,
    /// Bytes ever taken; only the receiver stores.
    taken: Apart,
}

/// Most bytes copied before the other side may see them, so that both work at once.
const STRIDE: usize = 32 << 10;

/// A view of the queue. The sender writes only bytes between `written` and `taken + capacity`, the receiver reads only
/// those between `taken` and `written`; each publishes its progress with release and reads the other's with acquire.
///
/// Counters are checked at each use: a process that maps them and breaks the protocol gives an error here, and positions
/// are taken modulo the capacity, so that no access leaves the ring.
#[derive(Clone, Copy)]
pub(super) struct Ring<'a> {
    counters: &'a Counters,
    bytes: *mut u8,
    capacity: usize,
}

impl<'a> Ring<'a> {
    /// # Safety
    /// `bytes` must be valid for reads and writes of `capacity` bytes while the ring lives, and be touched through rings
    /// with these counters alone, of which one thread at a time sends and one receives.
    pub(super) unsafe fn new(counters: &'a Counters, bytes: *mut u8, capacity: usize) -> Self {
        Self { counters, bytes, capacity }
    }

    fn written(&self, order: Ordering) -> u64 {
        self.counters.written.0.load(order)
    }

    fn taken(&self, order: Ordering) -> u64 {
        self.counters.taken.0.load(order)
    }

    /// Bytes between two readings of the counters.
    fn between(&self, taken: u64, written: u64) -> Result<usize, LinkError> {
        let filled = written.wrapping_sub(taken);
        if filled > self.capacity as u64 {
            return Err(LinkError::Failed("the counters of its shared memory are not possible".into()));
        }
        Ok(filled as usize)
    }

    /// Bytes to receive.
    pub(super) fn filled(&self) -> Result<usize, LinkError> {
        self.between(self.taken(Ordering::Acquire), self.written(Ordering::Acquire))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled() == Ok(0)
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled() == Ok(self.capacity)
    }

    /// The place of a position, and how many bytes lie there in one piece.
    fn piece(&self, position: u64, count: usize) -> (*mut u8, usize) {
        let at = (position % self.capacity as u64) as usize;
        (self.bytes.wrapping_add(at), count.min(self.capacity - at))
    }

    /// Puts in as many of `bytes` as there is room for.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize, LinkError> {
        let mut written = self.written(Ordering::Relaxed);
        let room = self.capacity - self.between(self.taken(Ordering::Acquire), written)?;
        let count = room.min(bytes.len());
        let mut done = 0;
        while done < count {
            let (to, piece) = self.piece(written, (count - done).min(STRIDE));
            // SAFETY: the range of the ring is free, and this is the one that sends.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().add(done), to, piece) };
            done += piece;
            written += piece as u64;
            self.counters.written.0.store(written, Ordering::Release);
        }
        Ok(count)
    }

    /// Takes as many bytes as are here and fit.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> Result<usize, LinkError> {
        let mut done = 0;
        while done < bytes.len() {
            let (from, piece) = self.here((bytes.len() - done).min(STRIDE))?;
            if piece == 0 {
                break;
            }
            // SAFETY: the range of the ring is filled, and this is the one that receives.
            unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().add(done), piece) };
            self.take(piece);
            done += piece;
        }
        Ok(done)
    }

    /// Copies bytes that are here without taking them.
    pub(super) fn peek(&self, bytes: &mut [u8]) -> usize {
        let taken = self.taken(Ordering::Relaxed);
        let count = self.filled().unwrap_or(0).min(bytes.len());
        let mut done = 0;
        while done < count {
            let (from, piece) = self.piece(taken + done as u64, count - done);
            // SAFETY: as in `receive`.
            unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().add(done), piece) };
            done += piece;
        }
        count
    }

    /// The next bytes to receive that lie in one piece, at most `most`. They stay as they are until they are taken.
    pub(super) fn here(&self, most: usize) -> Result<(*const u8, usize), LinkError> {
        let taken = self.taken(Ordering::Relaxed);
        let filled = self.between(taken, self.written(Ordering::Acquire))?;
        let (from, piece) = self.piece(taken, filled.min(most));
        Ok((from.cast_const(), piece))
    }

    /// Gives the room of so many bytes back to the sender.
    pub(super) fn take(&self, count: usize) {
        let taken = self.taken(Ordering::Relaxed);
        self.counters.taken.0.store(taken.wrapping_add(count as u64), Ordering::Release);
    }
}

/// Sends the pieces one after another, as far as there is room.
pub(super) fn send_all(ring: &Ring<'_>, bytes: &[IoSlice<'_>]) -> Result<usize, LinkError> {
    let mut sent = 0;
    for piece in bytes {
        let count = ring.send(piece)?;
        sent += count;
        if count < piece.len() {
            break;
        }
    }
    Ok(sent)
}

/// Fills the pieces one after another, as far as there are bytes.
pub(super) fn receive_all(ring: &Ring<'_>, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError> {
    let mut got = 0;
    for piece in bytes {
        let count = ring.receive(piece)?;
        got += count;
        if count < piece.len() {
            break;
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ring(capacity: usize, body: impl FnOnce(&Ring<'_>, &Counters)) {
        let (counters, mut bytes) = (Counters::default(), vec![0_u8; capacity]);
        // SAFETY: the vector outlives the ring and is used by nothing else; one thread does both.
        body(&unsafe { Ring::new(&counters, bytes.as_mut_ptr(), capacity) }, &counters);
    }

    #[test]
    fn bytes_come_out_in_order_across_the_end() {
        with_ring(100, |ring, _| {
            let mut next = [0_u8, 0];
            for round in 0..200_usize {
                let sent: Vec<u8> = (0..round % 71).map(|i| next[0].wrapping_add(i as u8)).collect();
                let count = ring.send(&sent).unwrap();
                next[0] = next[0].wrapping_add(count as u8);
                let mut got = vec![0; round % 53];
                let seen = ring.peek(&mut got);
                let (_, piece) = ring.here(1000).unwrap();
                assert!(piece <= ring.filled().unwrap());
                let count = ring.receive(&mut got).unwrap();
                assert!(seen == count && count <= got.len());
                for byte in &got[..count] {
                    assert_eq!(*byte, next[1]);
                    next[1] = next[1].wrapping_add(1);
                }
            }
        });
    }

    #[test]
    fn a_full_ring_takes_nothing_and_an_empty_one_gives_nothing() {
        with_ring(64, |ring, _| {
            assert!(ring.is_empty() && !ring.is_full());
            assert_eq!(ring.send(&[7; 100]), Ok(64));
            assert_eq!(ring.send(&[7; 100]), Ok(0));
            assert!(ring.is_full());
            ring.take(64);
            assert_eq!(ring.receive(&mut [0; 8]), Ok(0));
        });
    }

    #[test]
    fn impossible_counters_are_an_error() {
        for (written, taken) in [(65, 0), (0, 1), (u64::MAX, 0), (10, u64::MAX - 60)] {
            with_ring(64, |ring, counters| {
                counters.written.0.store(written, Ordering::Relaxed);
                counters.taken.0.store(taken, Ordering::Relaxed);
                let refused = |result: Result<usize, LinkError>| matches!(result, Err(LinkError::Failed(_)));
                assert!(refused(ring.send(&[1])) && refused(ring.receive(&mut [0])) && refused(ring.filled()));
                assert_eq!(ring.peek(&mut [0; 4]), 0);
            });
        }
    }
}
