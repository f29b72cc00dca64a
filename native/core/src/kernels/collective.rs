//! Collectives, the waits for them, and the coordinates of this device.

use std::sync::OnceLock;

use crate::calls::{AxisIndexJson, CollectiveJson, PartJson, WaitJson};
use crate::collectives::{output_count, total, Call, CollectiveOp, Counts, Part, ReduceOp};
use crate::dtype::DType;
use crate::reader::{kernels, Reader};
use crate::step::{Kernel, Run};
use crate::{bail, Error, Result};

kernels! {
    axisIndex = |call| Ok::<_, Error>(AxisIndex(call));
    collective(reader) = Collective::new;
    wait(reader) = Wait::new;
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
    /// Handle, and number of the step among the outermost ones, of an asynchronous collective.
    handle: Option<(u32, usize)>,
    /// The number of members with which parts have been checked, and the bytes of each part's output then.
    checked: OnceLock<(usize, Vec<usize>)>,
}

/// The positions of the members of an exchange; relative positions count from `me`.
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
                bail!("the counts of {sends:?} do not add up to {} elements", part.count);
            }
        }
        if call.members == Some(0) {
            bail!("an axis has at least one member");
        }
        if call.handle.is_some() && call.members.is_none() {
            bail!("missing field `members`, which an asynchronous collective needs");
        }
        let handle = call.handle.zip(reader.in_flight.outermost);
        Ok(Collective { reduction, spaces: reader.spaces.to_vec(), handle, checked: OnceLock::new(), call })
    }
}

impl Kernel for Collective {
    fn communicates(&self) -> bool {
        true
    }

    fn starts(&self) -> bool {
        self.handle.is_some()
    }

    fn run(&self, run: &Run, step: usize) -> Result<()> {
        // SAFETY: the executor drops the guard of the asynchronous collectives before the run and the program.
        unsafe { run.async_collectives.carry(self.handle, step, move || self.communicate(run, step)) }
    }
}

impl Collective {
    /// Runs the collective, on any thread.
    fn communicate(&self, run: &Run, step: usize) -> Result<()> {
        let CollectiveJson { op, axis, dtype, ref label, .. } = self.call;
        let Some(size) = run.collectives.size(axis) else {
            bail!("this device has no group for mesh axis {axis}");
        };
        if let Some(members) = self.call.members.filter(|members| *members != size) {
            bail!("axis {axis} has {size} members, not {members}");
        }
        let outputs = match self.checked.get() {
            Some((members, outputs)) if *members == size => outputs,
            _ => &self.output_bytes(size)?,
        };
        // SAFETY: outputs are within their buffers, and apart from all other parts.
        let part = |(part, bytes): (&PartJson, &usize)| Part {
            input: run.ptr::<u8>(part.input),
            output: unsafe { std::slice::from_raw_parts_mut(run.ptr::<u8>(part.out), *bytes) },
            input_bytes: part.count * dtype.size(),
        };
        // Most collectives have one part, which needs no memory.
        let (mut one, mut several): ([Part; 1], Vec<Part>);
        let parts = match (&self.call.parts[..], &outputs[..]) {
            ([only], [bytes]) => {
                one = [part((only, bytes))];
                &mut one[..]
            }
            (all, bytes) => {
                several = all.iter().zip(bytes).map(part).collect();
                &mut several[..]
            }
        };
        let exchange = match op {
            CollectiveOp::Exchange => Some(counts(&self.call, run.coords.get(axis).copied().unwrap_or(0), size)?),
            _ => None,
        };
        let (reduction, label) = (self.reduction, label.as_deref().unwrap_or_default());
        let call = Call { op, axis, reduction, dtype, label, step, exchange: exchange.as_ref() };
        run.collectives.run(&call, parts)
    }

    /// Bytes of the output of each part among so many members, if all parts are within their buffers and apart.
    fn output_bytes(&self, size: usize) -> Result<Vec<usize>> {
        let CollectiveJson { op, dtype, ref parts, .. } = self.call;
        let mut outputs = Vec::with_capacity(parts.len());
        let mut ranges = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            let bytes = output_count(&self.call, part.count, size)?.saturating_mul(dtype.size());
            let input_bytes = part.count * dtype.size();
            let room = self.spaces[part.out.space as usize].saturating_sub(part.out.offset);
            if bytes > room {
                bail!("parts[{i}].out: {bytes} bytes for {size} members, but the buffer has only {room}");
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
            outputs.push(bytes);
        }
        // The axis of another runtime may have another number of members, which is then checked in each call.
        let _ = self.checked.set((size, outputs.clone()));
        Ok(outputs)
    }
}

/// Waits for the asynchronous collective with this handle.
struct Wait(u32);

impl Wait {
    fn new(call: WaitJson, reader: &mut Reader) -> Result<Wait> {
        reader.in_flight.wait(call.handle)?;
        Ok(Wait(call.handle))
    }
}

impl Kernel for Wait {
    fn waits(&self) -> bool {
        true
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        run.async_collectives.wait(self.0, run.profile)
    }
}
