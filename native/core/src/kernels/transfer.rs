//! Sends and receives between two devices of a mesh axis.

use std::slice::from_raw_parts_mut;

use crate::calls::{ReceiveJson, SendJson};
use crate::collectives::{Part, TransferCall, Way};
use crate::dtype::DType;
use crate::reader::{kernels, Reader};
use crate::step::{Kernel, Run};
use crate::verify::At;
use crate::{bail, Error, Result};

kernels! {
    send(reader) = |call: SendJson, reader: &Reader| Ok::<_, Error>(Transfer {
        way: Way::To(call.to), axis: call.axis, dtype: call.dtype, parts: call.parts.iter().map(|part| (part.input, part.count)).collect(),
        label: call.label.unwrap_or_default(), handle: call.handle.zip(reader.in_flight.outermost),
    });
    receive(reader) = |call: ReceiveJson, reader: &Reader| Ok::<_, Error>(Transfer {
        way: Way::From(call.from), axis: call.axis, dtype: call.dtype, parts: call.parts.iter().map(|part| (part.out, part.count)).collect(),
        label: call.label.unwrap_or_default(), handle: call.handle.zip(reader.in_flight.outermost),
    });
}

pub struct Transfer {
    way: Way,
    axis: usize,
    dtype: DType,
    /// Address and number of elements of each value.
    parts: Vec<(At, usize)>,
    label: String,
    /// Handle, and number of the step among the outermost ones, of a transfer beside other steps.
    handle: Option<(u32, usize)>,
}

impl Kernel for Transfer {
    fn communicates(&self) -> bool {
        true
    }

    fn starts(&self) -> bool {
        self.handle.is_some()
    }

    fn run(&self, run: &Run, step: usize) -> Result<()> {
        // SAFETY: the executor drops the guard of the asynchronous collectives before the run and the program.
        unsafe { run.async_collectives.carry(self.handle, step, move || self.communicate(run)) }
    }
}

impl Transfer {
    /// Sends or receives, on any thread.
    fn communicate(&self, run: &Run) -> Result<()> {
        let Some(size) = run.collectives.size(self.axis) else {
            bail!("this device has no group for mesh axis {}", self.axis);
        };
        let (Way::To(peer) | Way::From(peer)) = self.way;
        if peer >= size {
            bail!("there is no device {peer} on axis {} of {size}", self.axis);
        }
        let part = |(at, count): &(At, usize)| {
            let (address, bytes) = (run.ptr::<u8>(*at), count * self.dtype.size());
            match self.way {
                Way::To(_) => Part { input: address, output: &mut [], input_bytes: bytes },
                Way::From(_) => {
                    Part { input: address, output: unsafe { from_raw_parts_mut(address, bytes) }, input_bytes: 0 }
                }
            }
        };
        let call = TransferCall { way: self.way, axis: self.axis, dtype: self.dtype, label: &self.label };
        run.collectives.transfer(&call, &mut self.parts.iter().map(part).collect::<Vec<_>>())
    }
}
