//! Builds the links of a world: every rank listens, publishes its address in the store, and dials the lower ranks.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::{Identity, Role, Scope, answer};
use crate::config::Config;
use crate::hellos::{HELLO_LIMIT, Hellos, Unmet, meet};
use crate::net::{Waker, random, readable_or_woken, tune};
use crate::signals::Signals;
use crate::state::Wiring;
use crate::transport::{SharedTransport, Stamp, TcpControl, TcpTransport, Transport, checked::Checked, mpi};
use crate::{AuthReason, CompareAndSet, Error, Result, StoreClient, TransportKind, shared_memory};

const MAX_SIZE: usize = 4096;
/// Places for unexpected connections beside the expected ones.
const EXTRA_HELLOS: usize = 64;

type Link = (Identity, TcpStream);

/// Meets the other ranks and returns the links.
pub(crate) fn connect(config: &Config) -> Result<Wiring> {
    check(config)?;
    let deadline = Instant::now() + config.connect_timeout;
    let scope = Scope::new(&config.secret, &config.run_id, Some((config.epoch, &config.name)));
    let incarnation = u64::from_le_bytes(random());
    let store = StoreClient::connect(config.store_addr, &config.secret, &config.run_id, config.connect_timeout)?;
    let acceptor = Acceptor::start(listen(config)?, &scope, config, incarnation)?;
    publish(config, &store, &acceptor.addrs, incarnation)?;
    let mut mesh = Mesh::new(config, incarnation);
    for rank in 0..config.rank {
        mesh.dial(&store, &scope, rank, deadline)?;
    }
    acceptor.collect(&mut mesh, &store, deadline)?;
    mesh.finish(&scope, deadline)
}

fn check(config: &Config) -> Result<()> {
    let invalid = |text: String| Err(Error::Invalid(format!("world '{}': {text}", config.name)));
    if config.secret.is_empty() {
        return invalid("the shared secret must not be empty".into());
    }
    if config.size == 0 || config.size > MAX_SIZE || config.rank >= config.size {
        return invalid(format!("rank {} of {} is not possible (at most {MAX_SIZE})", config.rank, config.size));
    }
    if config.bind.is_empty() || config.bind.iter().any(IpAddr::is_unspecified) {
        return invalid("a rank listens on addresses that the other ranks can reach, not on a wildcard".into());
    }
    Ok(())
}

fn key(config: &Config, rank: usize) -> String {
    format!("{}/{}/{}/rank/{rank}", config.run_id, config.epoch, config.name)
}

/// A listener on each address, on its first free port.
fn listen(config: &Config) -> Result<Vec<TcpListener>> {
    let on = |ip: &IpAddr| {
        let addrs: Vec<SocketAddr> = config.ports.clone().map(|port| (*ip, port).into()).collect();
        TcpListener::bind(&addrs[..]).map_err(|error| {
            let (first, last) = (config.ports.start(), config.ports.end());
            let ports = if *last == 0 { String::new() } else { format!(", ports {first} to {last}") };
            Error::io(format!("could not listen on {ip}{ports}"), error)
        })
    };
    config.bind.iter().map(on).collect()
}

fn publish(config: &Config, store: &StoreClient, addrs: &[SocketAddr], incarnation: u64) -> Result<()> {
    let value = format!("{} {incarnation} {}", joined(addrs, ","), config.size);
    match store.compare_and_set(&key(config, config.rank), None, value.as_bytes())? {
        CompareAndSet::Swapped => Ok(()),
        CompareAndSet::Current(_) => Err(Error::Invalid(format!(
            "rank {} of world '{}' was already taken in epoch {}; a process that comes back needs a new epoch",
            config.rank, config.name, config.epoch
        ))),
    }
}

struct Published {
    addrs: Vec<SocketAddr>,
    incarnation: u64,
    size: usize,
}

fn parse(value: &[u8]) -> Option<Published> {
    let mut words = std::str::from_utf8(value).ok()?.split(' ');
    let addrs = words.next()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    Some(Published { addrs, incarnation: words.next()?.parse().ok()?, size: words.next()?.parse().ok()? })
}

fn joined(items: &[impl ToString], by: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(by)
}

/// The links found so far.
struct Mesh<'a> {
    config: &'a Config,
    data: Vec<Option<TcpStream>>,
    control: Vec<Option<TcpStream>>,
    incarnations: Vec<u64>,
}

impl<'a> Mesh<'a> {
    fn new(config: &'a Config, incarnation: u64) -> Self {
        let mut incarnations = vec![0; config.size];
        incarnations[config.rank] = incarnation;
        let none = || (0..config.size).map(|_| None).collect();
        Self { config, data: none(), control: none(), incarnations }
    }

    fn during(&self) -> String {
        let config = self.config;
        format!("connecting world '{}' of run '{}', epoch {}", config.name, config.run_id, config.epoch)
    }

    fn add(&mut self, (who, stream): Link) -> Result<()> {
        let rank = who.rank as usize;
        let known = self.data[rank].is_some() || self.control[rank].is_some();
        let links = if who.role == Role::Data { &mut self.data } else { &mut self.control };
        if links[rank].is_some() || (known && self.incarnations[rank] != who.incarnation) {
            let detail = "two processes claim to be it".into();
            return Err(Error::Protocol { peer: format!("rank {rank}"), detail });
        }
        links[rank] = Some(stream);
        self.incarnations[rank] = who.incarnation;
        Ok(())
    }

    fn dial(&mut self, store: &StoreClient, scope: &Scope, rank: usize, deadline: Instant) -> Result<()> {
        let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let value = store.get(&key(self.config, rank), &format!("the address of rank {rank}"), left())?;
        let peer = || format!("rank {rank}");
        let malformed = || Error::Protocol { peer: peer(), detail: "its entry in the store is malformed".into() };
        let published = parse(&value).ok_or_else(malformed)?;
        if published.size != self.config.size {
            let (mine, size) = (self.config.rank, self.config.size);
            let text = format!("rank {rank} is in a world of {}, but rank {mine} in one of {size}", published.size);
            return Err(Error::Mismatch(text));
        }
        let place = joined(&published.addrs, " or ");
        let unmet = |why| match why {
            Unmet::Unreachable(error) => Error::io(format!("could not connect to rank {rank} at {place}"), error),
            Unmet::Refused(reason) => Error::Auth { peer: format!("rank {rank} at {place}"), reason },
        };
        for role in [Role::Data, Role::Control] {
            let incarnation = self.incarnations[self.config.rank];
            let me = Identity { role, rank: self.config.rank as u32, incarnation };
            let (who, stream) = meet(&published.addrs, scope, me, deadline).map_err(unmet)?;
            if (who.rank as usize, who.incarnation) != (rank, published.incarnation) {
                return Err(unmet(Unmet::Refused(AuthReason::WrongPeer)));
            }
            self.add((who, stream))?;
        }
        Ok(())
    }

    fn missing(&self) -> Vec<usize> {
        let linked = |rank: &usize| self.data[*rank].is_some() && self.control[*rank].is_some();
        (0..self.config.size).filter(|rank| *rank != self.config.rank && !linked(rank)).collect()
    }

    fn finish(self, scope: &Scope, deadline: Instant) -> Result<Wiring> {
        let names = self.data.iter().enumerate().map(|(rank, link)| match link.as_ref().map(TcpStream::peer_addr) {
            Some(Ok(addr)) if !addr.ip().is_loopback() => format!("rank {rank} at {}", addr.ip()),
            _ => format!("rank {rank}"),
        });
        let names = names.collect();
        let memories = shared_memory::agree(self.config, &self.data, deadline)?;
        let waker = Arc::new(Waker::new()?);
        let signals = Arc::new(Signals::new(self.config.size));
        let stamp = Stamp { run: scope.short(), epoch: self.config.epoch };
        let watch = Arc::clone(&signals);
        self.control.iter().flatten().try_for_each(tune)?;
        let control = TcpControl::start(self.control, stamp, self.config.rank, Arc::clone(&waker), watch)?;
        let in_memory: Vec<usize> =
            memories.links.iter().enumerate().filter_map(|(peer, link)| link.as_ref().map(|_| peer)).collect();
        let fallback = memories.fallback();
        let transport: Box<dyn Transport> = if self.config.transport == TransportKind::Mpi {
            Box::new(mpi::connect(self.config, self.data, waker, deadline)?)
        } else {
            self.data.iter().flatten().try_for_each(tune)?;
            let tcp = TcpTransport::new(self.data, Arc::clone(&waker));
            match self.config.transport {
                TransportKind::Checked => Box::new(Checked::new(tcp, self.config.size)),
                _ => Box::new(SharedTransport::new(tcp, memories.links, memories.bell, waker)),
            }
        };
        Ok(Wiring {
            run: stamp.run,
            epoch: stamp.epoch,
            names,
            incarnations: self.incarnations,
            hosts: memories.hosts,
            transport,
            control: Box::new(control),
            signals,
            in_memory,
            fallback,
        })
    }
}

/// Accepts and authenticates the higher ranks while this one dials the lower.
struct Acceptor {
    addrs: Vec<SocketAddr>,
    arrivals: Receiver<Link>,
    inner: Arc<AcceptorState>,
}

struct AcceptorState {
    scope: Scope,
    rank: usize,
    size: usize,
    incarnation: u64,
    stop: Waker,
    stopped: AtomicBool,
    hellos: Hellos,
    /// The last refused connection, for the error of a rank that never connects.
    refused: Mutex<Option<(SocketAddr, AuthReason)>>,
}

impl Acceptor {
    fn start(listeners: Vec<TcpListener>, scope: &Scope, config: &Config, incarnation: u64) -> Result<Self> {
        let failed = |error| Error::io("could not listen for other ranks", error);
        let inner = Arc::new(AcceptorState {
            scope: scope.clone(),
            rank: config.rank,
            size: config.size,
            incarnation,
            stop: Waker::new()?,
            stopped: AtomicBool::new(false),
            hellos: Hellos::new(2 * config.size + EXTRA_HELLOS),
            refused: Mutex::new(None),
        });
        let (sender, arrivals) = channel();
        let mut addrs = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true).map_err(failed)?;
            addrs.push(listener.local_addr().map_err(failed)?);
            let (shared, sender) = (Arc::clone(&inner), sender.clone());
            let run = move || shared.accept(&listener, &sender);
            std::thread::Builder::new().name("heddle-acceptor".into()).spawn(run).map_err(failed)?;
        }
        Ok(Self { addrs, arrivals, inner })
    }

    /// Waits until all ranks are linked.
    fn collect(&self, mesh: &mut Mesh<'_>, store: &StoreClient, deadline: Instant) -> Result<()> {
        loop {
            let missing = mesh.missing();
            if missing.is_empty() {
                return Ok(());
            }
            match self.arrivals.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(link) => mesh.add(link)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let limit = mesh.config.connect_timeout;
                    let waiting_for = self.name(&missing, mesh.config, store);
                    return Err(Error::Timeout { limit, waiting_for, during: mesh.during() });
                }
            }
        }
    }

    /// The missing ranks, with the addresses of those that are at the store, and the last connection that was refused.
    fn name(&self, missing: &[usize], config: &Config, store: &StoreClient) -> String {
        let named = missing.iter().map(|rank| {
            let value = store.try_get(&key(config, *rank)).ok().flatten();
            value
                .and_then(|value| parse(&value))
                .map_or_else(|| rank.to_string(), |found| format!("{rank} at {}", joined(&found.addrs, " or ")))
        });
        let list = joined(&named.collect::<Vec<_>>(), ", ");
        let ranks = if missing.len() == 1 { format!("rank {list}") } else { format!("ranks {list}") };
        match *self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((from, reason)) => format!("{ranks} (a connection from {from} was refused: {reason})"),
            None => ranks,
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.inner.stopped.store(true, Ordering::Release);
        self.inner.stop.wake();
    }
}

impl AcceptorState {
    fn accept(self: &Arc<Self>, listener: &TcpListener, arrivals: &Sender<Link>) {
        while !self.stopped.load(Ordering::Acquire) {
            readable_or_woken(listener.as_fd(), &self.stop, Duration::from_secs(60));
            let Ok((stream, from)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let (shared, arrivals) = (Arc::clone(self), arrivals.clone());
            let hello = move || shared.welcome(stream, from, &arrivals);
            // Without a thread the connection ends, and a rank comes again.
            let _ = std::thread::Builder::new().name("heddle-hello".into()).stack_size(256 << 10).spawn(hello);
        }
    }

    fn welcome(&self, stream: TcpStream, from: SocketAddr, arrivals: &Sender<Link>) {
        let admit = |who: Identity| {
            let rank = who.rank as usize;
            let expected = rank > self.rank && rank < self.size && who.role != Role::Store;
            if expected { Ok(()) } else { Err(AuthReason::WrongPeer) }
        };
        let Ok(place) = self.hellos.enter(&stream, from) else { return };
        let ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
        let me = (self.rank as u32, self.incarnation);
        let result = match ready {
            Ok(()) => answer(&stream, &self.scope, me, admit, Instant::now() + HELLO_LIMIT),
            Err(_) => Err(AuthReason::Malformed),
        };
        drop(place);
        match result {
            // The receiver is dropped once this rank has failed or has all its links.
            Ok(who) => drop(arrivals.send((who, stream))),
            Err(reason) => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some((from, reason));
            }
        }
    }
}
