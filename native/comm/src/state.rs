//! The state that a world and its groups share.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::flight::Recorder;
use crate::signals::{Signals, Waiting};
use crate::transport::{Control, Transport, Word, mpi};
use crate::{Error, Result};

/// State that a world and its groups share.
pub(crate) struct Shared {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) run: u64,
    pub(crate) epoch: u64,
    /// Every rank in words, with its address if that is another host's.
    pub(crate) names: Vec<String>,
    /// The incarnation of every rank, this one's too.
    pub(crate) incarnations: Vec<u64>,
    /// The host of each rank that shares memory with the others there.
    pub(crate) hosts: Vec<Option<u64>>,
    pub(crate) timeout: Duration,
    /// How often a rank looks again before it lets others run.
    pub(crate) spins: u32,
    pub(crate) signals: Arc<Signals>,
    pub(crate) flight: Recorder,
    pub(crate) control: Box<dyn Control>,
    pub(crate) transport: Mutex<Box<dyn Transport>>,
    pub(crate) failure: OnceLock<Error>,
    pub(crate) sequences: Mutex<HashMap<u64, Arc<AtomicU64>>>,
}

impl Shared {
    /// Runs a collective: one at a time in this world, none after a failure; its own failure is sent to the peers.
    pub(crate) fn exclusively(
        &self,
        what: &str,
        collective: impl FnOnce(&mut dyn Transport) -> Result<()>,
    ) -> Result<()> {
        let mut transport = self.transport.lock().map_err(|_| {
            self.fail(Error::Io { what: "this world is lost".into(), detail: "a collective panicked".into() })
        })?;
        if let Some(error) = self.failure.get() {
            return Err(error.clone());
        }
        if let Some(notice) = self.signals.notice() {
            return Err(self.fail(notice.into_error(what)));
        }
        collective(transport.as_mut()).map_err(|error| self.fail(error))
    }

    /// Stores the first failure, notifies the peers, and returns the first failure.
    fn fail(&self, error: Error) -> Error {
        let first = self.failure.get_or_init(|| error);
        mpi::note_failure();
        match first {
            // The rank where these arose has notified the peers.
            Error::PeerAborted { .. } | Error::Aborted { .. } => {}
            Error::Mismatch(text) => self.control.tell(Word::Mismatch, text),
            other => self.control.tell(Word::Abort, &other.to_string()),
        }
        first.clone()
    }

    /// Notifies the peers which rank this rank has long been waiting for.
    pub(crate) fn say_waiting(&self, waiting: Waiting) {
        self.control.tell(Word::Waiting, &waiting.write());
    }

    pub(crate) fn sequence(&self, group: u64) -> Arc<AtomicU64> {
        let mut sequences = self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sequences.entry(group).or_default())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.control.close();
    }
}

/// What a world is built of.
pub(crate) struct Wiring {
    pub(crate) run: u64,
    pub(crate) epoch: u64,
    pub(crate) names: Vec<String>,
    pub(crate) incarnations: Vec<u64>,
    pub(crate) hosts: Vec<Option<u64>>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) control: Box<dyn Control>,
    pub(crate) signals: Arc<Signals>,
    /// Peers whose data goes through memory.
    pub(crate) in_memory: Vec<usize>,
    /// Why there is no shared memory with other peers on this host.
    pub(crate) fallback: Option<String>,
}
