//! Agrees, pair by pair over the new data links, which ranks share memory.
//!
//! ```text
//! both ways        offer     the transport that each wants, and a digest of its host
//! lower → higher   invite    a socket's name, the size of the rings, a nonce; or why not
//! by that socket   the memory and both bells, as descriptors
//! higher → lower   answer    a nonce; or why not. Each side must find the other's nonce in the memory
//! lower → higher   verdict
//! ```
//!
//! The links are authenticated; the memory that comes over the socket is trusted only if nonces sent over the links show
//! that both sides map the same memory. If a rank closes its link meanwhile, the first collective reports it.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hmac_sha256::Hash;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with, sockopt,
};

use crate::config::Config;
use crate::net::{Cut, Waker, random, read_by, sleep, write_by};
use crate::transport::{NONCE, Segment, SharedLink, Side, ring_bytes};
use crate::{Error, Result, TransportKind};

const MAGIC: [u8; 4] = *b"HDLm";
const VERSION: u8 = 2;
const OFFER: usize = 40;
const FRAME: usize = 256;
const REASON: usize = FRAME - 44;
/// Time for descriptors to pass between two processes that both run.
const HANDOVER: Duration = Duration::from_secs(5);
/// The most connections to a socket that have sent nothing yet. The expected peer sends at once, so beyond this number
/// the oldest is dropped.
const MAX_SILENT: usize = 16;

/// The result of the agreement for one rank.
pub(crate) struct Memories {
    /// By peer.
    pub(crate) links: Vec<Option<SharedLink>>,
    /// The host of each rank that wants memory. Every rank has the same list, unless a peer is lost meanwhile; the first collective finds that.
    pub(crate) hosts: Vec<Option<u64>>,
    /// The bell that the peers ring.
    pub(crate) bell: Waker,
    /// Peers on this host that use TCP although both sides wanted memory, with the reason.
    pub(crate) refused: Vec<(usize, String)>,
}

impl Memories {
    /// The warning, if a pair wanted shared memory and has none.
    pub(crate) fn fallback(&self) -> Option<String> {
        let (_, reason) = self.refused.first()?;
        let ranks: Vec<String> = self.refused.iter().map(|(peer, _)| peer.to_string()).collect();
        let whom = if ranks.len() == 1 { "rank" } else { "ranks" };
        Some(format!("there is no shared memory with {whom} {}, so TCP carries the data: {reason}", ranks.join(", ")))
    }
}

/// The scope in which descriptors can be passed: one system since its start, one network namespace.
fn host() -> [u8; 32] {
    let read = |path: &str| std::fs::read(path).unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/net").map(|link| link.into_os_string().into_encoded_bytes());
    let mut hash = Hash::new();
    hash.update(b"heddle host\0");
    hash.update(read("/proc/sys/kernel/random/boot_id"));
    hash.update(namespace.unwrap_or_default());
    hash.finalize()
}

/// Agrees with every peer; the links must be blocking, and fresh.
pub(crate) fn agree(config: &Config, links: &[Option<TcpStream>], deadline: Instant) -> Result<Memories> {
    let memories = links.iter().map(|_| None).collect();
    let mine = Offer { kind: config.transport, host: host() };
    let hosts = vec![mine.wants(); links.len()];
    let mut all = Memories { links: memories, hosts, bell: Waker::new()?, refused: Vec::new() };
    let pairs = || links.iter().enumerate().filter_map(|(peer, link)| Some((peer, link.as_ref()?)));
    for (_, link) in pairs() {
        // A closed link is found below.
        let _ = write_by(link, &mine.encode(), deadline);
    }
    // In ascending order of (lower, higher) on every rank, so that no cycle of waits arises.
    for (peer, link) in pairs() {
        let agreement = Agreement { link, peer, deadline };
        let outcome = match agreement.meet(config, &mine, &all.bell, &mut all.hosts[peer]) {
            Ok(outcome) => outcome,
            // The first collective reports that the peer is gone.
            Err(Failure::Cut(Cut::Closed | Cut::Failed(_))) => continue,
            Err(Failure::Cut(Cut::TimedOut)) => return Err(agreement.late(config)),
            Err(Failure::Broken(detail)) => {
                return Err(Error::Protocol { peer: format!("rank {peer}"), detail: detail.into() });
            }
        };
        match outcome {
            Ok(link) => all.links[peer] = Some(link),
            Err(Refusal::Elsewhere) if config.transport != TransportKind::Shared => {}
            Err(Refusal::Elsewhere) => all.refused.push((peer, "it is on another host, or is to use TCP".into())),
            Err(Refusal::Here(reason)) => all.refused.push((peer, reason)),
        }
    }
    match all.refused.first() {
        Some((peer, reason)) if config.transport == TransportKind::Shared => {
            Err(Error::io(format!("there is no shared memory with rank {peer}"), reason))
        }
        _ => Ok(all),
    }
}

#[derive(Clone, Copy)]
struct Offer {
    kind: TransportKind,
    host: [u8; 32],
}

impl Offer {
    /// The host, if memory is wanted.
    fn wants(&self) -> Option<u64> {
        let wanted = matches!(self.kind, TransportKind::Auto | TransportKind::Shared);
        self.host.first_chunk().filter(|_| wanted).map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn encode(&self) -> [u8; OFFER] {
        let mut bytes = [0; OFFER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = [TransportKind::Tcp, TransportKind::Mpi, TransportKind::Checked]
            .iter()
            .position(|kind| *kind == self.kind)
            .map_or(0, |at| at as u8 + 1);
        bytes[8..].copy_from_slice(&self.host);
        bytes
    }

    fn decode(bytes: &[u8; OFFER]) -> std::result::Result<Self, Failure> {
        if bytes[..4] != MAGIC || bytes[4] != VERSION {
            return Err(Failure::Broken("its offer of memory is malformed"));
        }
        let kinds = [TransportKind::Auto, TransportKind::Tcp, TransportKind::Mpi, TransportKind::Checked];
        let kind = kinds.get(bytes[5] as usize).copied().unwrap_or(TransportKind::Tcp);
        Ok(Self { kind, host: bytes[8..].try_into().expect("32 bytes") })
    }
}

/// A message of the agreement after the offer.
struct Frame {
    /// Bytes of a ring, or the reason for having none.
    ring: std::result::Result<u64, String>,
    socket: [u8; NONCE],
    nonce: [u8; NONCE],
}

impl Frame {
    fn refusal(reason: &str) -> Self {
        Self { ring: Err(reason.to_owned()), socket: [0; NONCE], nonce: [0; NONCE] }
    }

    fn encode(&self) -> [u8; FRAME] {
        let mut bytes = [0; FRAME];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[12..28].copy_from_slice(&self.socket);
        bytes[28..44].copy_from_slice(&self.nonce);
        match &self.ring {
            Ok(ring) => bytes[4..12].copy_from_slice(&ring.to_le_bytes()),
            Err(reason) => {
                let cut = reason.floor_char_boundary(REASON);
                bytes[44..44 + cut].copy_from_slice(&reason.as_bytes()[..cut]);
            }
        }
        bytes
    }

    fn decode(bytes: &[u8; FRAME]) -> std::result::Result<Self, Failure> {
        let part = |at: usize| bytes[at..at + NONCE].try_into().expect("16 bytes");
        let reason: Vec<u8> = bytes[44..].iter().copied().take_while(|byte| *byte != 0).collect();
        let ring = u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes"));
        if bytes[..4] != MAGIC || (ring == 0) == reason.is_empty() {
            return Err(Failure::Broken("its message about memory is malformed"));
        }
        let ring = if ring == 0 { Err(String::from_utf8_lossy(&reason).into_owned()) } else { Ok(ring) };
        Ok(Self { ring, socket: part(12), nonce: part(28) })
    }
}

/// Why the agreement could not be reached.
enum Failure {
    Cut(Cut),
    Broken(&'static str),
}

impl From<Cut> for Failure {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

/// Why a pair shares no memory, although both sides took part in the agreement.
enum Refusal {
    /// The peer is on another host, or one side does not want memory.
    Elsewhere,
    Here(String),
}

type Outcome = std::result::Result<SharedLink, Refusal>;
/// The memory, or why there is none.
type Attempt = std::result::Result<SharedLink, String>;

/// The agreement with one peer.
struct Agreement<'a> {
    link: &'a TcpStream,
    peer: usize,
    deadline: Instant,
}

impl Agreement<'_> {
    fn late(&self, config: &Config) -> Error {
        Error::Timeout {
            limit: config.connect_timeout,
            waiting_for: format!("rank {}", self.peer),
            during: format!("agreeing on shared memory in world '{}' of run '{}'", config.name, config.run_id),
        }
    }

    fn read<const N: usize>(&self) -> std::result::Result<[u8; N], Failure> {
        let mut bytes = [0; N];
        read_by(self.link, &mut bytes, self.deadline)?;
        Ok(bytes)
    }

    fn tell(&self, frame: &Frame) -> std::result::Result<(), Failure> {
        Ok(write_by(self.link, &frame.encode(), self.deadline)?)
    }

    fn hear(&self) -> std::result::Result<Frame, Failure> {
        Frame::decode(&self.read()?)
    }

    fn meet(
        &self,
        config: &Config,
        mine: &Offer,
        bell: &Waker,
        host: &mut Option<u64>,
    ) -> std::result::Result<Outcome, Failure> {
        let theirs = Offer::decode(&self.read()?)?;
        *host = theirs.wants();
        let alone = [TransportKind::Mpi, TransportKind::Checked];
        if mine.kind != theirs.kind && [mine.kind, theirs.kind].iter().any(|kind| alone.contains(kind)) {
            return Err(Failure::Broken("only one of the two ranks wants MPI, or checksums"));
        }
        if mine.wants().is_none() || theirs.wants().is_none() || mine.host != theirs.host {
            return Ok(Err(Refusal::Elsewhere));
        }
        let outcome = if config.rank < self.peer { self.invite(config, bell)? } else { self.follow(bell)? };
        Ok(outcome.map_err(Refusal::Here))
    }

    /// The lower rank's part.
    fn invite(&self, config: &Config, bell: &Waker) -> std::result::Result<Attempt, Failure> {
        let ring = config.ring.unwrap_or_else(|| ring_bytes(config.size));
        let created = Segment::create(ring).and_then(|segment| Ok((segment, Listener::open()?)));
        let ((segment, fd), listener) = match created {
            Ok(created) => created,
            Err(reason) => {
                self.tell(&Frame::refusal(&reason))?;
                return Ok(Err(reason));
            }
        };
        let nonce = random();
        segment.sign(Side::Lower, nonce);
        self.tell(&Frame { ring: Ok(ring as u64), socket: listener.name, nonce })?;
        let passed = listener.pass(self.link.as_fd(), [fd.as_fd(), bell.fd()]);
        let answer = self.hear()?;
        let checked = answer.ring.and(passed).and_then(|theirs| {
            let seen = segment.signature(Side::Higher) == answer.nonce;
            if seen { Ok(theirs) } else { Err("the other side maps other memory".to_owned()) }
        });
        self.tell(&checked.as_ref().map_or_else(
            |reason| Frame::refusal(reason),
            |_| Frame { ring: Ok(ring as u64), socket: [0; NONCE], nonce },
        ))?;
        Ok(checked.map(|bell| SharedLink::new(segment, Side::Lower, bell)))
    }

    /// The higher rank's part.
    fn follow(&self, bell: &Waker) -> std::result::Result<Attempt, Failure> {
        let invite = self.hear()?;
        let ring = match &invite.ring {
            Ok(ring) => *ring as usize,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let nonce = random();
        let taken = fetch(&invite.socket, bell.fd()).and_then(|[fd, theirs]| {
            let segment = Segment::open(ring, fd)?;
            if segment.signature(Side::Lower) != invite.nonce {
                return Err("the other side maps other memory".into());
            }
            segment.sign(Side::Higher, nonce);
            Ok((segment, theirs))
        });
        let answer = Frame { ring: Ok(ring as u64), socket: [0; NONCE], nonce };
        self.tell(&taken.as_ref().map_or_else(|reason| Frame::refusal(reason), |_| answer))?;
        let verdict = self.hear()?;
        Ok(match (taken, verdict.ring) {
            (Ok((segment, bell)), Ok(_)) => Ok(SharedLink::new(segment, Side::Higher, bell.into())),
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        })
    }
}

/// A socket of this host, under a name that is in no file system and ends with the socket.
struct Listener {
    socket: OwnedFd,
    name: [u8; NONCE],
}

fn refused(what: &'static str) -> impl Fn(rustix::io::Errno) -> String {
    move |error| format!("{what}: {error}")
}

fn address(name: &[u8; NONCE]) -> std::result::Result<SocketAddrUnix, String> {
    let text: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    SocketAddrUnix::new_abstract_name(format!("heddle-{text}").as_bytes()).map_err(refused("the name of a socket"))
}

fn socket() -> std::result::Result<OwnedFd, String> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(refused("a socket of this host"))
}

/// The index of the first descriptor that can be read, within the time limit.
fn first_of(list: &[BorrowedFd<'_>], deadline: Instant) -> Option<usize> {
    while let left = deadline.saturating_duration_since(Instant::now())
        && !left.is_zero()
    {
        let mut fds: Vec<PollFd<'_>> = list.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        sleep(&mut fds, left);
        if let Some(at) = fds.iter().position(|fd| !fd.revents().is_empty()) {
            return Some(at);
        }
    }
    None
}

impl Listener {
    fn open() -> std::result::Result<Self, String> {
        let name = random();
        let socket = socket()?;
        bind(&socket, &address(&name)?).map_err(refused("bind"))?;
        listen(&socket, 4).map_err(refused("listen"))?;
        Ok(Self { socket, name })
    }

    /// Passes the descriptors to connecting processes of the same user, and returns the bell of the first process that sends
    /// one. An answer on the link before that means that the peer will not connect.
    ///
    /// Any process of this host can find the name and connect, so connections that send nothing must not block the others.
    fn pass(&self, link: BorrowedFd<'_>, fds: [BorrowedFd<'_>; 2]) -> std::result::Result<Waker, String> {
        let deadline = Instant::now() + HANDOVER;
        let mut connections: VecDeque<OwnedFd> = VecDeque::new();
        loop {
            let sockets = [self.socket.as_fd(), link];
            // Connections first: the expected peer may answer on the link as soon as it has sent its bell.
            let all: Vec<BorrowedFd<'_>> = connections.iter().map(AsFd::as_fd).chain(sockets).collect();
            let Some(first) = first_of(&all, deadline) else { break };
            if let Some(connection) = connections.remove(first) {
                if let Ok([bell]) = receive_fds(connection.as_fd(), deadline) {
                    return Ok(bell.into());
                }
            } else if first > connections.len() {
                break;
            } else if let Some(connection) = self.admit(&fds) {
                connections.push_back(connection);
                connections.drain(..connections.len().saturating_sub(MAX_SILENT));
            }
        }
        Err("the other side did not fetch the memory".into())
    }

    /// The next connection, if its process belongs to the same user and takes the descriptors.
    fn admit(&self, fds: &[BorrowedFd<'_>]) -> Option<OwnedFd> {
        let stream = accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
        let peer = sockopt::socket_peercred(&stream).ok()?;
        (peer.uid == rustix::process::geteuid() && send_fds(stream.as_fd(), fds).is_ok()).then_some(stream)
    }
}

/// Connects to the peer's socket, sends this rank's bell and receives the memory and the peer's bell.
fn fetch(name: &[u8; NONCE], bell: BorrowedFd<'_>) -> std::result::Result<[OwnedFd; 2], String> {
    let stream = socket()?;
    connect(&stream, &address(name)?).map_err(refused("the other side's socket"))?;
    send_fds(stream.as_fd(), &[bell])?;
    receive_fds(stream.as_fd(), Instant::now() + HANDOVER)
}

fn send_fds(stream: BorrowedFd<'_>, fds: &[BorrowedFd<'_>]) -> std::result::Result<(), String> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    // Descriptors travel with at least one byte.
    sendmsg(stream, &[std::io::IoSlice::new(b"f")], &mut control, SendFlags::NOSIGNAL)
        .map(drop)
        .map_err(refused("passing descriptors"))
}

fn receive_fds<const N: usize>(stream: BorrowedFd<'_>, deadline: Instant) -> std::result::Result<[OwnedFd; N], String> {
    if first_of(&[stream], deadline).is_none() {
        return Err("the other side passed nothing in time".into());
    }
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8];
    let mut bytes = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC).map_err(refused("taking descriptors"))?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    fds.try_into().map_err(|_| "the other side passed other descriptors than expected".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire_and_others_are_refused() {
        let frame = Frame { ring: Ok(1 << 19), socket: [1; NONCE], nonce: [2; NONCE] };
        let Ok(read) = Frame::decode(&frame.encode()) else { panic!("a frame") };
        assert_eq!((read.ring, read.socket, read.nonce), (Ok(1 << 19), [1; NONCE], [2; NONCE]));
        let long = "é".repeat(500);
        let Ok(read) = Frame::decode(&Frame::refusal(&long).encode()) else { panic!("a frame") };
        assert_eq!(read.ring, Err("é".repeat(REASON / 2)));
        for (at, value) in [(0, 0), (44, b'x')] {
            let mut bytes = frame.encode();
            bytes[at] = value;
            assert!(matches!(Frame::decode(&bytes), Err(Failure::Broken(_))));
        }
        assert!(matches!(Offer::decode(&[0; OFFER]), Err(Failure::Broken(_))));
    }

    #[test]
    fn descriptors_pass_although_other_processes_connect_first() {
        let listener = Listener::open().unwrap();
        let [here, there, idle] = [(); 3].map(|()| Waker::new().unwrap());
        // Other processes connect first: any process can find the name.
        let come = || {
            let stranger = socket().unwrap();
            connect(&stranger, &address(&listener.name).unwrap()).unwrap();
            stranger
        };
        let _says_nothing = come();
        let brings_nothing = come();
        rustix::net::send(&brings_nothing, b"f", SendFlags::NOSIGNAL).unwrap();
        drop(come());
        std::thread::scope(|scope| {
            let guest = scope.spawn(|| fetch(&listener.name, there.fd()));
            let bell = listener.pass(idle.fd(), [here.fd(), here.fd()]).unwrap();
            assert_eq!(guest.join().unwrap().unwrap().len(), 2);
            bell.wake();
        });
        let mut count = [0; 8];
        rustix::io::read(there.fd(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
        // An answer on the link means that the peer will not connect.
        idle.wake();
        let error = listener.pass(idle.fd(), [here.fd(), here.fd()]).unwrap_err();
        assert_eq!(error, "the other side did not fetch the memory");
        assert!(fetch(&[9; NONCE], here.fd()).unwrap_err().starts_with("the other side's socket: "));
    }
}
