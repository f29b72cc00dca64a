//! The calls of collectives, the number of elements that a collective returns, and the trait that runs collectives.

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
    /// For an exchange: members with the counts of elements sent to them and received from them.
    pub exchange: Option<&'a (Counts, Counts)>,
}

/// Positions on the axis with counts of elements.
pub type Counts = Vec<(usize, usize)>;

/// The direction of a transfer along a mesh axis, with the coordinate of the other device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    To(usize),
    From(usize),
}

/// A transfer between two devices of a mesh axis. The parts of the sender have inputs, the parts of the receiver outputs.
pub struct TransferCall<'a> {
    pub way: Way,
    pub axis: usize,
    pub dtype: DType,
    pub label: &'a str,
}

/// Runs collectives: one group per mesh axis.
pub trait Collectives: Send + Sync {
    /// Members of an axis, or `None` if the device has no such axis.
    fn size(&self, axis: usize) -> Option<usize>;
    fn run(&self, call: &Call, parts: &mut [Part]) -> Result<()>;
    fn transfer(&self, call: &TransferCall, parts: &mut [Part]) -> Result<()>;
    /// Ends the waits of all collectives in flight with an error.
    fn abort(&self, reason: &str);
}

/// A device on its own: every axis has one member.
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
            // Input and output may be the same memory.
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
        None => bail!("the counts of {list:?} are too large"),
    }
}

/// The number of output elements of a part; 0 where it depends on a number of members that is known only at run time.
pub(crate) fn received(call: &CollectiveJson, part: &PartJson) -> Result<usize> {
    match (call.op, call.members) {
        (CollectiveOp::AllGather | CollectiveOp::ReduceScatter, None) => Ok(0),
        (_, members) => output_count(call, part.count, members.unwrap_or(1)),
    }
}

/// The number of output elements of a collective of `size` members for `count` input elements.
pub(crate) fn output_count(call: &CollectiveJson, count: usize, size: usize) -> Result<usize> {
    match call.op {
        CollectiveOp::Exchange => total(call.receives.as_deref().unwrap_or_default()),
        CollectiveOp::AllGather => match count.checked_mul(size) {
            Some(total) => Ok(total),
            None => bail!("{count} elements of {size} members are too many"),
        },
        CollectiveOp::ReduceScatter | CollectiveOp::AllToAll if size == 0 || !count.is_multiple_of(size) => {
            bail!("{count} elements cannot be divided among {size} members")
        }
        CollectiveOp::ReduceScatter => Ok(count / size),
        _ => Ok(count),
    }
}
