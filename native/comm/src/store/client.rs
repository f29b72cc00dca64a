//! The client side: a few authenticated connections, taken in turn, so that one waiting thread delays no other.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wire::{Answer, MAX_KEY, MAX_VALUE, Request, read_answer, write_message};
use crate::auth::{Identity, Role, Scope, greet};
use crate::net::dial;
use crate::{Error, Result};

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const WAIT_SLICE: Duration = Duration::from_secs(1);
const MAX_IDLE: usize = 4;

/// Outcome of a compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompareAndSet {
    /// The value was as expected and has been replaced.
    Swapped,
    /// The value is another one (or absent), and was left.
    Current(Option<Vec<u8>>),
}

/// A client of the store. `Send + Sync`; calls from several threads do not wait for each other.
pub struct StoreClient {
    addr: SocketAddr,
    scope: Scope,
    /// The longest wait for an answer.
    patience: Duration,
    idle: Mutex<Vec<TcpStream>>,
}

impl std::fmt::Debug for StoreClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreClient").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl StoreClient {
    /// Connects, trying again while nobody listens yet, until `timeout` has passed.
    pub fn connect(addr: SocketAddr, secret: &[u8], run_id: &str, timeout: Duration) -> Result<StoreClient> {
        let (scope, patience) = (Scope::new(secret, run_id, None), timeout.min(ANSWER_LIMIT));
        let client = StoreClient { addr, scope, patience, idle: Mutex::default() };
        let stream = client.dial(timeout)?;
        client.put_back(stream);
        Ok(client)
    }

    fn put_back(&self, stream: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(stream);
        }
    }

    /// Closes the connections that no call uses; a later call opens a new one.
    pub fn rest(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn peer(&self) -> String {
        format!("the store at {}", self.addr)
    }

    fn dial(&self, timeout: Duration) -> Result<TcpStream> {
        let deadline = Instant::now() + timeout;
        match dial(&[self.addr], deadline, true) {
            Ok(stream) => self.open(stream, deadline),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::TimedOut) => {
                let during = "connecting to it (nobody answers there)".into();
                Err(Error::Timeout { limit: timeout, waiting_for: self.peer(), during })
            }
            Err(error) => Err(Error::io(format!("could not connect to {}", self.peer()), error)),
        }
    }

    fn open(&self, stream: TcpStream, deadline: Instant) -> Result<TcpStream> {
        stream.set_nodelay(true).map_err(|error| Error::io("could not set up a connection", error))?;
        let me = Identity { role: Role::Store, rank: 0, incarnation: 0 };
        greet(&stream, &self.scope, me, deadline).map_err(|reason| Error::Auth { peer: self.peer(), reason })?;
        Ok(stream)
    }

    fn call(&self, request: &Request, limit: Duration) -> Result<Answer> {
        let pooled = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stream = pooled.map_or_else(|| self.dial(limit.min(self.patience)), Ok)?;
        let deadline = Instant::now() + limit;
        let answer = write_message(&stream, &request.encode(), deadline)
            .and_then(|()| read_answer(&stream, deadline))
            .map_err(|cut| Error::io(format!("{}, asked for {request}", self.peer()), cut))?;
        self.put_back(stream);
        match answer {
            Answer::Refused(detail) => Err(Error::Store { key: request.key().to_owned(), detail }),
            answer => Ok(answer),
        }
    }

    fn ask(&self, request: &Request) -> Result<Answer> {
        check_key(request.key())?;
        self.call(request, self.patience)
    }

    fn unexpected(&self, answer: &Answer) -> Error {
        let detail = format!("an answer of the wrong kind ({})", answer.kind());
        Error::Protocol { peer: self.peer(), detail }
    }

    /// Sets a key.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        check_value(key, value)?;
        match self.ask(&Request::Set { key: key.into(), value: value.into() })? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Waits until the key exists; `waiting_for` says in the error who should have set it.
    pub fn get(&self, key: &str, waiting_for: &str, timeout: Duration) -> Result<Vec<u8>> {
        check_key(key)?;
        let deadline = Instant::now() + timeout;
        loop {
            let slice = deadline.saturating_duration_since(Instant::now()).min(WAIT_SLICE);
            let request = Request::Get { key: key.into(), wait_ms: slice.as_millis() as u32 };
            match self.call(&request, slice + self.patience)? {
                Answer::Value(value) => return Ok(value),
                Answer::Missing if Instant::now() + Duration::from_millis(1) < deadline => {}
                Answer::Missing => {
                    let waiting_for = format!("{waiting_for} (key '{key}')");
                    return Err(Error::Timeout { limit: timeout, waiting_for, during: self.peer() });
                }
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// The value, if the key exists now.
    pub fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        match self.ask(&Request::Get { key: key.into(), wait_ms: 0 })? {
            Answer::Value(value) => Ok(Some(value)),
            Answer::Missing => Ok(None),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Adds to a counter (8 bytes, little endian; absent is 0) and returns the new value.
    pub fn add(&self, key: &str, delta: i64) -> Result<i64> {
        match self.ask(&Request::Add { key: key.into(), delta })? {
            Answer::Number(number) => Ok(number),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Replaces the value if it is `expected` (`None`: absent).
    pub fn compare_and_set(&self, key: &str, expected: Option<&[u8]>, value: &[u8]) -> Result<CompareAndSet> {
        check_value(key, value)?;
        check_value(key, expected.unwrap_or_default())?;
        let expected = expected.map(<[u8]>::to_vec);
        match self.ask(&Request::CompareAndSet { key: key.into(), expected, value: value.into() })? {
            Answer::Done => Ok(CompareAndSet::Swapped),
            Answer::Value(value) => Ok(CompareAndSet::Current(Some(value))),
            Answer::Missing => Ok(CompareAndSet::Current(None)),
            other => Err(self.unexpected(&other)),
        }
    }
}

fn check_key(key: &str) -> Result<()> {
    if key.len() > MAX_KEY {
        return Err(Error::Invalid(format!("a store key has {} bytes, more than {MAX_KEY}", key.len())));
    }
    Ok(())
}

fn check_value(key: &str, value: &[u8]) -> Result<()> {
    if value.len() > MAX_VALUE {
        let text = format!("the value of store key '{key}' has {} bytes, more than {MAX_VALUE}", value.len());
        return Err(Error::Invalid(text));
    }
    Ok(())
}

impl Request {
    fn key(&self) -> &str {
        match self {
            Self::Set { key, .. } | Self::Get { key, .. } | Self::Add { key, .. } | Self::CompareAndSet { key, .. } => {
                key
            }
        }
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match self {
            Self::Set { .. } => "set",
            Self::Get { .. } => "get",
            Self::Add { .. } => "add",
            Self::CompareAndSet { .. } => "compare and set",
        };
        write!(f, "{verb} '{}'", self.key())
    }
}

impl Answer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Missing => "missing",
            Self::Value(_) => "value",
            Self::Number(_) => "number",
            Self::Refused(_) => "refused",
        }
    }
}
