//! What collectives are called with, how many elements come out of one, and the trait of what runs collectives.

pub use crate::calls::{CollectiveOp, ReduceOp};

use crate::calls::{CollectiveJson, PartJson};
use crate::dtype::DType;
use crate::{bail, Result};

/// One tensor of a collective.
pub struct Part<'a> {
    pub input: *const u8,
    pub output: &'a mut [u8],
    pub input_bytes: usize,
}

/// A call that all members of a mesh axis make together. All parts travel as one message.
pub struct Call<'a> {
    pub op: CollectiveOp,
    pub axis: usize,
    pub reduction: ReduceOp,
    pub dtype: DType,
    pub label: &'a str,
    /// Ordinal of the step in its program, for fingerprints.
    pub step: usize,
    /// Members and counts of elements, sent and received, of an exchange.
    pub exchange: Option<&'a (Counts, Counts)>,
}

/// Positions on the axis with counts of elements.
pub type Counts = Vec<(usize, usize)>;

/// Which way values travel along a mesh axis, and the coordinate there of the other device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    To(usize),
    From(usize),
}

/// A call that two devices of a mesh axis make. Of its parts, the sender's have inputs, the receiver's outputs.
pub struct TransferCall<'a> {
    pub way: Way,
    pub axis: usize,
    pub dtype: DType,
    pub label: &'a str,
}

/// What carries collectives: one group per mesh axis.
pub trait Collectives: Send + Sync {
    /// Members of an axis, or `None` if the device has no such axis.
    fn size(&self, axis: usize) -> Option<usize>;
    fn run(&self, call: &Call, parts: &mut [Part]) -> Result<()>;
    fn transfer(&self, call: &TransferCall, parts: &mut [Part]) -> Result<()>;
    /// Ends waits of calls in flight with an error.
    fn abort(&self, reason: &str);
}

/// Every axis has one member.
pub struct Alone;

impl Collectives for Alone {
    fn size(&self, _axis: usize) -> Option<usize> {
        Some(1)
    }

    fn transfer(&self, call: &TransferCall, _parts: &mut [Part]) -> Result<()> {
        bail!("{:?} on axis {}: there is no other device", call.way, call.axis)
    }

    fn run(&self, _call: &Call, parts: &mut [Part]) -> Result<()> {
        for part in parts {
            // In and out may be the same memory.
            unsafe { std::ptr::copy(part.input, part.output.as_mut_ptr(), part.input_bytes.min(part.output.len())) };
        }
        Ok(())
    }

    fn abort(&self, _reason: &str) {}
}

type Counted = [(i64, usize)];

pub(crate) fn total(list: &Counted) -> Result<usize> {
    match list.iter().try_fold(0_usize, |sum, (_, count)| sum.checked_add(*count)) {
        Some(total) => Ok(total),
        None => bail!("{list:?} are too many elements"),
    }
}

/// Elements that come out for those of a part; none, where the number of members is not known before it runs.
pub(crate) fn received(call: &CollectiveJson, part: &PartJson) -> Result<usize> {
    match (call.op, call.members) {
        (CollectiveOp::AllGather | CollectiveOp::ReduceScatter, None) => Ok(0),
        (_, members) => output_count(call, part.count, members.unwrap_or(1)),
    }
}

/// Elements that come out of a collective of `size` members for `count` that go in.
pub(crate) fn output_count(call: &CollectiveJson, count: usize, size: usize) -> Result<usize> {
    match call.op {
        CollectiveOp::Exchange => total(call.receives.as_deref().unwrap_or_default()),
        CollectiveOp::AllGather => match count.checked_mul(size) {
            Some(total) => Ok(total),
            None => bail!("{count} elements of {size} members are too many"),
        },
        CollectiveOp::ReduceScatter | CollectiveOp::AllToAll if size == 0 || !count.is_multiple_of(size) => {
            bail!("{count} elements cannot be dealt out to {size} members")
        }
        CollectiveOp::ReduceScatter => Ok(count / size),
        _ => Ok(count),
    }
}
