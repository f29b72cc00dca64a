//! Ranks as threads of one process: a bounded byte queue per ordered pair.

use std::cell::UnsafeCell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::{Control, LinkError, Transport, Word};
use crate::signals::{Notice, Signals};

/// Bytes of queues towards one rank; what each gets of it is bounded both ways.
const TOTAL: usize = 8 << 20;

/// A byte queue between exactly one sending and one receiving thread.
struct Pipe {
    bytes: UnsafeCell<Box<[u8]>>,
    capacity: usize,
    /// Bytes ever written; only the sender stores.
    written: AtomicUsize,
    /// Bytes ever taken; only the receiver stores.
    taken: AtomicUsize,
}

// SAFETY: the sender writes only bytes between `written` and `taken + capacity`, the receiver reads only those between
// `taken` and `written`; each publishes its progress with release and reads the other's with acquire.
unsafe impl Sync for Pipe {}

impl Pipe {
    fn new(capacity: usize) -> Self {
        let bytes = UnsafeCell::new(vec![0; capacity].into_boxed_slice());
        Self { bytes, capacity, written: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: the box itself is never replaced; only its address is read here.
        unsafe { (*self.bytes.get()).as_mut_ptr() }
    }

    /// Copies between the ring at `position` and `outside`, wrapping at the end.
    ///
    /// # Safety
    /// The caller must own the range of the ring, and `count` be at most the capacity and the size of `outside`.
    unsafe fn copy(&self, position: usize, outside: *mut u8, count: usize, inwards: bool) {
        let at = position % self.capacity;
        let head = count.min(self.capacity - at);
        for (ring, outside, count) in [(at, outside, head), (0, outside.wrapping_add(head), count - head)] {
            let ring = self.base().wrapping_add(ring);
            let (from, to) = if inwards { (outside, ring) } else { (ring, outside) };
            // SAFETY: both ranges are valid for `count` by the caller's contract, and the ring is nobody else's memory.
            unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
        }
    }

    fn send(&self, bytes: &[u8]) -> usize {
        let written = self.written.load(Ordering::Relaxed);
        let room = self.capacity - (written - self.taken.load(Ordering::Acquire));
        let count = room.min(bytes.len());
        // SAFETY: the range is free, and this is the sending thread.
        unsafe { self.copy(written, bytes.as_ptr().cast_mut(), count, true) };
        self.written.store(written + count, Ordering::Release);
        count
    }

    fn receive(&self, bytes: &mut [u8], keep: bool) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        let count = (self.written.load(Ordering::Acquire) - taken).min(bytes.len());
        // SAFETY: the range is filled, and this is the receiving thread.
        unsafe { self.copy(taken, bytes.as_mut_ptr(), count, false) };
        if !keep {
            self.taken.store(taken + count, Ordering::Release);
        }
        count
    }

    fn is_empty(&self) -> bool {
        self.written.load(Ordering::Acquire) == self.taken.load(Ordering::Acquire)
    }

    fn is_full(&self) -> bool {
        self.written.load(Ordering::Acquire) - self.taken.load(Ordering::Acquire) == self.capacity
    }
}

/// Where one rank sleeps.
#[derive(Default)]
struct Bed {
    asleep: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Bed {
    fn wake(&self) {
        // Orders what was published before against the sleeper's flag; the sleeper fences the other way round.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }

    fn sleep(&self, limit: Duration, ready: impl Fn() -> bool) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !ready() {
            drop(self.wake.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner));
        }
        self.asleep.store(false, Ordering::Relaxed);
    }
}

struct Hub {
    pipes: Vec<OnceLock<Pipe>>,
    beds: Vec<Bed>,
    left: Vec<AtomicBool>,
    signals: Vec<Arc<Signals>>,
}

impl Hub {
    fn pipe(&self, from: usize, to: usize) -> &Pipe {
        self.pipes[from * self.beds.len() + to].get_or_init(|| {
            let share = TOTAL / self.beds.len();
            Pipe::new(share.clamp(64 << 10, 512 << 10))
        })
    }
}

struct MemoryTransport {
    hub: Arc<Hub>,
    rank: usize,
}

struct MemoryControl {
    hub: Arc<Hub>,
    rank: usize,
}

/// Both channels of one rank, and its signals.
type Ends = (Box<dyn Transport>, Box<dyn Control>, Arc<Signals>);

/// The ends of each of `size` ranks.
pub(crate) fn in_process(size: usize) -> Vec<Ends> {
    let hub = Arc::new(Hub {
        pipes: (0..size * size).map(|_| OnceLock::new()).collect(),
        beds: (0..size).map(|_| Bed::default()).collect(),
        left: (0..size).map(|_| AtomicBool::new(false)).collect(),
        signals: (0..size).map(|_| Arc::new(Signals::new(size))).collect(),
    });
    let ends = |rank| {
        let transport: Box<dyn Transport> = Box::new(MemoryTransport { hub: Arc::clone(&hub), rank });
        let control: Box<dyn Control> = Box::new(MemoryControl { hub: Arc::clone(&hub), rank });
        (transport, control, Arc::clone(&hub.signals[rank]))
    };
    (0..size).map(ends).collect()
}

impl Transport for MemoryTransport {
    fn try_send(&mut self, peer: usize, bytes: &[IoSlice<'_>]) -> Result<usize, LinkError> {
        if self.hub.left[peer].load(Ordering::Acquire) {
            return Err(LinkError::Closed);
        }
        let pipe = self.hub.pipe(self.rank, peer);
        let mut sent = 0;
        for piece in bytes {
            let count = pipe.send(piece);
            sent += count;
            if count < piece.len() {
                break;
            }
        }
        if sent > 0 {
            self.hub.beds[peer].wake();
        }
        Ok(sent)
    }

    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError> {
        // Looked at first: a peer that left after its last bytes must not hide them.
        let left = self.hub.left[peer].load(Ordering::Acquire);
        let pipe = self.hub.pipe(peer, self.rank);
        let mut got = 0;
        for piece in bytes {
            let count = pipe.receive(piece, false);
            got += count;
            if count < piece.len() {
                break;
            }
        }
        if got > 0 {
            self.hub.beds[peer].wake();
        }
        if got == 0 && left { Err(LinkError::Closed) } else { Ok(got) }
    }

    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize {
        self.hub.pipe(peer, self.rank).receive(bytes, true)
    }

    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration) {
        let hub = &self.hub;
        hub.beds[self.rank].sleep(limit, || {
            let room = send_to.is_some_and(|to| !hub.pipe(self.rank, to).is_full());
            let bytes = receive_from.is_some_and(|from| !hub.pipe(from, self.rank).is_empty());
            let gone = [send_to, receive_from].iter().flatten().any(|peer| hub.left[*peer].load(Ordering::Acquire));
            room || bytes || gone || hub.signals[self.rank].notice().is_some()
        });
    }
}

impl Control for MemoryControl {
    fn tell(&self, word: Word, text: &str) {
        for peer in (0..self.hub.beds.len()).filter(|peer| *peer != self.rank) {
            let signals = &self.hub.signals[peer];
            match word {
                Word::Abort => signals.raise(Notice::Peer { rank: self.rank, reason: text.to_owned() }),
                Word::Mismatch => signals.raise(Notice::Mismatch(text.to_owned())),
                Word::Waiting => signals.hear_waiting(self.rank, text),
                Word::Goodbye => {}
            }
            self.hub.beds[peer].wake();
        }
    }

    fn wake(&self) {
        self.hub.beds[self.rank].wake();
    }

    fn close(&self) {
        self.hub.left[self.rank].store(true, Ordering::Release);
        self.hub.beds.iter().for_each(Bed::wake);
    }
}
