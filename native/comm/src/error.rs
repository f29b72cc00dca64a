//! The one error type of this crate: every message says what was done, on whom it waited, and what to change.

use std::fmt;
use std::time::Duration;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Cloneable, because a failed world repeats its first error on every later call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The call itself is wrong (sizes, ranks, alignment); nothing was sent and the world still works.
    Invalid(String),
    /// A deadline passed.
    Timeout {
        /// The limit that passed.
        limit: Duration,
        /// Who or what was waited for, such as `rank 1`.
        waiting_for: String,
        /// What this rank was doing, such as `allReduce sum f32 x 10 'loss' (sequence 3, message 0)`.
        during: String,
    },
    /// A rank closed its connection or died.
    PeerClosed {
        /// The rank that is gone.
        rank: usize,
        /// What this rank was doing.
        during: String,
    },
    /// Another rank called `abort`, or failed and told the others.
    PeerAborted {
        /// The rank that aborted.
        rank: usize,
        /// Its reason.
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
    /// A peer sent bytes that are not of this protocol, run, epoch or life.
    Protocol {
        /// The peer, such as `rank 1` or `127.0.0.1:4000`.
        peer: String,
        /// What is wrong with them.
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
    /// The bytes are not a hello, or the connection ended inside it.
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
            Self::Malformed => "the connection ended inside the hello, or its bytes are not one",
            Self::TimedOut => "the hello did not end in time",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::Mismatch(text) => f.write_str(text),
            Self::Timeout { limit, waiting_for, during } => {
                write!(f, "timed out after {:.1} s waiting for {waiting_for} in {during}", limit.as_secs_f64())
            }
            Self::PeerClosed { rank, during } => write!(f, "rank {rank} closed its connection during {during}"),
            Self::PeerAborted { rank, reason, during } => {
                write!(f, "rank {rank} aborted: {reason} (while this rank was in {during})")
            }
            Self::Aborted { reason, during } => {
                write!(f, "this rank aborted: {reason} (while it was in {during})")
            }
            Self::Protocol { peer, detail } => write!(f, "{peer} broke the protocol: {detail}"),
            Self::Auth { peer, reason } => write!(f, "could not authenticate {peer}: {reason}"),
            Self::Store { key, detail } => write!(f, "the store refused key '{key}': {detail}"),
            Self::Io { what, detail } => write!(f, "{what}: {detail}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// What programs tell errors apart by; names are stable.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Timeout { .. } => "timeout",
            Self::PeerClosed { .. } => "peerClosed",
            Self::PeerAborted { .. } => "peerAborted",
            Self::Aborted { .. } => "aborted",
            Self::Mismatch(_) => "mismatch",
            Self::Protocol { .. } => "protocol",
            Self::Auth { .. } => "auth",
            Self::Store { .. } => "store",
            Self::Io { .. } => "io",
        }
    }

    /// What this rank was doing, where it was in something that others take part in.
    #[must_use]
    pub fn during(&self) -> Option<&str> {
        match self {
            Self::Timeout { during, .. }
            | Self::PeerClosed { during, .. }
            | Self::PeerAborted { during, .. }
            | Self::Aborted { during, .. } => Some(during),
            _ => None,
        }
    }

    /// The rank that is gone or aborted.
    #[must_use]
    pub const fn rank(&self) -> Option<usize> {
        match self {
            Self::PeerClosed { rank, .. } | Self::PeerAborted { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    /// Wraps a failure of the operating system with what was attempted.
    pub(crate) fn io(what: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::Io { what: what.into(), detail: detail.to_string() }
    }
}
