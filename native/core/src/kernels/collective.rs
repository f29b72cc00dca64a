//! Steps that involve other devices, or the device's own place among them.

use crate::control::Reader;
use crate::dtype::DType;
use crate::exec::{kernels, Call, Counts, Kernel, Part, Run};
use crate::program::{AxisIndexJson, CollectiveJson, CollectiveOp, PartJson, ReduceOp};
use crate::{bail, Error, Result};

kernels! {
    axisIndex = |call| Ok::<_, Error>(AxisIndex(call));
    collective(reader) = Collective::new;
}

pub struct AxisIndex(AxisIndexJson);

impl Kernel for AxisIndex {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let Some(coordinate) = run.coords.get(self.0.axis) else {
            bail!("this device has {} coordinates, none for axis {}", run.coords.len(), self.0.axis);
        };
        unsafe { *run.ptr::<i32>(self.0.out) = *coordinate };
        Ok(())
    }
}

pub struct Collective {
    call: CollectiveJson,
    reduction: ReduceOp,
    /// Bytes of every space, since sizes of outputs depend on the number of members.
    spaces: Vec<usize>,
    /// Number of the flight and of the step, where it runs beside other steps.
    pub(crate) flight: Option<(u32, usize)>,
}

type Counted = [(i64, usize)];

fn total(list: &Counted) -> Result<usize> {
    match list.iter().try_fold(0_usize, |sum, (_, count)| sum.checked_add(*count)) {
        Some(total) => Ok(total),
        None => bail!("{list:?} are too many elements"),
    }
}

/// The members' positions, seen from `me`, of an exchange.
fn counts(call: &CollectiveJson, me: i32, size: usize) -> Result<(Counts, Counts)> {
    let absolute = |list: &Option<Vec<(i64, usize)>>| -> Result<Counts> {
        let place = |&(member, count): &(i64, usize)| {
            let place = if call.relative { member.saturating_add(me.into()) } else { member };
            match usize::try_from(place) {
                Ok(place) if place < size => Ok((place, count)),
                _ => bail!("there is no member {place} among {size}"),
            }
        };
        list.iter().flatten().map(place).collect()
    };
    Ok((absolute(&call.sends)?, absolute(&call.receives)?))
}

/// Elements that come out for those of a part; none, where the number of members is not known before it runs.
pub fn received(call: &CollectiveJson, part: &PartJson) -> Result<usize> {
    match (call.op, call.members) {
        (CollectiveOp::AllGather | CollectiveOp::ReduceScatter, None) => Ok(0),
        (_, members) => output_count(call, part.count, members.unwrap_or(1)),
    }
}

/// Elements that come out of a collective of `size` members for `count` that go in.
fn output_count(call: &CollectiveJson, count: usize, size: usize) -> Result<usize> {
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

impl Collective {
    pub fn new(call: CollectiveJson, reader: &Reader) -> Result<Collective> {
        let reduces = matches!(call.op, CollectiveOp::AllReduce | CollectiveOp::ReduceScatter);
        let reduction = call.reduction.unwrap_or(ReduceOp::Sum);
        if reduces && (matches!(reduction, ReduceOp::And | ReduceOp::Or) || call.dtype == DType::Bool) {
            bail!("{reduction:?} of {} cannot be reduced between devices", call.dtype.name());
        }
        if call.op == CollectiveOp::Exchange {
            let [part] = call.parts.as_slice() else { bail!("an exchange has one part, not {}", call.parts.len()) };
            let sends = call.sends.as_deref().unwrap_or_default();
            if total(sends)? != part.count {
                bail!("{} elements are not what {sends:?} add up to", part.count);
            }
        }
        if call.members == Some(0) {
            bail!("an axis has at least one member");
        }
        if call.flight.is_some() && call.members.is_none() {
            bail!("a collective that is under way must say how many members it has");
        }
        let flight = call.flight.map(|flight| (flight, reader.flights.outermost.unwrap_or(0)));
        Ok(Collective { reduction, spaces: reader.spaces.to_vec(), flight, call })
    }
}

impl Kernel for Collective {
    fn communicates(&self) -> bool {
        true
    }

    fn departs(&self) -> bool {
        self.flight.is_some()
    }

    /// In its place after those that are under way, unless it is to be under way itself.
    fn run(&self, run: &Run, step: usize) -> Result<()> {
        if let Some((flight, op)) = self.flight {
            run.leg.start(self, run, step, op, flight);
            return Ok(());
        }
        run.leg.settle()?;
        self.carry(run, step)
    }
}

impl Collective {
    /// From any thread.
    pub(crate) fn carry(&self, run: &Run, step: usize) -> Result<()> {
        let CollectiveJson { op, axis, dtype, ref label, .. } = self.call;
        let Some(size) = run.collectives.size(axis) else {
            bail!("this device has no group for mesh axis {axis}");
        };
        if let Some(members) = self.call.members.filter(|members| *members != size) {
            bail!("axis {axis} has {size} members, not {members}");
        }
        let mut parts = Vec::with_capacity(self.call.parts.len());
        let mut ranges = Vec::with_capacity(self.call.parts.len());
        for (i, part) in self.call.parts.iter().enumerate() {
            let bytes = output_count(&self.call, part.count, size)?.saturating_mul(dtype.size());
            let input_bytes = part.count * dtype.size();
            let room = self.spaces[part.out.space as usize].saturating_sub(part.out.offset);
            if bytes > room {
                bail!("parts[{i}].out: {bytes} bytes for {size} members, but only {room} are there");
            }
            let output = (part.out.space, part.out.offset, part.out.offset + bytes);
            let input = (part.input.space, part.input.offset, part.input.offset + input_bytes);
            let in_place = op == CollectiveOp::AllReduce && input == output;
            let overlap = |a: (u32, usize, usize), b: (u32, usize, usize)| a.0 == b.0 && a.1 < b.2 && b.1 < a.2;
            if overlap(input, output) && !in_place {
                bail!("parts[{i}]: in and out overlap");
            }
            if ranges.iter().any(|(a, b)| overlap(*a, output) || overlap(*b, output) || overlap(*b, input)) {
                bail!("parts[{i}]: out overlaps another part");
            }
            ranges.push((input, output));
            let output = unsafe { std::slice::from_raw_parts_mut(run.ptr::<u8>(part.out), bytes) };
            parts.push(Part { input: run.ptr::<u8>(part.input), output, input_bytes });
        }
        let exchange = match op {
            CollectiveOp::Exchange => Some(counts(&self.call, run.coords.get(axis).copied().unwrap_or(0), size)?),
            _ => None,
        };
        let (reduction, label) = (self.reduction, label.as_deref().unwrap_or_default());
        let call = Call { op, axis, reduction, dtype, label, step, exchange: exchange.as_ref() };
        run.collectives.run(&call, &mut parts)
    }
}
