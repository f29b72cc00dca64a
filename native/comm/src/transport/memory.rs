//! Ranks as threads of one process: a bounded byte queue per ordered pair.

use std::cell::UnsafeCell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::link::{Control, LinkError, Transport, Word, ring_bytes};
use super::ring::{Counters, Ring, receive_all, send_all};
use crate::signals::{Notice, Signals};

/// A ring and its memory.
struct Pipe {
    counters: Counters,
    bytes: UnsafeCell<Box<[u8]>>,
    capacity: usize,
}

// SAFETY: the bytes are touched through rings alone, by one sending and one receiving rank.
unsafe impl Sync for Pipe {}

impl Pipe {
    fn new(capacity: usize) -> Self {
        let bytes = UnsafeCell::new(vec![0; capacity].into_boxed_slice());
        Self { counters: Counters::default(), bytes, capacity }
    }

    fn ring(&self) -> Ring<'_> {
        // SAFETY: the box itself is never replaced; only its address is read here. A rank is used by one thread at a time.
        unsafe { Ring::new(&self.counters, (*self.bytes.get()).as_mut_ptr(), self.capacity) }
    }
}

/// Where one rank sleeps.
#[derive(Default)]
struct Sleeper {
    asleep: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Sleeper {
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
    beds: Vec<Sleeper>,
    left: Vec<AtomicBool>,
    signals: Vec<Arc<Signals>>,
}

impl Hub {
    fn ring(&self, from: usize, to: usize) -> Ring<'_> {
        self.pipes[from * self.beds.len() + to].get_or_init(|| Pipe::new(ring_bytes(self.beds.len()))).ring()
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
        beds: (0..size).map(|_| Sleeper::default()).collect(),
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
        let sent = send_all(&self.hub.ring(self.rank, peer), bytes)?;
        if sent > 0 {
            self.hub.beds[peer].wake();
        }
        Ok(sent)
    }

    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError> {
        // Checked before the ring: the last bytes of a peer that left must still be read.
        let left = self.hub.left[peer].load(Ordering::Acquire);
        let got = receive_all(&self.hub.ring(peer, self.rank), bytes)?;
        if got > 0 {
            self.hub.beds[peer].wake();
        }
        if got == 0 && left { Err(LinkError::Closed) } else { Ok(got) }
    }

    fn here(&mut self, peer: usize, most: usize) -> Result<Option<(*const u8, usize)>, LinkError> {
        let left = self.hub.left[peer].load(Ordering::Acquire);
        let here = self.hub.ring(peer, self.rank).here(most)?;
        if here.1 == 0 && left { Err(LinkError::Closed) } else { Ok(Some(here)) }
    }

    fn take(&mut self, peer: usize, count: usize) {
        self.hub.ring(peer, self.rank).take(count);
        self.hub.beds[peer].wake();
    }

    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize {
        self.hub.ring(peer, self.rank).peek(bytes)
    }

    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration) {
        let hub = &self.hub;
        hub.beds[self.rank].sleep(limit, || {
            let room = send_to.is_some_and(|to| !hub.ring(self.rank, to).is_full());
            let bytes = receive_from.is_some_and(|from| !hub.ring(from, self.rank).is_empty());
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
        self.hub.beds.iter().for_each(Sleeper::wake);
    }
}
