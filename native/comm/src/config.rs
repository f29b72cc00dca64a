//! How a rank meets the others.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The transport of data between ranks; everything else uses TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportKind {
    /// Shared memory between ranks of one host, where possible; else TCP.
    #[default]
    Auto,
    /// TCP.
    Tcp,
    /// Shared memory between all ranks; where that is impossible, connecting fails.
    Shared,
    /// MPI, between processes that its launcher has started.
    Mpi,
    /// TCP with a checksum over all that it carries.
    Checked,
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
    /// Addresses to listen on; the other ranks try them in this order.
    pub bind: Vec<IpAddr>,
    /// Ports to listen on, of which the first free one is taken; port 0 is any free one.
    pub ports: RangeInclusive<u16>,
    /// Deadline of every wait without progress in a collective.
    pub timeout: Duration,
    /// Deadline of meeting the other ranks.
    pub connect_timeout: Duration,
    /// Path of the flight recorder, if any; where the file cannot be created, the world has a warning instead.
    pub flight: Option<PathBuf>,
    /// The transport of data. A rank that wants TCP gets it, whatever its peers want.
    pub transport: TransportKind,
    /// Bytes of the ring buffer from one rank to another on the same host; by default chosen by the number of ranks. Each pair
    /// uses the value of its lower rank.
    pub ring: Option<usize>,
    /// The MPI library, with the standard ABI; by default the one beside `mpiexec`, else the loader's.
    pub mpi: Option<PathBuf>,
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
            bind: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ports: 0..=0,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            flight: None,
            transport: TransportKind::Auto,
            ring: None,
            mpi: None,
        }
    }
}
