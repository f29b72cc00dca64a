//! Worlds for tests: ranks as threads, over each transport.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use heddle_comm::{Config, Group, StoreServer, TransportKind, World};

pub const SECRET: &[u8] = b"a secret of the tests";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Memory,
    Tcp,
    Checked,
    Shared,
    Mpi,
}

/// MPI is among them where `HEDDLE_MPI` is the path of a library with the standard ABI.
pub fn every() -> impl Iterator<Item = Over> {
    let mpi = std::env::var_os("HEDDLE_MPI").map(|_| Over::Mpi);
    [Over::Memory, Over::Tcp, Over::Checked, Over::Shared].into_iter().chain(mpi)
}

pub fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub fn store(run: &str) -> StoreServer {
    StoreServer::start(any(), SECRET, run).expect("a store")
}

pub fn config(store: &StoreServer, rank: usize, size: usize) -> Config {
    Config {
        timeout: Duration::from_secs(20),
        connect_timeout: Duration::from_secs(20),
        ..Config::new("run", rank, size, store.addr(), SECRET)
    }
}

pub fn worlds_with(over: Over, size: usize, timeout: Duration) -> Vec<World> {
    if over == Over::Memory {
        return World::in_process_with(size, timeout);
    }
    let store = store("run");
    let transport = match over {
        Over::Tcp => TransportKind::Tcp,
        Over::Mpi => TransportKind::Mpi,
        Over::Checked => TransportKind::Checked,
        _ => TransportKind::Shared,
    };
    let mpi = || std::env::var_os("HEDDLE_MPI").map(Into::into);
    let connect = |rank| World::connect(Config { timeout, transport, mpi: mpi(), ..config(&store, rank, size) });
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|rank| scope.spawn(move || connect(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().expect("a world")).collect()
    })
}

pub fn worlds(over: Over, size: usize) -> Vec<World> {
    worlds_with(over, size, Duration::from_secs(20))
}

/// Runs `body` on one thread per world and returns the results in rank order.
pub fn on_each<R: Send>(worlds: Vec<World>, body: impl Fn(&World, Group) -> R + Sync) -> Vec<R> {
    let ranks: Vec<usize> = (0..worlds.len()).collect();
    std::thread::scope(|scope| {
        let run = |world: World| {
            let (ranks, body) = (&ranks, &body);
            scope.spawn(move || {
                let group = world.group(ranks, "data").expect("a group");
                body(&world, group)
            })
        };
        let threads: Vec<_> = worlds.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    })
}
