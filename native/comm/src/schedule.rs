//! What is sent and received in a collective, in which order: a pure function of the call, its size, and the rank.
//!
//! Order of reduction. A ring cuts the flat vector into `p` chunks (whole 64-byte lines, see [`chunk`]); an element of
//! chunk `c` is combined as `((x[c+1] ∘ x[c+2]) ∘ …) ∘ x[c]`, indices modulo `p`. The direct form (`p` vectors of at
//! most 128 KiB together) combines `((x[0] ∘ x[1]) ∘ …) ∘ x[p-1]` on every rank, also where `rounds` collects the vectors. Which
//! form is taken depends on bytes and `p` alone; so equal calls give equal bits on every rank, transport and repeat.

use crate::memory::{Place, Space};

const DIRECT_BYTES: usize = 128 << 10;
const MIN_SEGMENT: usize = 64 << 10;
/// Largest payload of one message.
pub(crate) const MAX_SEGMENT: usize = 256 << 10;
const LISTED: &str = "the messages of an exchange are listed";

/// The data movement of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllToAll,
    Broadcast {
        root: usize,
    },
    /// Its messages are listed, see `exchange`; a schedule only says what room it needs.
    Exchange,
    Barrier,
}

/// One message to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send {
    pub(crate) peer: usize,
    pub(crate) from: Place,
}

/// One message to receive: into a place, or combined with one into another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receive {
    pub(crate) peer: usize,
    pub(crate) into: Place,
    pub(crate) with: Option<Place>,
}

/// The messages of one rank in one collective.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) pattern: Pattern,
    pub(crate) size: usize,
    pub(crate) me: usize,
    /// Bytes of one block.
    pub(crate) bytes: usize,
    /// Small enough for one exchange with every rank instead of a ring.
    pub(crate) direct: bool,
    /// Collected by fewer messages, see `rounds`.
    pub(crate) in_rounds: bool,
    segment: usize,
    segments: usize,
}

/// The range of chunk `index` when `bytes` are cut into `count` chunks of whole 64-byte lines.
pub(crate) fn chunk(bytes: usize, count: usize, index: usize) -> (usize, usize) {
    let lines = bytes.div_ceil(64) as u128;
    let bound = |index: usize| ((lines * index as u128 / count as u128) as usize * 64).min(bytes);
    (bound(index), bound(index + 1))
}

impl Schedule {
    pub(crate) fn new(pattern: Pattern, size: usize, me: usize, bytes: usize) -> Self {
        let direct = bytes.saturating_mul(size) <= DIRECT_BYTES;
        let largest = match pattern {
            Pattern::AllReduce if !direct => bytes.div_ceil(64).div_ceil(size) * 64,
            _ => bytes,
        };
        let segment = (largest / 4).next_multiple_of(64).clamp(MIN_SEGMENT, MAX_SEGMENT);
        Self { pattern, size, me, bytes, direct, in_rounds: false, segment, segments: largest.div_ceil(segment).max(1) }
    }

    /// Scratch blocks that the schedule needs.
    pub(crate) fn scratch_blocks(&self) -> usize {
        match self.pattern {
            Pattern::AllReduce | Pattern::ReduceScatter if self.direct => self.size,
            Pattern::ReduceScatter => 2,
            _ => 0,
        }
    }

    /// Room for the largest segment.
    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// Whether every rank's contribution is first collected in scratch and combined in the end.
    pub(crate) fn collects(&self) -> bool {
        self.direct && matches!(self.pattern, Pattern::AllReduce | Pattern::ReduceScatter)
    }

    fn steps(&self) -> usize {
        match self.pattern {
            Pattern::AllReduce if !self.direct => 2 * (self.size - 1),
            _ => self.size - 1,
        }
    }

    pub(crate) fn sends(&self) -> usize {
        match self.pattern {
            Pattern::Barrier => self.size.next_power_of_two().ilog2() as usize,
            _ if self.in_rounds => self.size.next_power_of_two().ilog2() as usize,
            Pattern::Broadcast { root } if self.direct && self.me == root => self.steps() * self.segments,
            Pattern::Broadcast { .. } if self.direct => 0,
            Pattern::Broadcast { root } if self.back(root) + 1 == self.size => 0,
            Pattern::Broadcast { .. } => self.segments,
            _ => self.steps() * self.segments,
        }
    }

    pub(crate) fn receives(&self) -> usize {
        match self.pattern {
            Pattern::Barrier => self.sends(),
            _ if self.in_rounds => self.sends(),
            Pattern::Broadcast { root } if self.me == root => 0,
            Pattern::Broadcast { .. } => self.segments,
            _ => self.steps() * self.segments,
        }
    }

    /// This rank's distance behind `rank` in the ring.
    fn back(&self, rank: usize) -> usize {
        (self.me + self.size - rank) % self.size
    }

    pub(crate) fn before(&self, count: usize) -> usize {
        (self.me + 2 * self.size - count % self.size) % self.size
    }

    pub(crate) fn after(&self, count: usize) -> usize {
        (self.me + count) % self.size
    }

    fn place(&self, space: Space, block: usize, (start, end): (usize, usize), segment: usize) -> Place {
        let start = (start + segment * self.segment).min(end);
        Place { space, block, start, len: self.segment.min(end - start) }
    }

    fn whole(&self, space: Space, block: usize, segment: usize) -> Place {
        self.place(space, block, (0, self.bytes), segment)
    }

    fn own(&self, space: Space, chunk_index: usize, segment: usize) -> Place {
        self.place(space, 0, chunk(self.bytes, self.size, chunk_index), segment)
    }

    pub(crate) fn send(&self, index: usize) -> Send {
        if self.in_rounds {
            return self.send_in_round(index);
        }
        let (step, segment) = (index / self.segments, index % self.segments);
        let near = self.after(1);
        let far = self.after(step + 1);
        let first = if step == 0 { Space::In } else { Space::Out };
        let (peer, from) = match self.pattern {
            Pattern::AllReduce if self.direct => (far, self.whole(Space::In, 0, segment)),
            Pattern::AllReduce => (near, self.own(first, self.before(step + 1), segment)),
            Pattern::ReduceScatter if self.direct => (far, self.whole(Space::In, far, segment)),
            Pattern::ReduceScatter if step == 0 => (near, self.whole(Space::In, self.before(1), segment)),
            Pattern::ReduceScatter => (near, self.whole(Space::Scratch, (step - 1) % 2, segment)),
            Pattern::AllGather if self.direct => (far, self.whole(Space::In, 0, segment)),
            Pattern::AllGather if step == 0 => (near, self.whole(Space::In, 0, segment)),
            Pattern::AllGather => (near, self.whole(Space::Out, self.before(step), segment)),
            Pattern::AllToAll => (far, self.whole(Space::In, far, segment)),
            Pattern::Exchange => unreachable!("{LISTED}"),
            Pattern::Broadcast { .. } if self.direct => (far, self.whole(Space::In, 0, segment)),
            Pattern::Broadcast { root } => {
                let space = if self.me == root { Space::In } else { Space::Out };
                (near, self.whole(space, 0, segment))
            }
            Pattern::Barrier => (self.after(1 << index), self.whole(Space::In, 0, 0)),
        };
        Send { peer, from }
    }

    pub(crate) fn receive(&self, index: usize) -> Receive {
        if self.in_rounds {
            return self.receive_in_round(index);
        }
        let (step, segment) = (index / self.segments, index % self.segments);
        let near = self.before(1);
        let far = self.before(step + 1);
        let last = step + 2 == self.size;
        let (peer, into, with) = match self.pattern {
            Pattern::AllReduce | Pattern::ReduceScatter if self.direct => {
                (far, self.whole(Space::Scratch, far, segment), None)
            }
            Pattern::AllReduce => {
                let place = |space| self.own(space, self.before(step + 2), segment);
                (near, place(Space::Out), (step + 1 < self.size).then(|| place(Space::In)))
            }
            Pattern::ReduceScatter => {
                let space = if last { Space::Out } else { Space::Scratch };
                let into = self.whole(space, if last { 0 } else { step % 2 }, segment);
                (near, into, Some(self.whole(Space::In, self.before(step + 2), segment)))
            }
            Pattern::AllGather if self.direct => (far, self.whole(Space::Out, far, segment), None),
            Pattern::AllGather => (near, self.whole(Space::Out, self.before(step + 1), segment), None),
            Pattern::AllToAll => (far, self.whole(Space::Out, far, segment), None),
            Pattern::Exchange => unreachable!("{LISTED}"),
            Pattern::Broadcast { root } => {
                let peer = if self.direct { root } else { near };
                (peer, self.whole(Space::Out, 0, segment), None)
            }
            Pattern::Barrier => (self.before(1 << index), self.whole(Space::Out, 0, 0), None),
        };
        Receive { peer, into, with }
    }

    /// Whether what send `index` sends has arrived.
    pub(crate) fn may_send(&self, index: usize, received: usize) -> bool {
        match self.pattern {
            Pattern::Barrier => index <= received,
            _ if self.in_rounds => index <= received,
            Pattern::Broadcast { root } => self.me == root || index < received,
            Pattern::AllToAll => true,
            _ => self.direct || index < received + self.segments,
        }
    }

    /// Whether what receive `index` overwrites has been sent.
    pub(crate) fn may_receive(&self, index: usize, sent: usize) -> bool {
        self.pattern != Pattern::ReduceScatter || self.direct || index < sent + self.segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERNS: [Pattern; 7] = [
        Pattern::AllReduce,
        Pattern::ReduceScatter,
        Pattern::AllGather,
        Pattern::AllToAll,
        Pattern::Broadcast { root: 0 },
        Pattern::Broadcast { root: 1 },
        Pattern::Barrier,
    ];

    fn schedules(size: usize, bytes: usize, pattern: Pattern) -> Vec<Schedule> {
        (0..size).map(|me| Schedule::new(pattern, size, me, bytes)).collect()
    }

    fn each(mut check: impl FnMut(&[Schedule], &str)) {
        for pattern in PATTERNS {
            for size in 2..=9 {
                for bytes in [0, 4, 64, 1000, 100_000, 1_000_000, 3_333_336] {
                    let ranks = schedules(size, bytes, pattern);
                    check(&ranks, &format!("{pattern:?} of {size} ranks, {bytes} bytes"));
                    let apart: Vec<Schedule> = ranks.into_iter().map(Schedule::apart).collect();
                    check(&apart, &format!("{pattern:?} of {size} ranks apart, {bytes} bytes"));
                }
            }
        }
    }

    #[test]
    fn chunks_cover_everything_once() {
        for bytes in [0, 1, 63, 64, 65, 4096, 6_653_480] {
            for count in 1..10 {
                let chunks: Vec<_> = (0..count).map(|index| chunk(bytes, count, index)).collect();
                assert_eq!((chunks[0].0, chunks[count - 1].1), (0, bytes));
                assert!(chunks.windows(2).all(|pair| pair[0].1 == pair[1].0));
            }
        }
    }

    #[test]
    fn what_one_rank_sends_the_other_expects() {
        each(|ranks, what| {
            for (from, sender) in ranks.iter().enumerate() {
                for (to, receiver) in ranks.iter().enumerate() {
                    let sent: Vec<usize> = (0..sender.sends())
                        .map(|i| sender.send(i))
                        .filter(|m| m.peer == to)
                        .map(|m| m.from.len)
                        .collect();
                    let expected: Vec<usize> = (0..receiver.receives())
                        .map(|i| receiver.receive(i))
                        .filter(|m| m.peer == from)
                        .map(|m| m.into.len)
                        .collect();
                    assert_eq!(sent, expected, "{what}: from {from} to {to}");
                    assert!(sent.iter().all(|len| *len <= MAX_SEGMENT));
                }
            }
        });
    }

    #[test]
    fn each_peer_is_served_in_one_go() {
        each(|ranks, what| {
            for rank in ranks {
                let mut peers: Vec<usize> = (0..rank.sends()).map(|index| rank.send(index).peer).collect();
                peers.dedup();
                let runs = peers.len();
                peers.sort_unstable();
                peers.dedup();
                assert_eq!(runs, peers.len(), "{what}");
            }
        });
    }

    #[test]
    fn no_schedule_waits_in_a_circle() {
        each(|ranks, what| {
            // The hardest network: a message is taken only by a receiver that is ready for it.
            let mut at = vec![(0, 0); ranks.len()];
            while let Some((from, to)) = (0..ranks.len()).find_map(|from| {
                let rank = &ranks[from];
                let (sent, received) = at[from];
                if sent == rank.sends() || !rank.may_send(sent, received) {
                    return None;
                }
                let to = rank.send(sent).peer;
                let (their_sent, their_received) = at[to];
                let ready = their_received < ranks[to].receives()
                    && ranks[to].receive(their_received).peer == from
                    && ranks[to].may_receive(their_received, their_sent);
                ready.then_some((from, to))
            }) {
                at[from].0 += 1;
                at[to].1 += 1;
            }
            let ends: Vec<_> = ranks.iter().map(|rank| (rank.sends(), rank.receives())).collect();
            assert_eq!(at, ends, "{what}");
        });
    }
}
