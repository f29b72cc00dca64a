//! Steps that involve other devices, or the device's own place among them.

use crate::dtype::DType;
use crate::exec::{kernels, Call, Counts, Kernel, Part, Run};
use crate::program::{AxisIndexJson, CollectiveJson, CollectiveOp, PartJson, ReduceOp};
use crate::verify::{At, Checker};
use crate::{bail, Result};

kernels! {
    "axisIndex" AxisIndex::new;
    "collective" Collective::new;
}

pub struct AxisIndex {
    axis: usize,
    out: At,
}

impl AxisIndex {
    pub fn new(json: &AxisIndexJson, mut checker: Checker) -> Result<AxisIndex> {
        checker.write_all("out", json.out, DType::I32, &[])?;
        checker.finish(false)?;
        Ok(AxisIndex { axis: json.axis, out: json.out })
    }
}

impl Kernel for AxisIndex {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let Some(coordinate) = run.coords.get(self.axis) else {
            bail!("this device has {} coordinates, none for axis {}", run.coords.len(), self.axis);
        };
        unsafe { *run.ptr::<i32>(self.out) = *coordinate };
        Ok(())
    }
}

pub struct Collective {
    op: CollectiveOp,
    axis: usize,
    reduction: ReduceOp,
    dtype: DType,
    parts: Vec<PartJson>,
    label: String,
    /// Bytes of every space, since sizes of outputs depend on the number of members.
    spaces: Vec<usize>,
    exchange: Option<Exchange>,
    members: Option<usize>,
    /// Number of the flight and of the step, where it runs beside other steps.
    pub(crate) flight: Option<(u32, usize)>,
}

struct Exchange {
    sends: Vec<(i64, usize)>,
    receives: Vec<(i64, usize)>,
    relative: bool,
    /// Elements that come.
    received: usize,
}

impl Exchange {
    fn new(json: &CollectiveJson) -> Result<Exchange> {
        let [part] = json.parts.as_slice() else { bail!("an exchange has one part, not {}", json.parts.len()) };
        let list = |given: &Option<Vec<_>>| given.clone().unwrap_or_default();
        let (sends, receives) = (list(&json.sends), list(&json.receives));
        let total = |list: &[(i64, usize)]| list.iter().try_fold(0_usize, |sum, (_, count)| sum.checked_add(*count));
        if total(&sends) != Some(part.count) {
            bail!("{} elements are not what {:?} add up to", part.count, sends);
        }
        let Some(received) = total(&receives) else { bail!("{:?} are too many elements", receives) };
        Ok(Exchange { sends, receives, relative: json.relative, received })
    }

    /// The members' positions, seen from `me`.
    fn counts(&self, me: i32, size: usize) -> Result<(Counts, Counts)> {
        let absolute = |list: &[(i64, usize)]| -> Result<Counts> {
            list.iter()
                .map(|&(member, count)| {
                    let place = if self.relative { member.saturating_add(me.into()) } else { member };
                    match usize::try_from(place) {
                        Ok(place) if place < size => Ok((place, count)),
                        _ => bail!("there is no member {place} among {size}"),
                    }
                })
                .collect()
        };
        Ok((absolute(&self.sends)?, absolute(&self.receives)?))
    }
}

/// Elements that come out of a collective, other than an exchange, for `count` that go in.
fn output_count(op: CollectiveOp, count: usize, size: usize) -> Result<usize> {
    match op {
        CollectiveOp::AllGather => match count.checked_mul(size) {
            Some(total) => Ok(total),
            None => bail!("{count} elements of {size} members are too many"),
        },
        CollectiveOp::ReduceScatter if !count.is_multiple_of(size) => {
            bail!("{count} elements cannot be scattered over {size} members")
        }
        CollectiveOp::ReduceScatter => Ok(count / size),
        CollectiveOp::AllToAll if !count.is_multiple_of(size) => {
            bail!("{count} elements cannot be exchanged among {size} members")
        }
        _ => Ok(count),
    }
}

impl Collective {
    pub fn new(json: &CollectiveJson, mut checker: Checker) -> Result<Collective> {
        let reduces = matches!(json.op, CollectiveOp::AllReduce | CollectiveOp::ReduceScatter);
        let reduction = json.reduction.unwrap_or(ReduceOp::Sum);
        if reduces && (matches!(reduction, ReduceOp::And | ReduceOp::Or) || json.dtype == DType::Bool) {
            bail!("{reduction:?} of {} cannot be reduced between devices", json.dtype.name());
        }
        let exchange = if json.op == CollectiveOp::Exchange { Some(Exchange::new(json)?) } else { None };
        if json.members == Some(0) {
            bail!("an axis has at least one member");
        }
        if json.flight.is_some() && json.members.is_none() {
            bail!("a collective that is under way must say how many members it has");
        }
        for (i, part) in json.parts.iter().enumerate() {
            checker.read_all(&format!("parts[{i}].in"), part.input, json.dtype, &[part.count])?;
            let count = match (&exchange, json.op, json.members) {
                (Some(exchange), ..) => exchange.received,
                (None, CollectiveOp::AllGather | CollectiveOp::ReduceScatter, None) => 0,
                (None, op, members) => output_count(op, part.count, members.unwrap_or(1))?,
            };
            checker.write_all(&format!("parts[{i}].out"), part.out, json.dtype, &[count])?;
        }
        let spaces = checker.spaces().to_vec();
        let flight = match json.flight {
            Some(flight) => {
                let op = checker.outermost().unwrap_or(0);
                checker.depart(flight)?;
                Some((flight, op))
            }
            None => {
                checker.finish(true)?;
                None
            }
        };
        Ok(Collective {
            op: json.op,
            axis: json.axis,
            reduction,
            dtype: json.dtype,
            parts: json.parts.clone(),
            label: json.label.clone().unwrap_or_default(),
            spaces,
            exchange,
            members: json.members,
            flight,
        })
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
        let Some(size) = run.collectives.size(self.axis) else {
            bail!("this device has no group for mesh axis {}", self.axis);
        };
        if let Some(members) = self.members.filter(|members| *members != size) {
            bail!("axis {} has {size} members, not {members}", self.axis);
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut ranges = Vec::with_capacity(self.parts.len());
        for (i, part) in self.parts.iter().enumerate() {
            let count = match &self.exchange {
                Some(exchange) => exchange.received,
                None => output_count(self.op, part.count, size)?,
            };
            let bytes = count.saturating_mul(self.dtype.size());
            let input_bytes = part.count * self.dtype.size();
            let room = self.spaces[part.out.space as usize].saturating_sub(part.out.offset);
            if bytes > room {
                bail!("parts[{i}].out: {bytes} bytes for {size} members, but only {room} are there");
            }
            let output = (part.out.space, part.out.offset, part.out.offset + bytes);
            let input = (part.input.space, part.input.offset, part.input.offset + input_bytes);
            let in_place = self.op == CollectiveOp::AllReduce && input == output;
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
        let Collective { op, axis, reduction, dtype, label, .. } = self;
        let counts = match &self.exchange {
            Some(exchange) => Some(exchange.counts(run.coords.get(*axis).copied().unwrap_or(0), size)?),
            None => None,
        };
        let exchange = counts.as_ref();
        let call = Call { op: *op, axis: *axis, reduction: *reduction, dtype: *dtype, label, step, exchange };
        run.collectives.run(&call, &mut parts)
    }
}
