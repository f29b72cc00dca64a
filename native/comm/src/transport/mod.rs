//! How framed bytes move between ranks: never blocking, except in `wait`.

pub(crate) mod checked;
mod link;
mod memory;
pub(crate) mod mpi;
mod ring;
mod shared;
mod tcp;

pub(crate) use link::{Control, LinkError, Transport, Word, ring_bytes};
pub(crate) use memory::in_process;
pub(crate) use shared::{NONCE, Segment, SharedLink, SharedTransport, Side};
pub(crate) use tcp::{Stamp, TcpControl, TcpTransport};
