//! Ranks as processes of one MPI job: MPI carries the data, in messages of bytes that are put together to streams.
//!
//! Everything else stays as over TCP: the ranks meet at the store and prove the secret to each other, and the TCP links of a
//! pair stay open, since their end shows the end of the peer, of which MPI says nothing. Each rank chooses the tag of what a peer sends to it, so that worlds, and
//! ranks of one process, do not meet; and both sides of a pair find in the first message of MPI the nonce that the other
//! has sent over the link.

mod library;

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::link::{LinkError, Transport};
use super::tcp::TcpTransport;
use crate::config::Config;
use crate::net::{Cut, Waker, random, read_by, sleep, tune, write_by};
use crate::{Error, Result};
pub(crate) use library::note_failure;
use library::{Handle, Mpi, start};

const MAGIC: u32 = u32::from_le_bytes(*b"HDLp");
const NONCE: usize = 16;
const HELLO: usize = 12 + 2 * NONCE;
/// Most bytes of a message, and most messages to a peer that MPI has not taken yet.
const CHUNK: usize = 128 << 10;
const IN_FLIGHT: usize = 4;
/// MPI wakes nobody, so a rank that waits looks again, less and less often.
const NAPS: Range<Duration> = Duration::from_micros(20)..Duration::from_millis(1);
/// Time for MPI to bring what a peer sent before its end.
const LAST_ARRIVALS: Duration = Duration::from_millis(100);
/// Time for MPI to take what a world that ends has sent.
const LAST_SENDS: Duration = Duration::from_millis(500);

struct Sending {
    bytes: Box<[u8]>,
    request: Handle,
}

/// The way to and from one peer.
struct Link {
    rank: usize,
    /// What the peer has chosen for messages to it, and this rank for those from it.
    tags: (u32, u32),
    nonce: [u8; NONCE],
    sending: VecDeque<Sending>,
    spare: Vec<Box<[u8]>>,
    receiving: Option<(Handle, usize)>,
    arrived: Vec<u8>,
    filled: Range<usize>,
}

/// The links of one rank, by peer; `None` for itself.
pub(crate) struct MpiTransport {
    mpi: &'static Mpi,
    links: Vec<Option<Link>>,
    /// Carries nothing; it ends with the peer.
    tcp: TcpTransport,
    /// When a peer was seen to end, and how its link did.
    ended: Vec<Option<(Instant, LinkError)>>,
    waker: Arc<Waker>,
    nap: Duration,
}

/// Agrees with every peer over the TCP links, which must be blocking, and tries each link of MPI.
pub(crate) fn connect(
    config: &Config,
    data: Vec<Option<TcpStream>>,
    waker: Arc<Waker>,
    deadline: Instant,
) -> Result<MpiTransport> {
    let mpi = start(config.mpi.as_deref())?;
    let nonce: [u8; NONCE] = random();
    let tags: Vec<u32> = data.iter().map(|_| mpi.new_tag()).collect();
    for (link, tag) in data.iter().zip(&tags) {
        let Some(link) = link else { continue };
        let place = [MAGIC, mpi.rank as u32, *tag].map(u32::to_le_bytes);
        // A closed link is found below.
        let _ = write_by(link, &[place.as_flattened(), &mpi.process, &nonce].concat(), deadline);
    }
    let meet = |(peer, link): (usize, &Option<TcpStream>)| {
        link.as_ref().map(|link| meet(link, peer, tags[peer], mpi, deadline)).transpose()
    };
    let links = data.iter().enumerate().map(meet).collect::<Result<_>>()?;
    data.iter().flatten().try_for_each(tune)?;
    let ended = data.iter().map(|_| None).collect();
    let tcp = TcpTransport::new(data, Arc::clone(&waker));
    let mut transport = MpiTransport { mpi, links, tcp, ended, waker, nap: NAPS.start };
    transport.try_links(&nonce, deadline)?;
    Ok(transport)
}

/// Reads what a peer says of itself.
fn meet(link: &TcpStream, peer: usize, tag: u32, mpi: &Mpi, deadline: Instant) -> Result<Link> {
    let mut hello = [0; HELLO];
    read_by(link, &mut hello, deadline).map_err(|cut| match cut {
        Cut::Closed => Error::PeerClosed { rank: peer, peer: format!("rank {peer}"), during: "agreeing on MPI".into() },
        cut => Error::io(format!("rank {peer} has not said where it is in MPI"), cut),
    })?;
    let int = |at: usize| u32::from_le_bytes(hello[at..at + 4].try_into().expect("four bytes"));
    let (rank, same_process) = (int(4) as usize, hello[12..12 + NONCE] == mpi.process);
    if int(0) != MAGIC {
        let detail = "what it says of its place in MPI is malformed".into();
        return Err(Error::Protocol { peer: format!("rank {peer}"), detail });
    }
    if rank >= mpi.size || (rank == mpi.rank) != same_process {
        let what = format!("rank {peer} is not in this process's MPI job, which has {} processes", mpi.size);
        let detail = format!("workers must be started by the mpiexec that belongs to {}", mpi.path.display());
        return Err(Error::io(what, detail));
    }
    Ok(Link {
        rank,
        tags: (int(8), tag),
        nonce: hello[12 + NONCE..].try_into().expect("the rest"),
        sending: VecDeque::new(),
        spare: Vec::new(),
        receiving: None,
        arrived: Vec::new(),
        filled: 0..0,
    })
}

impl Link {
    /// Takes back the buffers of what MPI has taken.
    fn reclaim(&mut self, mpi: &Mpi) -> std::result::Result<(), LinkError> {
        while let Some(first) = self.sending.front_mut()
            && mpi.done(&mut first.request)?
        {
            self.spare.extend(self.sending.pop_front().map(|sent| sent.bytes));
            mpi.pending.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn send(&mut self, mpi: &Mpi, pieces: &[IoSlice<'_>]) -> std::result::Result<usize, LinkError> {
        self.reclaim(mpi)?;
        if self.sending.len() == IN_FLIGHT {
            return Ok(0);
        }
        let mut bytes = self.spare.pop().unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
        let mut count = 0;
        for piece in pieces {
            let fits = piece.len().min(CHUNK - count);
            bytes[count..count + fits].copy_from_slice(&piece[..fits]);
            count += fits;
        }
        // The box stays where it is until the request is done; only the pointer to it moves.
        let request = mpi.send(&bytes[..count], self.rank, self.tags.0)?;
        mpi.pending.fetch_add(1, Ordering::Relaxed);
        self.sending.push_back(Sending { bytes, request });
        Ok(count)
    }

    /// Receives the next message, once the last one is taken.
    fn progress(&mut self, mpi: &Mpi) -> std::result::Result<(), LinkError> {
        if !self.filled.is_empty() {
            return Ok(());
        }
        self.arrived.resize(CHUNK, 0);
        if self.receiving.is_none() {
            self.receiving = mpi.receive(&mut self.arrived, self.rank, self.tags.1)?;
        }
        if let Some((mut request, count)) = self.receiving {
            let done = mpi.done(&mut request)?;
            self.receiving = if done { None } else { Some((request, count)) };
            self.filled = if done { 0..count } else { 0..0 };
        }
        Ok(())
    }

    fn here(&self) -> &[u8] {
        &self.arrived[self.filled.clone()]
    }
}

impl MpiTransport {
    fn link(&mut self, peer: usize) -> std::result::Result<&mut Link, LinkError> {
        self.links[peer].as_mut().ok_or(LinkError::Closed)
    }

    /// The link, with what has arrived.
    fn arrived(&mut self, peer: usize) -> std::result::Result<&mut Link, LinkError> {
        let link = self.links[peer].as_mut().ok_or(LinkError::Closed)?;
        link.progress(self.mpi)?;
        if !link.filled.is_empty() {
            self.nap = NAPS.start;
        } else if let Some((at, error)) = &self.ended[peer]
            && at.elapsed() > LAST_ARRIVALS
        {
            return Err(error.clone());
        }
        Ok(link)
    }

    /// Nothing is sent on the TCP link of a pair, so only its end can be read.
    fn look_at_end(&mut self, peer: usize) {
        let mut byte = [0_u8];
        let end = match self.tcp.try_receive(peer, &mut [IoSliceMut::new(&mut byte)]) {
            Ok(0) => None,
            Ok(_) => Some(LinkError::Failed("data came on a link that carries none".into())),
            Err(error) => Some(error),
        };
        self.ended[peer] = self.ended[peer].take().or(end.map(|error| (Instant::now(), error)));
    }

    /// Sends every peer this rank's nonce, and waits for theirs.
    fn try_links(&mut self, nonce: &[u8; NONCE], deadline: Instant) -> Result<()> {
        let peers: Vec<usize> = (0..self.links.len()).filter(|peer| self.links[*peer].is_some()).collect();
        let failed = |peer: usize| {
            move |error: LinkError| {
                let detail = if let LinkError::Failed(detail) = error { detail } else { "it is closed".into() };
                Error::io(format!("MPI does not reach rank {peer}"), detail)
            }
        };
        for peer in &peers {
            self.try_send(*peer, &[IoSlice::new(nonce)]).map_err(failed(*peer))?;
        }
        for peer in peers {
            let mut got = [0; NONCE];
            while self.try_receive(peer, &mut [IoSliceMut::new(&mut got)]).map_err(failed(peer))? == 0 {
                if Instant::now() >= deadline {
                    return Err(failed(peer)(LinkError::Failed("nothing has come from it in time".into())));
                }
                self.wait(None, Some(peer), NAPS.end);
            }
            if got != self.link(peer).map_err(failed(peer))?.nonce {
                return Err(failed(peer)(LinkError::Failed("another process answers".into())));
            }
        }
        Ok(())
    }
}

impl Transport for MpiTransport {
    fn try_send(&mut self, peer: usize, bytes: &[IoSlice<'_>]) -> std::result::Result<usize, LinkError> {
        if let Some((_, error)) = &self.ended[peer] {
            return Err(error.clone());
        }
        let mpi = self.mpi;
        self.link(peer)?.send(mpi, bytes)
    }

    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> std::result::Result<usize, LinkError> {
        let link = self.arrived(peer)?;
        let before = link.filled.len();
        for piece in bytes {
            let count = piece.len().min(link.filled.len());
            piece[..count].copy_from_slice(&link.here()[..count]);
            link.filled.start += count;
        }
        Ok(before - link.filled.len())
    }

    fn here(&mut self, peer: usize, most: usize) -> std::result::Result<Option<(*const u8, usize)>, LinkError> {
        let here = self.arrived(peer)?.here();
        Ok(Some((here.as_ptr(), here.len().min(most))))
    }

    fn take(&mut self, peer: usize, count: usize) {
        if let Ok(link) = self.link(peer) {
            link.filled.start += count.min(link.filled.len());
        }
    }

    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize {
        let Ok(link) = self.arrived(peer) else { return 0 };
        let count = bytes.len().min(link.filled.len());
        bytes[..count].copy_from_slice(&link.here()[..count]);
        count
    }

    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration) {
        let peers = [send_to, receive_from];
        let [to, from] = peers.map(|peer| self.tcp.watch(peer, PollFlags::IN));
        let mut fds = [PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN), to, from];
        sleep(&mut fds, self.nap.min(limit));
        let told = [!fds[1].revents().is_empty(), !fds[2].revents().is_empty()];
        self.nap = (self.nap * 2).min(NAPS.end);
        peers.into_iter().zip(told).filter(|(_, told)| *told).filter_map(|(peer, _)| peer).for_each(|peer| {
            self.look_at_end(peer);
        });
    }
}

impl Drop for MpiTransport {
    /// Waits a while for MPI to take what is still to be sent; what it does not take in time, it keeps.
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST_SENDS;
        for link in self.links.iter_mut().flatten() {
            while link.reclaim(self.mpi).is_ok() && !link.sending.is_empty() && Instant::now() < deadline {
                std::thread::sleep(NAPS.start);
            }
            link.sending.drain(..).for_each(|sending| std::mem::forget(sending.bytes));
            if link.receiving.is_some() {
                std::mem::forget(std::mem::take(&mut link.arrived));
            }
        }
    }
}
