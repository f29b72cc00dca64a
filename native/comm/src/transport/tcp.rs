//! Ranks as processes: one TCP connection per pair for data, read and written by the calling thread, and one for
//! messages that must not queue behind data, watched by a thread that sleeps.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use super::link::{Control, LinkError, Transport, Word};
use crate::net::{Waker, sleep};
use crate::signals::{Notice, Signals};
use crate::small::Ahead;
use crate::{Error, Result};

const MAGIC: u32 = u32::from_le_bytes(*b"HDLc");
const HEAD: usize = 32;
const MAX_TEXT: usize = 2048;
const TELL_LIMIT: Duration = Duration::from_millis(200);

/// The data links of one rank, by peer; `None` for itself.
pub(crate) struct TcpTransport {
    links: Vec<Option<TcpStream>>,
    ahead: Vec<Ahead>,
    waker: Arc<Waker>,
}

impl TcpTransport {
    pub(crate) fn new(links: Vec<Option<TcpStream>>, waker: Arc<Waker>) -> Self {
        let ahead = links.iter().map(|_| Ahead::default()).collect();
        Self { links, ahead, waker }
    }

    /// The descriptor to poll for a side; a missing side polls the waker.
    pub(super) fn watch(&self, peer: Option<usize>, flags: PollFlags) -> PollFd<'_> {
        match peer.and_then(|peer| self.links[peer].as_ref()) {
            Some(link) => PollFd::from_borrowed_fd(link.as_fd(), flags),
            None => PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
        }
    }

    fn link(&self, peer: usize) -> std::result::Result<&TcpStream, LinkError> {
        self.links[peer].as_ref().ok_or(LinkError::Closed)
    }
}

fn link_error(error: Errno) -> std::result::Result<usize, LinkError> {
    match error {
        Errno::AGAIN | Errno::INTR => Ok(0),
        Errno::PIPE | Errno::CONNRESET | Errno::CONNABORTED => Err(LinkError::Closed),
        error => Err(LinkError::Failed(error.to_string())),
    }
}

fn read(mut link: &TcpStream, bytes: &mut [IoSliceMut<'_>]) -> std::result::Result<usize, LinkError> {
    match link.read_vectored(bytes) {
        Ok(0) => Err(LinkError::Closed),
        Ok(count) => Ok(count),
        Err(error) => link_error(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

impl Transport for TcpTransport {
    fn try_send(&mut self, peer: usize, bytes: &[IoSlice<'_>]) -> std::result::Result<usize, LinkError> {
        // Not a plain write: a closed peer must give an error, not a signal that ends the process.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(self.link(peer)?, bytes, &mut SendAncillaryBuffer::default(), flags).or_else(link_error)
    }

    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> std::result::Result<usize, LinkError> {
        match self.ahead[peer].drain(bytes) {
            0 => read(self.link(peer)?, bytes),
            count => Ok(count),
        }
    }

    fn here(&mut self, peer: usize, most: usize) -> std::result::Result<Option<(*const u8, usize)>, LinkError> {
        let link = self.links[peer].as_ref().ok_or(LinkError::Closed)?;
        self.ahead[peer].here(most, |bytes| read(link, &mut [IoSliceMut::new(bytes)]))
    }

    fn take(&mut self, peer: usize, count: usize) {
        self.ahead[peer].take(count);
    }

    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize {
        let Ok(link) = self.link(peer) else { return 0 };
        let ahead = self.ahead[peer].filled();
        let (first, rest) = bytes.split_at_mut(ahead.len().min(bytes.len()));
        first.copy_from_slice(&ahead[..first.len()]);
        first.len() + recv(link, rest, RecvFlags::PEEK | RecvFlags::DONTWAIT).map_or(0, |(count, _)| count)
    }

    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration) {
        let waker = self.watch(None, PollFlags::IN);
        let mut fds = [waker, self.watch(send_to, PollFlags::OUT), self.watch(receive_from, PollFlags::IN)];
        sleep(&mut fds, limit);
    }
}

/// The run and epoch that control frames carry, so that frames of an earlier epoch are refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) run: u64,
    pub(crate) epoch: u64,
}

/// The control links of one rank, by peer.
pub(crate) struct TcpControl {
    links: Arc<Vec<Option<TcpStream>>>,
    stamp: Stamp,
    rank: usize,
    waker: Arc<Waker>,
    stop: Arc<Waker>,
    sending: Mutex<()>,
    monitor: Mutex<Option<JoinHandle<()>>>,
}

impl TcpControl {
    /// Starts the thread that listens to the peers.
    pub(crate) fn start(
        links: Vec<Option<TcpStream>>,
        stamp: Stamp,
        rank: usize,
        waker: Arc<Waker>,
        signals: Arc<Signals>,
    ) -> Result<Self> {
        let links = Arc::new(links);
        let stop = Arc::new(Waker::new()?);
        let watch = Watch { links: Arc::clone(&links), stamp, signals, waker: Arc::clone(&waker) };
        let stopped = Arc::clone(&stop);
        let monitor = std::thread::Builder::new()
            .name("heddle-comm".into())
            .stack_size(256 << 10)
            .spawn(move || watch.run(&stopped))
            .map_err(|error| Error::io("could not start the thread of the control links", error))?;
        let monitor = Mutex::new(Some(monitor));
        Ok(Self { links, stamp, rank, waker, stop, sending: Mutex::new(()), monitor })
    }
}

impl Control for TcpControl {
    fn tell(&self, word: Word, text: &str) {
        let cut = text.floor_char_boundary(MAX_TEXT);
        let mut frame = Vec::with_capacity(HEAD + cut);
        frame.extend_from_slice(&MAGIC.to_le_bytes());
        frame.extend_from_slice(&(word as u32).to_le_bytes());
        frame.extend_from_slice(&self.stamp.run.to_le_bytes());
        frame.extend_from_slice(&self.stamp.epoch.to_le_bytes());
        frame.extend_from_slice(&(self.rank as u32).to_le_bytes());
        frame.extend_from_slice(&(cut as u32).to_le_bytes());
        frame.extend_from_slice(&text.as_bytes()[..cut]);
        let _one_at_a_time = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + TELL_LIMIT;
        for link in self.links.iter().flatten() {
            tell_one(link, &frame, deadline);
        }
    }

    fn wake(&self) {
        self.waker.wake();
    }

    fn close(&self) {
        self.tell(Word::Goodbye, "");
        self.stop.wake();
        if let Some(monitor) = self.monitor.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = monitor.join();
        }
    }
}

/// Sends one frame; a peer that is gone or takes nothing is left to its own deadline.
fn tell_one(link: &TcpStream, frame: &[u8], deadline: Instant) {
    let mut sent = 0;
    while sent < frame.len() && Instant::now() < deadline {
        match send(link, &frame[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN | Errno::INTR) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}

/// The thread that listens to the control links.
struct Watch {
    links: Arc<Vec<Option<TcpStream>>>,
    stamp: Stamp,
    signals: Arc<Signals>,
    waker: Arc<Waker>,
}

#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    ended: bool,
}

impl Watch {
    fn run(&self, stop: &Waker) {
        let mut inboxes: Vec<Inbox> = self.links.iter().map(|_| Inbox::default()).collect();
        loop {
            let open = |(rank, link): (usize, &Option<TcpStream>)| match link {
                Some(_) if !inboxes[rank].ended => Some(rank),
                _ => None,
            };
            let ranks: Vec<usize> = self.links.iter().enumerate().filter_map(open).collect();
            let mut fds = vec![PollFd::from_borrowed_fd(stop.fd(), PollFlags::IN)];
            let streams = ranks.iter().filter_map(|rank| self.links[*rank].as_ref());
            fds.extend(streams.map(|link| PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN)));
            sleep(&mut fds, Duration::from_secs(3600));
            if !fds[0].revents().is_empty() {
                return;
            }
            for (rank, fd) in ranks.iter().zip(&fds[1..]) {
                if !fd.revents().is_empty() {
                    self.read(*rank, &mut inboxes[*rank]);
                }
            }
        }
    }

    fn read(&self, rank: usize, inbox: &mut Inbox) {
        let Some(mut link) = self.links[rank].as_ref() else { return };
        let mut bytes = [0; HEAD + MAX_TEXT];
        match link.read(&mut bytes) {
            Ok(0) => self.end(rank, inbox),
            Ok(count) => {
                inbox.bytes.extend_from_slice(&bytes[..count]);
                while !inbox.ended && self.take(rank, inbox) {}
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.end(rank, inbox),
        }
    }

    fn end(&self, rank: usize, inbox: &mut Inbox) {
        inbox.ended = true;
        self.signals.mark_gone(rank);
    }

    /// Takes one whole frame, if it is here.
    fn take(&self, rank: usize, inbox: &mut Inbox) -> bool {
        let Some(head) = inbox.bytes.first_chunk::<HEAD>() else { return false };
        let int = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let (word, length) = (int(4), int(28) as usize);
        let known = int(0) == MAGIC && (1..=4).contains(&word) && length <= MAX_TEXT;
        if !known || (long(8), long(16)) != (self.stamp.run, self.stamp.epoch) || int(24) as usize != rank {
            let detail = "a control message is malformed or belongs to another run".into();
            self.raise(Notice::Broken { rank, detail });
            inbox.ended = true;
            return false;
        }
        let Some(text) = inbox.bytes.get(HEAD..HEAD + length) else { return false };
        let text = String::from_utf8_lossy(text).into_owned();
        inbox.bytes.drain(..HEAD + length);
        match word {
            1 => self.raise(Notice::Peer { rank, reason: text }),
            2 => self.raise(Notice::Mismatch(text)),
            // An orderly end: a rank that still needs this peer sees the end of the data link.
            3 => inbox.ended = true,
            _ => self.signals.hear_waiting(rank, &text),
        }
        true
    }

    fn raise(&self, notice: Notice) {
        self.signals.raise(notice);
        self.waker.wake();
    }
}
