//! Collectives among an ordered choice of ranks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::drive::Job;
use crate::exchange::{Listed, Messages};
use crate::frame::{Fnv, Header};
use crate::memory::{Memory, Place, Scratch, Space};
use crate::prepared::{Call, Calls, Prepared};
use crate::reduce::{Triple, combine};
use crate::schedule::{Pattern, Schedule};
use crate::small::{carry, hash_text, sum};
use crate::state::Shared;
use crate::transport::Transport;
use crate::{Dtype, Error, Part, Reduction, Result};

const MAX_NAME: usize = 64;

/// An ordered choice of ranks of a world. `Send`; used from one thread at a time.
///
/// The parts of a call are one bucket: they travel as one flat vector. An invalid call gives
/// [`Error::Invalid`] before anything is sent; the caller should then `abort` the world, since the others wait.
pub struct Group {
    shared: Arc<Shared>,
    ranks: Vec<usize>,
    index: usize,
    id: u64,
    name: String,
    sequence: Arc<AtomicU64>,
    /// Whether no two of the ranks share memory: equal on all of them.
    apart: bool,
    // Kept between calls, so that equal calls allocate nothing.
    scratch: Scratch,
    listed: Listed,
    calls: Calls,
    /// This rank and another, the sender first, for messages between two ranks alone.
    pairs: Vec<Group>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("name", &self.name).field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

impl Group {
    pub(crate) fn new(shared: Arc<Shared>, ranks: &[usize], name: &str) -> Result<Self> {
        let invalid = |what: String| Err(Error::Invalid(format!("group '{name}' of ranks {ranks:?}: {what}")));
        if name.len() > MAX_NAME || name.contains('\0') {
            return invalid(format!("the name is longer than {MAX_NAME} bytes or has a zero byte"));
        }
        if let Some(rank) = ranks.iter().find(|rank| **rank >= shared.size) {
            return invalid(format!("rank {rank} is not in a world of {}", shared.size));
        }
        if (1..ranks.len()).any(|at| ranks[..at].contains(&ranks[at])) {
            return invalid("a rank appears twice".into());
        }
        let Some(index) = ranks.iter().position(|rank| *rank == shared.rank) else {
            return invalid(format!("this rank ({}) is not in it", shared.rank));
        };
        let id = ranks.iter().fold(hash_text(Fnv::new(), name), |hash, rank| hash.word(*rank as u64)).finish();
        let sequence = shared.sequence(id);
        let host = |at: usize| shared.hosts[ranks[at]];
        let apart = (0..ranks.len()).all(|at| host(at).is_none() || (0..at).all(|other| host(other) != host(at)));
        let (ranks, name) = (ranks.to_vec(), name.to_owned());
        let (scratch, listed) = (Scratch::default(), Listed::default());
        let (calls, pairs) = (Calls::default(), Vec::new());
        Ok(Self { shared, ranks, index, id, name, sequence, apart, scratch, listed, calls, pairs })
    }

    /// Number of ranks in the group.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// This rank's position in the group.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Combines the inputs of all ranks; every rank gets the result. Output as long as input, may be the same.
    pub fn all_reduce(&mut self, parts: &[Part<'_>], dtype: Dtype, reduction: Reduction, label: &str) -> Result<()> {
        self.carry(parts, Call::new(Pattern::AllReduce, dtype, reduction, label), None)
    }

    /// Each output is `size` blocks: the inputs of all ranks in group order. An input may be
    /// its own block of the output.
    pub fn all_gather(&mut self, parts: &[Part<'_>], dtype: Dtype, label: &str) -> Result<()> {
        self.carry(parts, Call::new(Pattern::AllGather, dtype, Reduction::Sum, label), None)
    }

    /// Each input is `size` blocks; rank `r` gets the combination of all ranks' block `r`.
    pub fn reduce_scatter(
        &mut self,
        parts: &[Part<'_>],
        dtype: Dtype,
        reduction: Reduction,
        label: &str,
    ) -> Result<()> {
        self.carry(parts, Call::new(Pattern::ReduceScatter, dtype, reduction, label), None)
    }

    /// Each input and output is `size` blocks: block `r` goes to rank `r`, and received blocks are in rank order.
    pub fn all_to_all(&mut self, parts: &[Part<'_>], dtype: Dtype, label: &str) -> Result<()> {
        self.carry(parts, Call::new(Pattern::AllToAll, dtype, Reduction::Sum, label), None)
    }

    /// Each rank sends the counts of elements in `sends` (position in the group, count), packed one after another in the
    /// input, and gets those in `receives`, packed in the output; both sides must agree on each pair's count. Elements
    /// that a rank sends to itself are copied.
    pub fn exchange(
        &mut self,
        part: &Part<'_>,
        dtype: Dtype,
        sends: &[(usize, usize)],
        receives: &[(usize, usize)],
        label: &str,
    ) -> Result<()> {
        let call = Call::new(Pattern::Exchange, dtype, Reduction::Sum, label);
        let (size, me, element) = (self.ranks.len(), self.index, dtype.size());
        let invalid = |what: &str| Err(Error::Invalid(call.say(what)));
        let own = |list: &[(usize, usize)]| {
            let at = list.iter().position(|(peer, _)| *peer == me)?;
            Some((list[..at].iter().map(|(_, count)| count * element).sum::<usize>(), list[at].1 * element))
        };
        for (list, bytes) in [(sends, part.input_bytes), (receives, part.output_bytes)] {
            if list
                .iter()
                .enumerate()
                .any(|(at, (peer, _))| *peer >= size || list[..at].iter().any(|(other, _)| other == peer))
            {
                return invalid("a position is named twice or is not in the group");
            }
            let total = list.iter().try_fold(0_usize, |sum, (_, count)| sum.checked_add(count.checked_mul(element)?));
            if total != Some(bytes) {
                return invalid("the counts do not add up to the part");
            }
        }
        let to_self = match (own(sends), own(receives)) {
            (None, None) => None,
            (Some((from, sent)), Some((to, got))) if sent == got => Some((from, to, sent)),
            _ => return invalid("what a rank sends to itself is not what it gets from itself"),
        };
        let mut listed = std::mem::take(&mut self.listed);
        listed.fill(size, me, element, sends, receives);
        let result = self.carry(std::slice::from_ref(part), call, Some(&listed));
        self.listed = listed;
        result?;
        if let Some((from, to, bytes)) = to_self {
            // SAFETY: both ranges lie in the part, whose input and output `carry` has found to be apart.
            unsafe { std::ptr::copy_nonoverlapping(part.input.add(from), part.output.add(to), bytes) };
        }
        Ok(())
    }

    /// Every rank's output becomes the input of the rank at position `root` of the group; other inputs are not read.
    pub fn broadcast(&mut self, parts: &[Part<'_>], dtype: Dtype, root: usize, label: &str) -> Result<()> {
        if root >= self.size() {
            return Err(Error::Invalid(format!(
                "broadcast '{label}': no position {root} in a group of {}",
                self.size()
            )));
        }
        self.carry(parts, Call::new(Pattern::Broadcast { root }, dtype, Reduction::Sum, label), None)
    }

    /// Sends the inputs to the rank at position `to` of the group, which must be in `receive`; outputs are not written,
    /// and are as long as their inputs. Only the two ranks take part: each direction of each pair has its own numbers.
    pub fn send(&mut self, parts: &[Part<'_>], dtype: Dtype, to: usize, label: &str) -> Result<()> {
        self.transfer(parts, dtype, (self.index, to), label)
    }

    /// Fills the outputs with the elements that the rank at position `from` of the group sends; inputs are not read.
    pub fn receive(&mut self, parts: &[Part<'_>], dtype: Dtype, from: usize, label: &str) -> Result<()> {
        self.transfer(parts, dtype, (from, self.index), label)
    }

    fn transfer(&mut self, parts: &[Part<'_>], dtype: Dtype, (from, to): (usize, usize), label: &str) -> Result<()> {
        if from == to || from.max(to) >= self.size() {
            return Err(Error::Invalid(format!(
                "transfer '{label}': from position {from} to position {to} in a group of {}",
                self.size()
            )));
        }
        let ranks = [self.ranks[from], self.ranks[to]];
        let known = self.pairs.iter().position(|pair| pair.ranks == ranks);
        let index = match known {
            Some(index) => index,
            None => {
                self.pairs.push(Group::new(Arc::clone(&self.shared), &ranks, &self.name)?);
                self.pairs.len() - 1
            }
        };
        self.pairs[index].carry(
            parts,
            Call { transfer: true, ..Call::new(Pattern::Broadcast { root: 0 }, dtype, Reduction::Sum, label) },
            None,
        )
    }

    /// Returns once every rank of the group has called it.
    pub fn barrier(&mut self, label: &str) -> Result<()> {
        self.carry(&[], Call::new(Pattern::Barrier, Dtype::U8, Reduction::Sum, label), None)
    }

    fn carry(&mut self, parts: &[Part<'_>], call: Call<'_>, listed: Option<&Listed>) -> Result<()> {
        let prepared = self.calls.of(call, parts, || {
            Prepared::new(call, parts, (self.ranks.len(), self.index), (&self.name, &self.ranks), self.apart)
        })?;
        for part in parts {
            call.check_addresses(part, self.index).map_err(|what| Error::Invalid(call.say(&what)))?;
        }
        let Prepared { schedule, fingerprint, ends, described, .. } = prepared;
        let stride = schedule.stride();
        let staging = self.scratch.at_least(schedule.segment() + stride * schedule.scratch_blocks());
        let scratch = staging.wrapping_add(schedule.segment());
        let memory = Memory { parts, ends, scratch, stride, staging };
        let shared = &*self.shared;
        shared.exclusively(prepared.what(), |transport| {
            // One collective at a time takes numbers.
            let sequence = self.sequence.load(Ordering::Relaxed);
            self.sequence.store(sequence + 1, Ordering::Relaxed);
            let flight = shared.flight.start(self.id, sequence, described, schedule.is_small());
            let header = header(shared, self.id, sequence, *fingerprint);
            let ranks = self.ranks.as_slice();
            let reduce = (call.dtype, call.reduction);
            let messages = listed.map_or(Messages::Computed(schedule), Messages::Listed);
            let (what, text) = (prepared.what(), prepared.text());
            let job = Job { shared, ranks, schedule: messages, memory, reduce, header, what, text, flight };
            let result = perform(&job, schedule, transport);
            shared.flight.finish(flight, result.is_ok());
            result
        })
    }
}

fn header(shared: &Shared, group: u64, sequence: u64, fingerprint: u64) -> Header {
    Header {
        run: shared.run,
        epoch: shared.epoch,
        incarnation: shared.incarnations[shared.rank],
        group,
        sequence,
        fingerprint,
        sender: shared.rank as u32,
        length: 0,
        ordinal: 0,
        text: 0,
    }
}

fn perform(job: &Job<'_>, schedule: &Schedule, transport: &mut dyn Transport) -> Result<()> {
    let Schedule { pattern, size, me, bytes: block, .. } = *schedule;
    let place = |space, index| Place { space, block: index, start: 0, len: block };
    let own = match pattern {
        Pattern::AllGather => Some((0, me)),
        Pattern::AllToAll => Some((me, me)),
        Pattern::Broadcast { root } if root == me => Some((0, 0)),
        Pattern::AllReduce | Pattern::ReduceScatter if size == 1 => Some((0, 0)),
        _ => None,
    };
    if let Some((from, to)) = own {
        // SAFETY: `from` and `to` are blocks of the checked parts.
        unsafe { job.memory.copy(&place(Space::In, from), &place(Space::Out, to)) };
    }
    if schedule.in_rounds {
        // SAFETY: as above; collectives that collect have a scratch block for each rank.
        unsafe { job.memory.copy(&place(Space::In, 0), &place(Space::Scratch, 0)) };
    }
    if size == 1 || sum(job, schedule, transport)? {
        return Ok(());
    }
    carry(job, transport)?;
    if schedule.collects() {
        // SAFETY: the schedule asked for `size` scratch blocks, which all but the own one have been received into.
        unsafe { fold(job, schedule) };
    }
    Ok(())
}

/// Combines the ranks' blocks 0, 1, … in this order into the output: the own one from the input, the others from scratch.
///
/// # Safety
/// There must be `size` scratch blocks.
unsafe fn fold(job: &Job<'_>, schedule: &Schedule) {
    let Schedule { pattern, size, me, bytes: len, .. } = *schedule;
    let place = |space, block| Place { space, block, start: 0, len };
    let own = place(Space::In, if pattern == Pattern::ReduceScatter { me } else { 0 });
    let of = |rank| if rank == me { own } else { place(Space::Scratch, schedule.collected(rank)) };
    for rank in 1..size {
        let left = if rank == 1 { of(0) } else { place(Space::Scratch, 0) };
        // The output may be the input, which is read last.
        let out = place(if rank + 1 == size { Space::Out } else { Space::Scratch }, 0);
        let mut at = 0;
        while at < len {
            let pieces = [&out, &left, &of(rank)].map(|place| job.memory.piece(place, at));
            let [(out, _), (left, _), (right, _)] = pieces;
            let bytes = pieces.iter().fold(len, |least, (_, bytes)| least.min(*bytes));
            // SAFETY: the pieces are `bytes` long, of whole elements; an output is equal to or apart from its input.
            unsafe { combine(job.reduce.0, job.reduce.1, Triple { out, left, right, bytes }) };
            at += bytes;
        }
    }
}
