//! The error type of this crate, as data. Its sentences are made in `src/util/faults.ts`.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong; kinds and fields are what TypeScript reads. Cloneable, because a failed world repeats its first error on
/// every later call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The call itself is wrong (sizes, ranks, alignment); nothing was sent and the world still works.
    Invalid(String),
    /// A deadline passed.
    Timeout {
        /// The limit that passed.
        limit: Duration,
        /// The peer or thing that was waited for, such as `rank 1`.
        waiting_for: String,
        /// What this rank was doing, such as `allReduce sum f32 x 10 'loss' (sequence 3, message 0)`.
        during: String,
    },
    /// A rank closed its connection or died.
    PeerClosed {
        /// The rank that is gone.
        rank: usize,
        /// The rank in words, with its address if that is another host's.
        peer: String,
        /// What this rank was doing.
        during: String,
    },
    /// Another rank called `abort`, or failed and notified the others.
    PeerAborted {
        /// The rank that aborted.
        rank: usize,
        /// The reason: another record, or text.
        reason: String,
        /// What this rank was doing.
        during: String,
    },
    /// This rank's own `World::abort` was called.
    Aborted {
        /// The reason given.
        reason: String,
        /// What this rank was doing.
        during: String,
    },
    /// Ranks are in different collectives; the text names both sides.
    Mismatch(String),
    /// A peer sent bytes that are not of this protocol, run, epoch or incarnation.
    Protocol {
        /// The peer, such as `rank 1` or `127.0.0.1:4000`.
        peer: String,
        /// What is wrong with the bytes.
        detail: String,
    },
    /// The mutual authentication failed.
    Auth {
        /// The other side, such as `the store at 127.0.0.1:4000`.
        peer: String,
        /// Why.
        reason: AuthReason,
    },
    /// The store refused a request.
    Store {
        /// The key of the request.
        key: String,
        /// Why.
        detail: String,
    },
    /// The operating system refused something.
    Io {
        /// What was attempted.
        what: String,
        /// The system's message.
        detail: String,
    },
}

/// Why a hello failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthReason {
    /// The two sides do not hold the same secret.
    WrongSecret,
    /// The other side belongs to another run, epoch or world name.
    WrongRun,
    /// The other side speaks another protocol version.
    WrongVersion,
    /// The other side has another role, rank or incarnation than expected.
    WrongPeer,
    /// The server has no room for another connection.
    Full,
    /// The hello is malformed, or the connection ended inside it.
    Malformed,
    /// The hello did not end in time.
    TimedOut,
}

impl fmt::Display for AuthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongSecret => "the secrets differ",
            Self::WrongRun => "it belongs to another run, epoch or world",
            Self::WrongVersion => "it speaks another protocol version",
            Self::WrongPeer => "it has another role, rank or incarnation than expected",
            Self::Full => "it has no room for another connection",
            Self::Malformed => "the hello is malformed, or the connection ended inside it",
            Self::TimedOut => "the hello did not end in time",
        })
    }
}

/// As data, in JSON.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record().fmt(f)
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The record that TypeScript reads.
    #[must_use]
    pub fn record(&self) -> Value {
        match self {
            Self::Invalid(text) => json!({ "kind": "invalid", "text": text }),
            Self::Timeout { limit, waiting_for, during } => {
                json!({ "kind": "timeout", "limit": limit.as_secs_f64(), "waitingFor": waiting_for, "during": during })
            }
            Self::PeerClosed { rank, peer, during } => {
                json!({ "kind": "peerClosed", "rank": rank, "peer": peer, "during": during })
            }
            Self::PeerAborted { rank, reason, during } => {
                json!({ "kind": "peerAborted", "rank": rank, "reason": reason, "during": during })
            }
            Self::Aborted { reason, during } => json!({ "kind": "aborted", "reason": reason, "during": during }),
            Self::Mismatch(text) => json!({ "kind": "mismatch", "text": text }),
            Self::Protocol { peer, detail } => json!({ "kind": "protocol", "peer": peer, "detail": detail }),
            Self::Auth { peer, reason } => json!({ "kind": "auth", "peer": peer, "reason": reason.to_string() }),
            Self::Store { key, detail } => json!({ "kind": "store", "key": key, "detail": detail }),
            Self::Io { what, detail } => json!({ "kind": "io", "what": what, "detail": detail }),
        }
    }

    /// Wraps a failure of the operating system with what was attempted.
    pub(crate) fn io(what: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::Io { what: what.into(), detail: detail.to_string() }
    }
}
