//! Elementwise groups: an interpreter over tiles whose registers stay in L1.
//!
//! Loading a step fixes everything: dims are merged, registers get slots, each instruction becomes a loop to call.

pub(crate) mod generated;
pub mod ops;
pub(crate) mod plan;
pub(crate) mod registers;
pub(crate) mod tile;

use crate::calls::FusedJson;
use crate::reader::{kernels, Reader};
use crate::step::{Kernel, Run};
use crate::verify::count;
use crate::Result;
use plan::Fused;
use registers::{check, read, Operand};

kernels! {
    fused(reader) = Fused::new;
}

impl Fused {
    pub fn new(json: FusedJson, reader: &Reader) -> Result<Fused> {
        let total = count(&json.shape)?;
        let (registers, mut operands) = read(&json, |_, _| None)?;
        let mut outputs = Vec::new();
        for (i, out) in json.outputs.iter().enumerate() {
            check(out, &registers).map_err(|e| e.at(format!("out[{i}]")))?;
            outputs.push((operands.len(), out.reg));
            operands.push(Operand::new(out.at, out.dtype, &out.strides));
        }
        plan::plan(total, &json.shape, operands, registers, &outputs, reader.generate)
    }
}

impl Kernel for Fused {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.generated.run(&self.dims, &self.operands, run) {
            return Ok(());
        }
        tile::run(self, run)
    }
}
