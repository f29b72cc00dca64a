//! The server side: one thread that accepts, and one per connection.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::table::Table;
use super::wire::{read_request, write_message};
use crate::auth::{Role, Scope, answer};
use crate::net::{Waker, read_by, readable_or_woken};
use crate::{AuthReason, Error, Result};

const MAX_CONNECTIONS: usize = 4096;
const HELLO_LIMIT: Duration = Duration::from_secs(5);
const MESSAGE_LIMIT: Duration = Duration::from_secs(30);
/// An idle client keeps its connection for this long at most; it reconnects by itself.
const IDLE_LIMIT: Duration = Duration::from_secs(24 * 3600);

struct Inner {
    scope: Scope,
    table: Table,
    open: Mutex<HashMap<u64, TcpStream>>,
    closed: Condvar,
    waker: Waker,
    stopping: AtomicBool,
}

impl Inner {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) {
        let admit = |peer: crate::auth::Identity| match peer.role {
            Role::Store if self.open().len() > MAX_CONNECTIONS => Err(AuthReason::Full),
            Role::Store => Ok(()),
            Role::Data | Role::Control => Err(AuthReason::WrongPeer),
        };
        if stream.set_nodelay(true).is_err() || answer(stream, &self.scope, (0, 0), admit, soon(HELLO_LIMIT)).is_err() {
            return;
        }
        while !self.stopping.load(Ordering::Acquire) {
            let mut length = [0; 4];
            if read_by(stream, &mut length, soon(IDLE_LIMIT)).is_err() {
                return;
            }
            // A client that breaks the protocol loses its connection; others are not touched.
            let Ok(request) = read_request(stream, length, soon(MESSAGE_LIMIT)) else { return };
            let reply = self.table.serve(request).encode();
            if write_message(stream, &reply, soon(MESSAGE_LIMIT)).is_err() {
                return;
            }
        }
    }
}

fn soon(limit: Duration) -> Instant {
    Instant::now() + limit
}

/// The server of the key-value store; stops when dropped.
pub struct StoreServer {
    inner: Arc<Inner>,
    addr: SocketAddr,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for StoreServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreServer").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl StoreServer {
    /// Listens on `bind` (port 0: any free one) for clients with this secret and run id.
    pub fn start(bind: SocketAddr, secret: &[u8], run_id: &str) -> Result<StoreServer> {
        if secret.is_empty() {
            return Err(Error::Invalid("the shared secret of the store must not be empty".into()));
        }
        let failed = |error| Error::io(format!("the store could not listen on {bind}"), error);
        let listener = TcpListener::bind(bind).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let inner = Arc::new(Inner {
            scope: Scope::new(secret, run_id, None),
            table: Table::default(),
            open: Mutex::new(HashMap::new()),
            closed: Condvar::new(),
            waker: Waker::new()?,
            stopping: AtomicBool::new(false),
        });
        let shared = Arc::clone(&inner);
        let acceptor = std::thread::Builder::new()
            .name("heddle-store".into())
            .spawn(move || accept(&shared, &listener))
            .map_err(|error| Error::io("could not start the store's thread", error))?;
        Ok(StoreServer { inner, addr, acceptor: Mutex::new(Some(acceptor)) })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Number of its connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.open().len()
    }

    /// Closes all connections and ends its threads.
    pub fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.waker.wake();
        self.inner.table.stop();
        if let Some(acceptor) = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = acceptor.join();
        }
        let deadline = soon(MESSAGE_LIMIT);
        let mut open = self.inner.open();
        open.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        while !open.is_empty() && Instant::now() < deadline {
            let tick = Duration::from_millis(100);
            open = self.inner.closed.wait_timeout(open, tick).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(inner: &Arc<Inner>, listener: &TcpListener) {
    let mut next = 0_u64;
    while !inner.stopping.load(Ordering::Acquire) {
        readable_or_woken(listener.as_fd(), &inner.waker, Duration::from_secs(60));
        let Ok((stream, _)) = listener.accept() else {
            // For example without free descriptors: wait instead of spinning.
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        // Up to a margin above the limit, clients get a refusal; further connections are closed at once.
        if inner.open().len() >= MAX_CONNECTIONS + 64 || stream.set_nonblocking(false).is_err() {
            continue;
        }
        let Ok(twin) = stream.try_clone() else { continue };
        next += 1;
        let id = next;
        inner.open().insert(id, twin);
        let shared = Arc::clone(inner);
        let started =
            std::thread::Builder::new().name("heddle-store-link".into()).stack_size(256 << 10).spawn(move || {
                shared.serve(&stream);
                shared.open().remove(&id);
                shared.closed.notify_all();
            });
        if started.is_err() {
            inner.open().remove(&id);
        }
    }
}
