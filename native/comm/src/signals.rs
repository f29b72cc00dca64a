//! Notices of other threads and ranks to the thread that runs a collective.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

/// Why the current or next collective must fail at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// This rank's `abort` was called.
    Local(String),
    /// A peer aborted or failed.
    Peer { rank: usize, reason: String },
    /// A peer found that ranks are in different collectives.
    Mismatch(String),
    /// A peer's control link carried bytes outside its protocol.
    Broken { rank: usize, detail: String },
}

impl Notice {
    pub(crate) fn into_error(self, during: &str) -> Error {
        let during = during.to_owned();
        match self {
            Self::Local(reason) => Error::Aborted { reason, during },
            Self::Peer { rank, reason } => Error::PeerAborted { rank, reason, during },
            Self::Mismatch(text) => Error::Mismatch(text),
            Self::Broken { rank, detail } => Error::Protocol { peer: format!("rank {rank}"), detail },
        }
    }
}

/// The collective in which a rank has long been waiting, and the rank that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) group: u64,
    pub(crate) sequence: u64,
    pub(crate) rank: usize,
}

impl Waiting {
    pub(crate) fn write(&self) -> String {
        format!("{} {} {}", self.group, self.sequence, self.rank)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (group, sequence) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { group, sequence, rank: words.next()?.parse().ok()? })
    }
}

/// One rank's inbox of notices; the first one counts.
#[derive(Debug)]
pub(crate) struct Signals {
    raised: AtomicBool,
    notice: Mutex<Option<Notice>>,
    gone: Vec<AtomicBool>,
    waiting: Mutex<Vec<Option<Waiting>>>,
}

impl Signals {
    pub(crate) fn new(size: usize) -> Self {
        let gone = (0..size).map(|_| AtomicBool::new(false)).collect();
        Self { raised: AtomicBool::new(false), notice: Mutex::new(None), gone, waiting: Mutex::new(vec![None; size]) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Notice>> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn raise(&self, notice: Notice) {
        self.lock().get_or_insert(notice);
        self.raised.store(true, Ordering::Release);
    }

    /// The notice, if any; a single load without one.
    pub(crate) fn notice(&self) -> Option<Notice> {
        if self.raised.load(Ordering::Acquire) { self.lock().clone() } else { None }
    }

    pub(crate) fn hear_waiting(&self, rank: usize, text: &str) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)[rank] = Waiting::read(text);
    }

    /// Follows the chain of waiting ranks, from `mine` to a rank that has not reported waiting.
    pub(crate) fn culprit(&self, mine: Waiting) -> usize {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = mine.rank;
        // A cycle ends after as many steps as there are ranks.
        for _ in 0..waiting.len() {
            match waiting.get(at).copied().flatten() {
                Some(next) if (next.group, next.sequence) == (mine.group, mine.sequence) => at = next.rank,
                _ => return at,
            }
        }
        mine.rank
    }

    /// Records that a peer ended without a notice. Data that the peer sent before may still arrive.
    pub(crate) fn mark_gone(&self, rank: usize) {
        self.gone[rank].store(true, Ordering::Release);
    }

    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        self.gone[rank].load(Ordering::Acquire)
    }
}
