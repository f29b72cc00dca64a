//! Sockets with deadlines, and a descriptor that wakes a poll.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::sockopt;

use crate::{Error, Result};

/// Why a bounded read or write ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The other side closed.
    Closed,
    /// The deadline passed.
    TimedOut,
    /// Another failure of the system.
    Failed(String),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Failed(detail) => f.write_str(detail),
        }
    }
}

fn cut(error: &std::io::Error) -> Cut {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Cut::TimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => Cut::Closed,
        _ => Cut::Failed(error.to_string()),
    }
}

fn remaining(deadline: Instant) -> std::result::Result<Duration, Cut> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Cut::TimedOut) } else { Ok(left) }
}

/// Connects to the first of `addrs` that answers, and tries again until the deadline: a host, or the link to it, may come up
/// late. `patient`: even where a host refuses.
pub(crate) fn dial(addrs: &[SocketAddr], deadline: Instant, patient: bool) -> std::io::Result<TcpStream> {
    // An address that does not answer must not take the time of the next.
    let longest = if addrs.len() > 1 { Duration::from_secs(3) } else { Duration::MAX };
    let mut pause = Duration::from_millis(5);
    loop {
        let mut result = Err(ErrorKind::AddrNotAvailable.into());
        for addr in addrs {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            result = TcpStream::connect_timeout(addr, left.min(longest));
            if result.is_ok() {
                return result;
            }
        }
        let refused = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if (refused && !patient) || Instant::now() + pause >= deadline {
            return result;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// Fills `bytes` from a blocking socket before the deadline, however slowly they trickle in.
pub(crate) fn read_by(mut stream: &TcpStream, bytes: &mut [u8], deadline: Instant) -> std::result::Result<(), Cut> {
    let mut got = 0;
    while got < bytes.len() {
        stream.set_read_timeout(Some(remaining(deadline)?)).map_err(|error| cut(&error))?;
        match stream.read(&mut bytes[got..]) {
            Ok(0) => return Err(Cut::Closed),
            Ok(count) => got += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cut(&error)),
        }
    }
    Ok(())
}

/// Writes all of `bytes` to a blocking socket before the deadline.
pub(crate) fn write_by(mut stream: &TcpStream, bytes: &[u8], deadline: Instant) -> std::result::Result<(), Cut> {
    let mut sent = 0;
    while sent < bytes.len() {
        stream.set_write_timeout(Some(remaining(deadline)?)).map_err(|error| cut(&error))?;
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cut(&error)),
        }
    }
    Ok(())
}

/// Settings of a link that carries tensors: no delay, room for several segments in flight, never blocking.
pub(crate) fn tune(stream: &TcpStream) -> Result<()> {
    const WANTED: usize = 4 << 20;
    let failed = |error: std::io::Error| Error::io("could not set up a link", error);
    stream.set_nodelay(true).map_err(failed)?;
    // The system clamps the sizes to its own limits; a smaller buffer is slower but works.
    let _ = sockopt::set_socket_send_buffer_size(stream, WANTED);
    let _ = sockopt::set_socket_recv_buffer_size(stream, WANTED);
    stream.set_nonblocking(true).map_err(failed)
}

/// A descriptor that is readable once `wake` is called, until `clear` is. Another process may hold a copy of it.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl From<OwnedFd> for Waker {
    /// A waker that another process made.
    fn from(eventfd: OwnedFd) -> Self {
        Self(eventfd)
    }
}

impl Waker {
    pub(crate) fn new() -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("could not make an eventfd", error))?;
        Ok(Self(fd))
    }

    pub(crate) fn wake(&self) {
        // The only failure of a non-blocking eventfd write is a full counter, which is readable too.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        // Without a call of `wake` the read fails, which is no error here.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of `fds` has an event or `limit` has passed.
pub(crate) fn sleep(fds: &mut [PollFd<'_>], limit: Duration) {
    // An interrupted or failed poll counts as a wake-up: callers look again at what they wait for.
    let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    let _ = poll(fds, Some(&limit));
}

/// Waits until `fd` can be read; says whether `waker` was woken.
pub(crate) fn readable_or_woken(fd: BorrowedFd<'_>, waker: &Waker, limit: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN)];
    sleep(&mut fds, limit);
    !fds[1].revents().is_empty()
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0_u8; N];
    let mut got = 0;
    while got < N {
        match rustix::rand::getrandom(&mut bytes[got..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => got += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system has no random numbers: {error}"),
        }
    }
    bytes
}
