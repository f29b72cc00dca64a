//! Connections that have not shown yet who they are: strangers cost a rank nothing, and a rank that they crowd out tries again.

use std::collections::VecDeque;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::AuthReason;
use crate::auth::{Identity, Scope, greet};
use crate::net::dial;

/// Longest hello.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Time before a rank tries again.
const PAUSE: Duration = Duration::from_millis(20);

/// The connections of a listener that are inside their hello, oldest first.
pub(crate) struct Hellos {
    most: usize,
    open: Mutex<VecDeque<Arc<(IpAddr, TcpStream)>>>,
}

/// A connection inside its hello; its place is free again when this is dropped.
pub(crate) struct Hello<'a> {
    all: &'a Hellos,
    own: Arc<(IpAddr, TcpStream)>,
}

impl Hellos {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Arc<(IpAddr, TcpStream)>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection a place. Where all are taken, the address with the most connections loses its oldest: a rank says its
    /// hello at once and is through, so what is old is a stranger.
    pub(crate) fn enter(&self, stream: &TcpStream, from: SocketAddr) -> std::io::Result<Hello<'_>> {
        let own = Arc::new((from.ip(), stream.try_clone()?));
        let mut open = self.open();
        open.push_back(Arc::clone(&own));
        if open.len() > self.most {
            let count = |ip: IpAddr| open.iter().filter(|one| one.0 == ip).count();
            let largest = open.iter().map(|one| count(one.0)).max();
            if let Some(at) = open.iter().position(|one| Some(count(one.0)) == largest)
                && let Some(oldest) = open.remove(at)
            {
                let _ = oldest.1.shutdown(Shutdown::Both);
            }
        }
        Ok(Hello { all: self, own })
    }
}

impl Drop for Hello<'_> {
    fn drop(&mut self) {
        self.all.open().retain(|one| !Arc::ptr_eq(one, &self.own));
    }
}

/// Why a rank did not meet another.
pub(crate) enum Unmet {
    Unreachable(std::io::Error),
    Refused(AuthReason),
}

/// Connects to a rank and says who this is, again and again until the deadline where the connection ends inside the hello.
pub(crate) fn meet(
    addrs: &[SocketAddr],
    scope: &Scope,
    me: Identity,
    deadline: Instant,
) -> Result<(Identity, TcpStream), Unmet> {
    loop {
        let stream = dial(addrs, deadline, false).map_err(Unmet::Unreachable)?;
        stream.set_nodelay(true).map_err(Unmet::Unreachable)?;
        match greet(&stream, scope, me, deadline.min(Instant::now() + HELLO_LIMIT)) {
            Ok(who) => return Ok((who, stream)),
            Err(AuthReason::Malformed | AuthReason::TimedOut) if Instant::now() + PAUSE < deadline => {
                std::thread::sleep(PAUSE);
            }
            Err(reason) => return Err(Unmet::Refused(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_oldest_of_the_busiest_address_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (out, listener.accept().unwrap().0)
        };
        let hellos = Hellos::new(3);
        let from = |last: u8| SocketAddr::from(([10, 0, 0, last], 1));
        let links: Vec<_> = (0..6).map(|_| connect()).collect();
        let enter = |index: usize, last| hellos.enter(&links[index].1, from(last)).unwrap();
        let places: Vec<_> = [(0, 7), (1, 9), (2, 9), (3, 9), (4, 9)].map(|(index, last)| enter(index, last)).into();
        let closed = |index: usize| {
            let out = &links[index].0;
            out.set_nonblocking(true).unwrap();
            out.peek(&mut [0]).is_ok_and(|count| count == 0)
        };
        assert_eq!([0, 1, 2, 3, 4].map(closed), [false, true, true, false, false]);
        drop(places);
        let _last = enter(5, 9);
        assert_eq!(hellos.open().len(), 1);
        assert!(![0, 3, 4, 5].map(closed).contains(&true));
    }
}
