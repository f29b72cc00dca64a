//! Calls of a group as they are made, and what is worked out once for all calls that are equal: a program makes the same few
//! calls again and again, in the same order.

use std::fmt::Write;

use crate::frame::Fnv;
use crate::schedule::{Pattern, Schedule};
use crate::small::{Described, hash_text};
use crate::{Dtype, Error, Part, Reduction, Result};

/// Longest label shown; all of it counts when ranks are compared.
const MAX_LABEL: usize = 120;
/// Calls that a group keeps; the oldest makes room.
const KEPT: usize = 64;

/// A collective as called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub(crate) pattern: Pattern,
    pub(crate) dtype: Dtype,
    pub(crate) reduction: Reduction,
    pub(crate) label: &'a str,
    /// Broadcast from the first of two ranks to the other, under a name of its own.
    pub(crate) transfer: bool,
}

/// All of a call but the addresses of its parts.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Without its label.
    call: Call<'static>,
    label: String,
    /// Bytes of the input and of the output of each part.
    sizes: Vec<[usize; 2]>,
    pub(crate) schedule: Schedule,
    pub(crate) fingerprint: u64,
    /// End of each part in the flat vector of one block.
    pub(crate) ends: Vec<usize>,
    /// A description for peers: what people read, a zero byte, the name of the group.
    text: String,
    /// Bytes of what people read.
    what: usize,
    pub(crate) described: Described,
}

impl Prepared {
    /// `place`: ranks of the group, and the position of this one; `group`: its name and ranks, in words for peers; `apart`:
    /// no two of them share memory.
    #[cold]
    pub(crate) fn new(
        call: Call<'_>,
        parts: &[Part<'_>],
        place: (usize, usize),
        group: (&str, &[usize]),
        apart: bool,
    ) -> Result<Self> {
        let mut block = 0;
        let mut ends = Vec::with_capacity(parts.len());
        for part in parts {
            block += call.block_bytes(part, place.0, place.1).map_err(|what| Error::Invalid(call.say(&what)))?;
            ends.push(block);
        }
        let schedule = Schedule::new(call.pattern, place.0, place.1, block);
        let mut text = String::new();
        call.describe(&mut text, block / call.dtype.size(), place.0);
        let what = text.len();
        let described = Described::new(&text);
        // Writing to a string cannot fail.
        let _ = write!(text, "\0'{}' of ranks {:?}", group.0, Few(group.1));
        Ok(Self {
            call: Call { label: "", ..call },
            label: call.label.to_owned(),
            sizes: parts.iter().map(sizes).collect(),
            schedule: if apart { schedule.apart() } else { schedule },
            fingerprint: call.fingerprint(parts),
            ends,
            text,
            what,
            described,
        })
    }

    fn is(&self, call: Call<'_>, parts: &[Part<'_>]) -> bool {
        Call { label: &self.label, ..self.call } == call && parts.iter().map(sizes).eq(self.sizes.iter().copied())
    }

    /// What people read.
    pub(crate) fn what(&self) -> &str {
        &self.text[..self.what]
    }

    /// What peers get.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

fn sizes(part: &Part<'_>) -> [usize; 2] {
    [part.input_bytes, part.output_bytes]
}

/// The last calls of a group.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    kept: Vec<Prepared>,
    /// The place after the last call's, where the next call of a program that repeats is; after the last place the first.
    next: usize,
}

impl Calls {
    /// The call as it was made before, else as `make` makes it.
    pub(crate) fn of(
        &mut self,
        call: Call<'_>,
        parts: &[Part<'_>],
        make: impl FnOnce() -> Result<Prepared>,
    ) -> Result<&Prepared> {
        let at = match self.find(call, parts) {
            Some(at) => at,
            None if self.kept.len() < KEPT => {
                self.kept.push(make()?);
                self.kept.len() - 1
            }
            None => {
                self.kept[self.next] = make()?;
                self.next
            }
        };
        self.next = if at + 1 < self.kept.len() { at + 1 } else { 0 };
        Ok(&self.kept[at])
    }

    /// The place of a call; a program that repeats finds it at once.
    fn find(&self, call: Call<'_>, parts: &[Part<'_>]) -> Option<usize> {
        if self.kept.get(self.next)?.is(call, parts) {
            return Some(self.next);
        }
        (0..self.kept.len()).find(|at| self.kept[*at].is(call, parts))
    }
}

/// Formats the first ranks of a long list.
struct Few<'a>(&'a [usize]);

impl std::fmt::Debug for Few<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.0[..self.0.len().min(8)];
        write!(f, "{shown:?}{}", if shown.len() < self.0.len() { "…" } else { "" })
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(pattern: Pattern, dtype: Dtype, reduction: Reduction, label: &'a str) -> Self {
        Self { pattern, dtype, reduction, label, transfer: false }
    }

    fn op(&self) -> &'static str {
        match self.pattern {
            Pattern::Broadcast { .. } if self.transfer => "transfer",
            Pattern::AllReduce => "allReduce",
            Pattern::ReduceScatter => "reduceScatter",
            Pattern::AllGather => "allGather",
            Pattern::AllToAll => "allToAll",
            Pattern::Broadcast { .. } => "broadcast",
            Pattern::Exchange => "exchange",
            Pattern::Barrier => "barrier",
        }
    }

    fn short_label(&self) -> &str {
        &self.label[..self.label.floor_char_boundary(MAX_LABEL)]
    }

    pub(crate) fn say(&self, what: &str) -> String {
        format!("{} {} '{}': {what}", self.op(), self.dtype, self.short_label())
    }

    /// Writes the descriptions for peers and people; `count` is that of one block.
    fn describe(&self, text: &mut String, count: usize, size: usize) {
        let dtype = self.dtype;
        // Writing to a string cannot fail.
        let _ = match self.pattern {
            Pattern::AllReduce => write!(text, "allReduce {} {dtype} x {count}", self.reduction),
            Pattern::ReduceScatter => write!(text, "reduceScatter {} {dtype} x {}", self.reduction, count * size),
            Pattern::AllGather => write!(text, "allGather {dtype} x {count}"),
            Pattern::AllToAll => write!(text, "allToAll {dtype} x {}", count * size),
            Pattern::Broadcast { .. } if self.transfer => write!(text, "transfer {dtype} x {count}"),
            Pattern::Broadcast { root } => write!(text, "broadcast from position {root} {dtype} x {count}"),
            // The counts differ between ranks.
            Pattern::Exchange => write!(text, "exchange {dtype}"),
            Pattern::Barrier => write!(text, "barrier"),
        };
        let _ = write!(text, " '{}'", self.short_label());
        // The zero byte separates the description from the name of the group.
        if text.contains('\0') {
            *text = text.replace('\0', " ");
        }
    }

    /// The fingerprint, which is equal on ranks in the same collective.
    fn fingerprint(&self, parts: &[Part<'_>]) -> u64 {
        let root = if let Pattern::Broadcast { root } = self.pattern { root } else { 0 };
        let hash =
            hash_text(Fnv::new(), self.op()).word(root as u64).word(self.dtype as u64).word(self.reduction as u64);
        let hash = hash_text(hash, self.label).word(parts.len() as u64);
        // In an exchange, the length of each message is checked when it arrives.
        let sizes = |part: &Part<'_>| if self.pattern == Pattern::Exchange { 0 } else { part.output_bytes as u64 };
        parts.iter().fold(hash, |hash, part| hash.word(sizes(part))).finish()
    }

    /// Whether the input of the rank at position `me` is read.
    fn reads(&self, me: usize) -> bool {
        !matches!(self.pattern, Pattern::Broadcast { root } if root != me)
    }

    /// Bytes of one block of a part, if the sizes of the part fit the call.
    fn block_bytes(&self, part: &Part<'_>, size: usize, me: usize) -> std::result::Result<usize, String> {
        let (input, output) = (part.input_bytes, part.output_bytes);
        let (fits, block) = match self.pattern {
            Pattern::AllReduce => (input == output, input),
            Pattern::ReduceScatter => (output.checked_mul(size) == Some(input), output),
            Pattern::AllGather => (input.checked_mul(size) == Some(output), input),
            Pattern::AllToAll => (input == output && input % size == 0, input / size),
            Pattern::Broadcast { .. } => (!self.reads(me) || input == output, output),
            Pattern::Exchange => (true, input.max(output)),
            Pattern::Barrier => (true, 0),
        };
        let element = self.dtype.size();
        if !fits || block % element != 0 {
            let (input, output) = (input as f64 / element as f64, output as f64 / element as f64);
            return Err(format!("an input of {input} and an output of {output} elements do not fit {size} ranks"));
        }
        Ok(block)
    }

    /// Whether the memory of a part whose sizes fit can be worked on.
    pub(crate) fn check_addresses(&self, part: &Part<'_>, me: usize) -> std::result::Result<(), String> {
        let (input, output, reads) = (part.input_bytes, part.output_bytes, self.reads(me));
        let (from, to, element) = (part.input.addr(), part.output.addr(), self.dtype.size());
        let aligned = |address: usize, bytes: usize| bytes == 0 || address.is_multiple_of(element);
        if !aligned(to, output) || (reads && !aligned(from, input)) {
            return Err(format!("an address is not a multiple of {element}"));
        }
        let apart = from + input <= to || to + output <= from || input == 0 || output == 0;
        let same = match self.pattern {
            Pattern::AllReduce | Pattern::Broadcast { .. } => from == to,
            Pattern::AllGather => from == to + me * input,
            _ => false,
        };
        if reads && !apart && !same {
            return Err("an input overlaps its output in a way that this collective cannot work on".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_calls_are_prepared_once() {
        let (mut calls, mut made) = (Calls::default(), 0);
        let mut values = vec![0.0_f32; 2 * KEPT];
        let mut call = |pattern, reduction, label: &str, count: usize| {
            let call = Call::new(pattern, Dtype::F32, reduction, label);
            let parts = [Part::in_place(&mut values[..count])];
            let make = || {
                made += 1;
                Prepared::new(call, &parts, (2, 0), ("data", &[0, 1]), false)
            };
            let text = calls.of(call, &parts, make).unwrap().what().to_owned();
            (text, made)
        };
        let (sum, max) = (Reduction::Sum, Reduction::Max);
        for (pattern, reduction, label, count, made) in [
            (Pattern::AllReduce, sum, "a", 4, 1),
            (Pattern::AllReduce, sum, "a", 4, 1),
            (Pattern::AllReduce, max, "a", 4, 2),
            (Pattern::AllReduce, sum, "b", 4, 3),
            (Pattern::AllReduce, sum, "a", 5, 4),
            (Pattern::Broadcast { root: 0 }, sum, "a", 4, 5),
            (Pattern::Broadcast { root: 1 }, sum, "a", 4, 6),
            (Pattern::AllReduce, sum, "b", 4, 6),
            (Pattern::AllReduce, sum, "a", 4, 6),
        ] {
            let (text, times) = call(pattern, reduction, label, count);
            assert_eq!(times, made, "{text}");
            assert!(text.ends_with(&format!("f32 x {count} '{label}'")), "{text}");
        }
        // More calls than are kept: the oldest make room, and come back.
        for round in 0..2 {
            for count in 1..=2 * KEPT {
                assert!(call(Pattern::AllReduce, sum, "a", count).0.ends_with(&format!(" x {count} 'a'")), "{round}");
            }
        }
        let before = call(Pattern::AllReduce, sum, "a", 2 * KEPT).1;
        assert_eq!(call(Pattern::AllReduce, sum, "a", KEPT + 2).1, before);
        assert_eq!(call(Pattern::AllReduce, sum, "a", 1).1, before + 1);
    }
}
