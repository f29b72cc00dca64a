//! Ranks as processes of one host: two rings per pair in memory that both map, beside the TCP links to the others.
//!
//! The TCP data link of such a pair stays open and idle. Its end shows the death of the peer, whatever
//! the rings hold. A rank without work marks itself as asleep in the memory and sleeps in `poll`; the peer then rings
//! its bell, an eventfd.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::memfd_create;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
};

use super::link::{LinkError, Transport};
use super::ring::{Counters, Ring, receive_all, send_all};
use super::tcp::TcpTransport;
use crate::net::{Waker, sleep};
use crate::small::{Lane, Pair, Steps};

/// Bytes before the rings.
const HEAD: usize = (size_of::<Head>() + 2 * NONCE).next_multiple_of(4096);
pub(crate) const NONCE: usize = 16;
/// Where each rank writes its nonce, which shows that it maps this memory.
const NONCES: usize = HEAD - 2 * NONCE;

/// The header before the rings. Its first state is all zeros.
#[repr(C)]
struct Head {
    /// The queues from each rank to the other, the lower rank's first.
    counters: [Counters; 2],
    /// Whether each rank sleeps until its bell rings.
    asleep: [Bed; 2],
    /// Small messages from each rank to the other.
    lanes: [Lane; 2],
}

#[repr(C, align(128))]
struct Bed(AtomicU32);

/// Which of the two ranks of a segment this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Lower = 0,
    Higher = 1,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        if self == Self::Lower { Self::Higher } else { Self::Lower }
    }
}

/// Memory that two processes map. It has no name in any file system, so nothing is left of it once both have ended.
#[derive(Debug)]
pub(crate) struct Segment {
    map: MmapRaw,
    ring: usize,
}

impl Segment {
    /// Allocates the memory; the descriptor is for the other process. Every page is reserved now, and the size is sealed,
    /// so that no later access can fail.
    pub(crate) fn create(ring: usize) -> Result<(Self, OwnedFd), String> {
        let refused = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
        let bytes = size(ring).filter(|_| ring > 0).ok_or("there are no rings of that size")?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("heddle", flags).map_err(|error| refused("memfd_create", error))?;
        ftruncate(&fd, bytes).map_err(|error| refused("ftruncate", error))?;
        fallocate(&fd, FallocateFlags::empty(), 0, bytes).map_err(|error| refused("fallocate", error))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&fd, seals).map_err(|error| refused("sealing", error))?;
        Ok((Self::map(ring, &fd)?, fd))
    }

    /// Maps what the other process created.
    pub(crate) fn open(ring: usize, fd: OwnedFd) -> Result<Self, String> {
        let seals = fcntl_get_seals(&fd).map_err(|error| format!("its seals: {error}"))?;
        let stat = fstat(&fd).map_err(|error| format!("its size: {error}"))?;
        if !seals.contains(SealFlags::SHRINK) || Some(stat.st_size as u64) != size(ring) {
            return Err("what came is not the memory that was announced".into());
        }
        Self::map(ring, &fd)
    }

    fn map(ring: usize, fd: &OwnedFd) -> Result<Self, String> {
        let file = fd.try_clone().map_err(|error| error.to_string())?;
        let map = MmapRaw::map_raw(&File::from(file)).map_err(|error| format!("mmap: {error}"))?;
        Ok(Self { map, ring })
    }

    fn head(&self) -> &Head {
        // SAFETY: the map is longer than `HEAD` and aligned to a page; every bit pattern is a `Head`, and all of it is
        // atomic.
        unsafe { &*self.map.as_ptr().cast::<Head>() }
    }

    /// The queue from one side to the other.
    fn ring(&self, from: Side) -> Ring<'_> {
        let bytes = self.map.as_mut_ptr().wrapping_add(HEAD + from as usize * self.ring);
        // SAFETY: both rings lie in the map (see `size`). Each side is a rank, used by one thread at a time.
        unsafe { Ring::new(&self.head().counters[from as usize], bytes, self.ring) }
    }

    /// The small messages from one side to the other.
    fn lane(&self, from: Side) -> &Lane {
        &self.head().lanes[from as usize]
    }

    fn asleep(&self, side: Side) -> &AtomicU32 {
        &self.head().asleep[side as usize].0
    }

    fn nonce_at(&self, side: Side) -> *mut [u8; NONCE] {
        self.map.as_mut_ptr().wrapping_add(NONCES + side as usize * NONCE).cast()
    }

    /// Leaves a rank's nonce for the other to see. Before the first message only.
    pub(crate) fn sign(&self, side: Side, nonce: [u8; NONCE]) {
        // SAFETY: the place lies in the map, and bytes have no alignment. A message on the link orders it before the read.
        unsafe { self.nonce_at(side).write_volatile(nonce) };
    }

    /// The nonce of a rank. Before the first message only.
    pub(crate) fn signature(&self, side: Side) -> [u8; NONCE] {
        // SAFETY: as in `sign`.
        unsafe { self.nonce_at(side).read_volatile() }
    }
}

/// Bytes of a segment with two such rings.
fn size(ring: usize) -> Option<u64> {
    ring.checked_mul(2)?.checked_add(HEAD)?.try_into().ok()
}

/// The memory shared with one peer, and the peer's bell.
pub(crate) struct SharedLink {
    segment: Segment,
    /// Which side this rank is.
    side: Side,
    bell: Waker,
    steps: Steps,
}

impl SharedLink {
    pub(crate) fn new(segment: Segment, side: Side, bell: Waker) -> Self {
        Self { segment, side, bell, steps: Steps::default() }
    }

    fn has_next(&self) -> bool {
        self.segment.lane(self.side.other()).has_next(&self.steps)
    }

    fn outgoing(&self) -> Ring<'_> {
        self.segment.ring(self.side)
    }

    fn incoming(&self) -> Ring<'_> {
        self.segment.ring(self.side.other())
    }

    /// Wakes the peer, if it sleeps.
    ///
    /// Both sides swap the same word, and of two swaps one follows the other and reads from it: this rank sees that the peer
    /// sleeps, or the peer, which looks after its swap, sees what was published before this one. No fence is needed.
    fn wake(&self) {
        if self.segment.asleep(self.side.other()).swap(0, Ordering::AcqRel) != 0 {
            self.bell.wake();
        }
    }
}

/// The data links of one rank: memory to some peers, TCP to the others.
pub(crate) struct SharedTransport {
    tcp: TcpTransport,
    /// By peer; nothing where TCP carries the data.
    links: Vec<Option<SharedLink>>,
    /// The state of the TCP links of peers that share memory.
    ended: Vec<Option<LinkError>>,
    bell: Waker,
    waker: Arc<Waker>,
}

impl SharedTransport {
    /// `bell` is the eventfd that the peers ring.
    pub(crate) fn new(tcp: TcpTransport, links: Vec<Option<SharedLink>>, bell: Waker, waker: Arc<Waker>) -> Self {
        let ended = links.iter().map(|_| None).collect();
        Self { tcp, links, ended, bell, waker }
    }

    /// Whether a peer had ended at the last wait; its last bytes are read before that counts.
    fn ended(&self, peer: usize) -> Result<(), LinkError> {
        self.ended[peer].clone().map_or(Ok(()), Err)
    }

    /// Nothing is sent on the TCP link of a pair that shares memory, so only its end can be read.
    fn look_at_end(&mut self, peer: usize) {
        let mut byte = [0_u8];
        self.ended[peer] = match self.tcp.try_receive(peer, &mut [IoSliceMut::new(&mut byte)]) {
            Ok(0) => None,
            Ok(_) => Some(LinkError::Failed("data came on a link that carries none".into())),
            Err(error) => Some(error),
        };
    }
}

impl Transport for SharedTransport {
    fn try_send(&mut self, peer: usize, bytes: &[IoSlice<'_>]) -> Result<usize, LinkError> {
        let Some(link) = &self.links[peer] else { return self.tcp.try_send(peer, bytes) };
        self.ended(peer)?;
        let sent = send_all(&link.outgoing(), bytes)?;
        if sent > 0 {
            link.wake();
        }
        Ok(sent)
    }

    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError> {
        let Some(link) = &self.links[peer] else { return self.tcp.try_receive(peer, bytes) };
        let got = receive_all(&link.incoming(), bytes)?;
        if got == 0 {
            return self.ended(peer).map(|()| 0);
        }
        link.wake();
        Ok(got)
    }

    fn here(&mut self, peer: usize, most: usize) -> Result<Option<(*const u8, usize)>, LinkError> {
        let Some(link) = &self.links[peer] else { return self.tcp.here(peer, most) };
        let here = link.incoming().here(most)?;
        if here.1 == 0 {
            self.ended(peer)?;
        }
        Ok(Some(here))
    }

    fn take(&mut self, peer: usize, count: usize) {
        let Some(link) = &self.links[peer] else { return self.tcp.take(peer, count) };
        link.incoming().take(count);
        link.wake();
    }

    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize {
        match &self.links[peer] {
            Some(link) => link.incoming().peek(bytes),
            None => self.tcp.peek(peer, bytes),
        }
    }

    fn shared(&mut self, peer: usize) -> Option<Pair<'_>> {
        let SharedLink { segment, side, steps, .. } = self.links[peer].as_mut()?;
        Some(Pair { mine: segment.lane(*side), theirs: segment.lane(side.other()), steps })
    }

    fn wake(&mut self, peer: usize) {
        if let Some(link) = &self.links[peer] {
            link.wake();
        }
    }

    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration) {
        let link = |peer: Option<usize>| peer.and_then(|peer| self.links[peer].as_ref());
        let (to, from) = (link(send_to), link(receive_from));
        if to.is_none() && from.is_none() {
            return self.tcp.wait(send_to, receive_from, limit);
        }
        let each = || to.iter().chain(&from);
        // Swaps, see `wake`.
        let sleeps = |flag| each().for_each(|link| _ = link.segment.asleep(link.side).swap(flag, Ordering::AcqRel));
        sleeps(1);
        let room = to.is_some_and(|link| !link.outgoing().is_full());
        let bytes = from.is_some_and(|link| !link.incoming().is_empty() || link.has_next());
        // The link of a peer that shares memory only shows that the peer ended.
        let flags = |shared: bool, flags| if shared { PollFlags::IN } else { flags };
        let mut fds = [
            PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.bell.fd(), PollFlags::IN),
            self.tcp.watch(send_to, flags(to.is_some(), PollFlags::OUT)),
            self.tcp.watch(receive_from, PollFlags::IN),
        ];
        if !room && !bytes {
            sleep(&mut fds, limit);
        }
        let events = fds.each_ref().map(|fd| !fd.revents().is_empty());
        sleeps(0);
        let shared = (to.is_some(), from.is_some());
        if events[1] {
            self.bell.clear();
        }
        for (peer, told) in [(send_to, events[2] && shared.0), (receive_from, events[3] && shared.1)] {
            if let Some(peer) = peer.filter(|_| told) {
                self.look_at_end(peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_maps() {
        let (lower, fd) = Segment::create(1 << 16).unwrap();
        let higher = Segment::open(1 << 16, fd).unwrap();
        lower.sign(Side::Lower, [7; NONCE]);
        assert_eq!(higher.signature(Side::Lower), [7; NONCE]);
        assert_eq!(lower.ring(Side::Lower).send(&[1, 2, 3]), Ok(3));
        let mut got = [0; 3];
        assert_eq!(higher.ring(Side::Higher).receive(&mut got), Ok(0));
        assert_eq!(higher.ring(Side::Lower).receive(&mut got), Ok(3));
        assert_eq!(got, [1, 2, 3]);
    }

    /// One rank of a pair that shares memory, the other of which is rank `1 - rank`.
    fn transport(rank: usize, link: SharedLink, bell: Waker) -> SharedTransport {
        let waker = Arc::new(Waker::new().unwrap());
        let mut links = [None, None];
        links[1 - rank] = Some(link);
        let tcp = TcpTransport::new(vec![None, None], Arc::clone(&waker));
        SharedTransport::new(tcp, links.into(), bell, waker)
    }

    #[test]
    fn no_message_is_slept_through() {
        const LIMIT: Duration = Duration::from_secs(60);
        let (lower, fd) = Segment::create(1 << 16).unwrap();
        let higher = Segment::open(1 << 16, fd).unwrap();
        let bells = [Waker::new().unwrap(), Waker::new().unwrap()];
        let copies = [1, 0].map(|peer: usize| Waker::from(bells[peer].fd().try_clone_to_owned().unwrap()));
        let [to_higher, to_lower] = copies;
        let links = [SharedLink::new(lower, Side::Lower, to_higher), SharedLink::new(higher, Side::Higher, to_lower)];
        std::thread::scope(|scope| {
            for (rank, (link, bell)) in links.into_iter().zip(bells).enumerate() {
                scope.spawn(move || {
                    let (mut transport, peer) = (transport(rank, link, bell), 1 - rank);
                    for step in 1..=20_000 {
                        // SAFETY: a message without bytes.
                        unsafe { transport.shared(peer).unwrap().post(&[1, step, 2], &[], 0, |_| ()) };
                        transport.wake(peer);
                        // Each sleeps at once, so that one goes to sleep while the other sends.
                        while transport.shared(peer).unwrap().arrived(&[1, step, 2], 0).is_none() {
                            let began = std::time::Instant::now();
                            transport.wait(None, Some(peer), LIMIT);
                            assert!(began.elapsed() < LIMIT, "step {step}");
                        }
                        transport.shared(peer).unwrap().taken(0);
                    }
                });
            }
        });
    }

    #[test]
    fn other_memory_than_announced_is_refused() {
        let announced = "what came is not the memory that was announced";
        let (_, fd) = Segment::create(1 << 16).unwrap();
        assert_eq!(Segment::open(1 << 17, fd).unwrap_err(), announced);
        let unsealed = memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, size(1 << 16).unwrap()).unwrap();
        assert_eq!(Segment::open(1 << 16, unsealed).unwrap_err(), announced);
        let pipe = crate::net::Waker::new().unwrap().fd().try_clone_to_owned().unwrap();
        assert!(Segment::open(1 << 16, pipe).unwrap_err().starts_with("its seals: "));
    }

    #[test]
    fn what_the_system_refuses_is_named() {
        assert!(Segment::create(1 << 62).unwrap_err().starts_with("ftruncate: "));
        for ring in [0, usize::MAX] {
            assert_eq!(Segment::create(ring).unwrap_err(), "there are no rings of that size");
        }
    }
}
