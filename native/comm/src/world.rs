//! A rank's membership in a world.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::config::{Config, DEFAULT_TIMEOUT};
use crate::flight::Recorder;
use crate::net::random;
use crate::signals::Notice;
use crate::state::{Shared, Wiring};
use crate::transport::{Word, in_process};
use crate::{Error, Group, Result, mesh};

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
            let (incarnations, names) = (incarnations.clone(), (0..size).map(|rank| format!("rank {rank}")).collect());
            let (in_memory, fallback) = ((0..size).filter(|peer| *peer != rank).collect(), None);
            let (epoch, hosts) = (0, vec![Some(0); size]);
            let wiring =
                Wiring { run, epoch, names, incarnations, hosts, transport, control, signals, in_memory, fallback };
            Self::assemble(rank, timeout, Recorder::none(), wiring)
        };
        in_process(size).into_iter().enumerate().map(build).collect()
    }

    fn assemble(rank: usize, timeout: Duration, flight: Recorder, wiring: Wiring) -> World {
        // Peers of other hosts are named with their addresses.
        let near = wiring.names.iter().filter(|name| !name.contains(" at ")).count();
        let shared = Shared {
            rank,
            size: wiring.incarnations.len(),
            run: wiring.run,
            epoch: wiring.epoch,
            names: wiring.names,
            incarnations: wiring.incarnations,
            hosts: wiring.hosts,
            timeout,
            spins: crate::small::spins(near, !wiring.in_memory.is_empty()),
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
