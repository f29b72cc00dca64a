//! All-reduces of small vectors between ranks that share no memory, so that each message is several calls of the system: a rank
//! collects the vectors of all p ranks by ⌈log2 p⌉ messages instead of p - 1, after Bruck, Ho, Kipnis, Upfal and Weathersby,
//! "Efficient algorithms for all-to-all communications in multiport message-passing systems" (1997), section 3. Then it combines
//! them in the order of all small all-reduces, so that bits do not depend on the transport.
//!
//! Before round r, block k of scratch is the vector of the k-th rank from this one on, for k below 2^r. They go to the rank 2^r
//! before this one, which has its own 2^r; as many come from the rank 2^r after this one.

use crate::memory::{Place, Space};
use crate::schedule::{Pattern, Receive, Schedule, Send};

impl Schedule {
    /// The same collective for ranks of which no two share memory.
    pub(crate) fn apart(mut self) -> Self {
        // Up to three ranks, rounds are as many as messages.
        self.in_rounds = self.direct && self.size > 3 && self.pattern == Pattern::AllReduce;
        self
    }

    /// The vectors that go to the rank `2^round` before this one, and come from the one after it, to which blocks.
    fn round(&self, round: usize) -> (usize, Place) {
        let distance = 1 << round;
        let count = distance.min(self.size - distance);
        (distance, Place { space: Space::Scratch, block: distance, start: 0, len: count * self.bytes })
    }

    pub(crate) fn send_in_round(&self, round: usize) -> Send {
        let (distance, place) = self.round(round);
        Send { peer: self.before(distance), from: Place { block: 0, ..place } }
    }

    pub(crate) fn receive_in_round(&self, round: usize) -> Receive {
        let (distance, into) = self.round(round);
        Receive { peer: self.after(distance), into, with: None }
    }

    /// Bytes from one block of scratch to the next: what goes in one message lies in one piece.
    pub(crate) fn stride(&self) -> usize {
        if self.in_rounds { self.bytes } else { self.bytes.next_multiple_of(64) }
    }

    /// The block of scratch with the vector of a rank.
    pub(crate) fn collected(&self, rank: usize) -> usize {
        if self.in_rounds { (rank + self.size - self.me) % self.size } else { rank }
    }
}
