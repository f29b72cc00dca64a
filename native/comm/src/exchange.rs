//! Exchanges in which every pair of ranks has its own count: messages are listed, not computed.

use crate::memory::{Place, Space};
use crate::schedule::{MAX_SEGMENT, Receive, Schedule, Send};

/// The messages of one rank of an exchange. Kept between calls, so that equal calls allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) sends: Vec<Send>,
    pub(crate) receives: Vec<Receive>,
}

fn places(space: Space, start: usize, len: usize) -> impl Iterator<Item = Place> {
    (0..len).step_by(MAX_SEGMENT).map(move |at| Place {
        space,
        block: 0,
        start: start + at,
        len: MAX_SEGMENT.min(len - at),
    })
}

impl Listed {
    /// `sends` and `receives` are positions and counts of elements of `element` bytes, packed one after another in the
    /// input and in the output.
    ///
    /// Peers are served by their distance, ahead for what is sent and behind for what comes: of the messages that are
    /// not done, one of least distance has nothing before it on either side, so no rank waits in a circle.
    pub(crate) fn fill(
        &mut self,
        size: usize,
        me: usize,
        element: usize,
        sends: &[(usize, usize)],
        receives: &[(usize, usize)],
    ) {
        self.sends.clear();
        self.receives.clear();
        for distance in 1..size {
            let mut at = 0;
            for &(peer, count) in sends {
                let bytes = count * element;
                if peer == (me + distance) % size {
                    let from = places(Space::In, at, bytes);
                    self.sends.extend(from.map(|from| Send { peer, from }));
                }
                at += bytes;
            }
            let mut at = 0;
            for &(peer, count) in receives {
                let bytes = count * element;
                if peer == (me + size - distance) % size {
                    let into = places(Space::Out, at, bytes);
                    self.receives.extend(into.map(|into| Receive { peer, into, with: None }));
                }
                at += bytes;
            }
        }
    }
}

/// Where the messages of a collective come from.
#[derive(Clone, Copy)]
pub(crate) enum Messages<'a> {
    Computed(&'a Schedule),
    Listed(&'a Listed),
}

impl Messages<'_> {
    /// Whether each rank sends what it has to all others at once, in small messages.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self, Self::Computed(schedule) if schedule.direct)
    }

    pub(crate) fn sends(&self) -> usize {
        match self {
            Self::Computed(schedule) => schedule.sends(),
            Self::Listed(listed) => listed.sends.len(),
        }
    }

    pub(crate) fn receives(&self) -> usize {
        match self {
            Self::Computed(schedule) => schedule.receives(),
            Self::Listed(listed) => listed.receives.len(),
        }
    }

    pub(crate) fn send(&self, index: usize) -> Send {
        match self {
            Self::Computed(schedule) => schedule.send(index),
            Self::Listed(listed) => listed.sends[index],
        }
    }

    pub(crate) fn receive(&self, index: usize) -> Receive {
        match self {
            Self::Computed(schedule) => schedule.receive(index),
            Self::Listed(listed) => listed.receives[index],
        }
    }

    pub(crate) fn may_send(&self, index: usize, received: usize) -> bool {
        match self {
            Self::Computed(schedule) => schedule.may_send(index, received),
            Self::Listed(_) => true,
        }
    }

    pub(crate) fn may_receive(&self, index: usize, sent: usize) -> bool {
        match self {
            Self::Computed(schedule) => schedule.may_receive(index, sent),
            Self::Listed(_) => true,
        }
    }
}
