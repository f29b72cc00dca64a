//! A rank's membership in a world, and the state that its groups share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::flight::Recorder;
use crate::net::random;
use crate::signals::{Notice, Signals, Waiting};
use crate::transport::{Control, Transport, Word, in_process};
use crate::{Error, Group, Result, mesh};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The transport of data between ranks; everything else uses TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportKind {
    /// Memory between ranks that share a host, where possible; else TCP.
    #[default]
    Auto,
    /// TCP.
    Tcp,
    /// Memory between all ranks; where that is impossible, connecting fails.
    Shared,
}

/// How a rank meets the others.
#[derive(Clone)]
pub struct Config {
    /// Name of the run; part of every key and message.
    pub run_id: String,
    /// Membership epoch: every re-formed world takes a new one.
    pub epoch: u64,
    /// Distinguishes worlds of one run that work side by side; usually `main`.
    pub name: String,
    /// This rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Address of the store where the ranks meet.
    pub store_addr: SocketAddr,
    /// The secret that all processes of the run share; not empty.
    pub secret: Vec<u8>,
    /// Address of the interface to listen on, as the other ranks reach it.
    pub bind_ip: IpAddr,
    /// Deadline of every wait without progress in a collective.
    pub timeout: Duration,
    /// Deadline of meeting the other ranks.
    pub connect_timeout: Duration,
    /// Path of the flight recorder, if any; where the file cannot be created, the world has a warning instead.
    pub flight: Option<PathBuf>,
    /// The transport of data. A rank that wants TCP gets it, whatever its peers want.
    pub transport: TransportKind,
    /// Bytes of memory for data under way from one rank to another of its host; by the number of ranks if not given. The
    /// lower rank's word counts.
    pub ring: Option<usize>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the secret.
        f.debug_struct("Config")
            .field("run_id", &self.run_id)
            .field("epoch", &self.epoch)
            .field("name", &self.name)
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("store_addr", &self.store_addr)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// The usual configuration: epoch 0, name `main`, loopback, deadlines of 60 s, no flight recorder, any transport.
    #[must_use]
    pub fn new(run_id: &str, rank: usize, size: usize, store_addr: SocketAddr, secret: &[u8]) -> Self {
        Self {
            run_id: run_id.to_owned(),
            epoch: 0,
            name: "main".to_owned(),
            rank,
            size,
            store_addr,
            secret: secret.to_vec(),
            bind_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            flight: None,
            transport: TransportKind::Auto,
            ring: None,
        }
    }
}

/// State that a world and its groups share.
pub(crate) struct Shared {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) run: u64,
    pub(crate) epoch: u64,
    /// The incarnation of every rank, this one's too.
    pub(crate) incarnations: Vec<u64>,
    pub(crate) timeout: Duration,
    pub(crate) signals: Arc<Signals>,
    pub(crate) flight: Recorder,
    control: Box<dyn Control>,
    transport: Mutex<Box<dyn Transport>>,
    failure: OnceLock<Error>,
    sequences: Mutex<HashMap<u64, Arc<AtomicU64>>>,
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

/// One rank's membership in a set of ranks that run collectives together. `Send + Sync`.
pub struct World {
    shared: Arc<Shared>,
    warning: Option<String>,
    fallback: Option<String>,
    in_memory: Vec<usize>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// What a world is built of.
pub(crate) struct Wiring {
    pub(crate) run: u64,
    pub(crate) epoch: u64,
    pub(crate) incarnations: Vec<u64>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) control: Box<dyn Control>,
    pub(crate) signals: Arc<Signals>,
    /// Peers whose data goes through memory.
    pub(crate) in_memory: Vec<usize>,
    /// Why there is no shared memory with other peers on this host.
    pub(crate) fallback: Option<String>,
}

impl World {
    /// Meets the other ranks at the store and links to each of them, both ways authenticated.
    ///
    /// A rank can be taken once per run, epoch and name: a process that comes back needs a new epoch.
    pub fn connect(config: Config) -> Result<World> {
        // A full disk must not end a run that needs no disk.
        let (flight, warning) =
            match config.flight.as_ref().map(|path| Recorder::create(path, config.rank, config.size)) {
                Some(Ok(flight)) => (flight, None),
                Some(Err(error)) => (Recorder::none(), Some(error.to_string())),
                None => (Recorder::none(), None),
            };
        let world = Self::assemble(config.rank, config.timeout, flight, mesh::connect(&config)?);
        Ok(World { warning, ..world })
    }

    /// `size` ranks inside this process, each to be used from its own thread.
    #[must_use]
    pub fn in_process(size: usize) -> Vec<World> {
        Self::in_process_with(size, DEFAULT_TIMEOUT)
    }

    /// As `in_process`, with a deadline other than 60 s.
    #[must_use]
    pub fn in_process_with(size: usize, timeout: Duration) -> Vec<World> {
        let run = u64::from_le_bytes(random());
        let incarnations: Vec<u64> = (0..size).map(|_| u64::from_le_bytes(random())).collect();
        let build = |(rank, (transport, control, signals))| {
            let incarnations = incarnations.clone();
            let (in_memory, fallback) = ((0..size).filter(|peer| *peer != rank).collect(), None);
            let wiring = Wiring { run, epoch: 0, incarnations, transport, control, signals, in_memory, fallback };
            Self::assemble(rank, timeout, Recorder::none(), wiring)
        };
        in_process(size).into_iter().enumerate().map(build).collect()
    }

    fn assemble(rank: usize, timeout: Duration, flight: Recorder, wiring: Wiring) -> World {
        let shared = Shared {
            rank,
            size: wiring.incarnations.len(),
            run: wiring.run,
            epoch: wiring.epoch,
            incarnations: wiring.incarnations,
            timeout,
            signals: wiring.signals,
            flight,
            control: wiring.control,
            transport: Mutex::new(wiring.transport),
            failure: OnceLock::new(),
            sequences: Mutex::default(),
        };
        let (fallback, in_memory) = (wiring.fallback, wiring.in_memory);
        World { shared: Arc::new(shared), warning: None, fallback, in_memory }
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// A group of `ranks`, in the order that gives blocks and rings; must contain this rank. Costs no communication.
    ///
    /// All members must give the same ranks in the same order and the same name. Groups may outlive their world value.
    pub fn group(&self, ranks: &[usize], name: &str) -> Result<Group> {
        Group::new(Arc::clone(&self.shared), ranks, name)
    }

    /// Fails this rank's current or next collective and those of all others, at once; from any thread.
    pub fn abort(&self, reason: &str) {
        let shared = &self.shared;
        shared.signals.raise(Notice::Local(reason.to_owned()));
        shared.control.wake();
        shared.control.tell(Word::Abort, reason);
    }

    /// The first error of this world, if it has failed.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let noticed = || self.shared.signals.notice().map(|notice| notice.into_error("no collective"));
        self.shared.failure.get().cloned().or_else(noticed)
    }

    /// Why this world has no flight recorder although one was requested: the record of an error.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Why ranks of this host share no memory although they want to.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// The ranks whose data goes through memory; data of the others goes over TCP.
    #[must_use]
    pub fn in_memory(&self) -> &[usize] {
        &self.in_memory
    }

    /// Notes the training step in the flight recorder.
    pub fn set_step(&self, step: u64) {
        self.shared.flight.set_step(step);
    }
}
