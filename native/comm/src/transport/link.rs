//! The traits of transports.

use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use crate::small::Pair;

/// Why a link no longer works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// The peer closed it or died.
    Closed,
    /// The system refused.
    Failed(String),
}

/// Ordered bytes to and from every other rank. Used by one thread at a time.
pub(crate) trait Transport: Send {
    /// Moves some of `bytes` towards `peer`; 0 when there is no room now.
    fn try_send(&mut self, peer: usize, bytes: &[IoSlice<'_>]) -> Result<usize, LinkError>;

    /// Takes some bytes from `peer`; 0 when none are here now.
    fn try_receive(&mut self, peer: usize, bytes: &mut [IoSliceMut<'_>]) -> Result<usize, LinkError>;

    /// The address and count of bytes from `peer` that have arrived and are contiguous, at most `most`: the caller reads them
    /// in place and then calls `take`. `None` where the link has no memory of its own.
    fn here(&mut self, _peer: usize, _most: usize) -> Result<Option<(*const u8, usize)>, LinkError> {
        Ok(None)
    }

    /// Gives back `count` of the bytes that `here` returned.
    fn take(&mut self, _peer: usize, _count: usize) {}

    /// The memory that this rank shares with `peer`.
    fn shared(&mut self, _peer: usize) -> Option<Pair<'_>> {
        None
    }

    /// Wakes `peer`, if it shares memory and sleeps, so that it looks at what was put there.
    fn wake(&mut self, _peer: usize) {}

    /// Copies bytes from `peer` that are here now without taking them.
    fn peek(&mut self, peer: usize, bytes: &mut [u8]) -> usize;

    /// Sleeps until there may be room towards `send_to`, bytes from `receive_from`, a wake-up, or `limit` has passed.
    fn wait(&mut self, send_to: Option<usize>, receive_from: Option<usize>, limit: Duration);
}

/// Bytes of the ring between two of `size` ranks in each direction: all towards one rank together are 8 MiB, bounded both
/// ways for each.
pub(crate) fn ring_bytes(size: usize) -> usize {
    const TOTAL: usize = 8 << 20;
    (TOTAL / size).clamp(64 << 10, 512 << 10)
}

/// Notices of a rank to all others, beside the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// The rank failed, for a reason.
    Abort = 1,
    /// The rank found ranks in different collectives.
    Mismatch = 2,
    /// The rank leaves in order.
    Goodbye = 3,
    /// The rank has long been waiting for another rank, see `Waiting`.
    Waiting = 4,
}

/// The side channel to all other ranks. Used from any thread.
pub(crate) trait Control: Send + Sync {
    /// Notifies all peers, without a long wait for any of them.
    fn tell(&self, word: Word, text: &str);

    /// Wakes this rank's own `Transport::wait`.
    fn wake(&self);

    /// Ends the channel.
    fn close(&self);
}
