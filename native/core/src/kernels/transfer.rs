//! Sends and receives between two devices of a mesh axis.

use crate::calls::{ReceiveJson, SendJson};
use crate::collectives::{Part, TransferCall, Way};
use crate::dtype::DType;
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::verify::At;
use crate::{bail, Result};

kernels! {
    send = |call: SendJson| Transfer::new(call.label, Way::To(call.to), call.axis, call.dtype, call.parts.iter().map(|part| (part.input, part.count)));
    receive = |call: ReceiveJson| Transfer::new(call.label, Way::From(call.from), call.axis, call.dtype, call.parts.iter().map(|part| (part.out, part.count)));
}

pub struct Transfer {
    way: Way,
    axis: usize,
    dtype: DType,
    /// Address and number of elements of each value.
    parts: Vec<(At, usize)>,
    label: String,
}

impl Transfer {
    fn new(
        label: Option<String>,
        way: Way,
        axis: usize,
        dtype: DType,
        parts: impl Iterator<Item = (At, usize)>,
    ) -> Result<Transfer> {
        Ok(Transfer { way, axis, dtype, parts: parts.collect(), label: label.unwrap_or_default() })
    }
}

impl Kernel for Transfer {
    fn communicates(&self) -> bool {
        true
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        run.async_collectives.wait_for_all()?;
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
                    let output = unsafe { std::slice::from_raw_parts_mut(address, bytes) };
                    Part { input: std::ptr::null(), output, input_bytes: 0 }
                }
            }
        };
        let mut parts: Vec<Part> = self.parts.iter().map(part).collect();
        let Transfer { way, axis, dtype, label, .. } = self;
        run.collectives.transfer(&TransferCall { way: *way, axis: *axis, dtype: *dtype, label }, &mut parts)
    }
}
