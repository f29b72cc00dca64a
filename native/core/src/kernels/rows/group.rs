//! Reading a group whose values are folded along one dim: which registers have one value per row, and when each is known.

use crate::calls::{FusedJson, ReduceOp};
use crate::kernels::fold::defined;
use crate::kernels::fused::plan::merge;
use crate::kernels::fused::registers::{self, Operand, Register, Source};
use crate::verify::count;
use crate::{bail, Result};
use serde_json::Value;

pub(super) struct Output {
    pub operand: usize,
    pub register: usize,
    /// One element per row.
    pub single: bool,
}

/// What is known of a register.
#[derive(Clone, Copy)]
pub(super) struct Nature {
    /// It has one value per row.
    pub single: bool,
    /// How many folds must be done before it is known.
    pub level: usize,
}

pub(super) struct Group {
    pub total: usize,
    pub rows: usize,
    /// Elements that are folded to one.
    pub length: usize,
    /// The other dims, merged where all operands walk them as one; operands' strides are along these.
    pub dims: Vec<usize>,
    pub operands: Vec<Operand>,
    /// Of each operand, the stride along the folded dim.
    pub along: Vec<isize>,
    pub registers: Vec<Register>,
    pub natures: Vec<Nature>,
    pub outputs: Vec<Output>,
}

/// Reads a group that is folded along `folded`, a dim of its shape.
pub(super) fn read(json: &FusedJson, folded: usize) -> Result<Group> {
    let shape = &json.shape;
    if folded >= shape.len() {
        bail!("a group of shape {shape:?} has no dim to fold");
    }
    let total = count(shape)?;
    let is_fold = |op: &[Value]| op.first().and_then(Value::as_str) == Some("fold");
    let (registers, mut operands) = registers::read(json, |op, registers| is_fold(op).then(|| fold(op, registers)))?;
    let natures = natures(&registers, &operands, folded);
    let kept: Vec<usize> = (0..shape.len()).filter(|d| *d != folded).map(|d| shape[d]).collect();
    let mut outputs = Vec::new();
    for (i, out) in json.outputs.iter().enumerate() {
        registers::check(out, &registers).map_err(|e| e.at(format!("out[{i}]")))?;
        let single = out.strides.len() < shape.len();
        let mut strides = out.strides.clone();
        if single {
            if !natures[out.reg].single {
                bail!("out[{i}]: register {} has more than one value per row", out.reg);
            }
            strides.insert(folded.min(strides.len()), 0);
        }
        outputs.push(Output { operand: operands.len(), register: out.reg, single });
        operands.push(Operand { at: Some(out.at), dtype: out.dtype, strides, contiguous: false });
    }
    refuse(&registers, &operands, folded)?;
    let along = operands.iter_mut().map(|o| o.strides.remove(folded)).collect();
    let rows = kept.iter().product();
    let dims = if rows == 0 { vec![1] } else { merge(&kept, &mut operands) };
    Ok(Group { total, rows, length: shape[folded], dims, operands, along, registers, natures, outputs })
}

fn refuse(registers: &[Register], operands: &[Operand], folded: usize) -> Result<()> {
    for register in registers {
        match &register.source {
            Source::Compute { divides: Some(name), .. } => {
                bail!("{name} of integers is not supported in folded groups")
            }
            Source::Input(o) if operands[*o].at.is_none() && operands[*o].strides[folded] == 0 => {
                bail!("iota: counts along the folded dim only")
            }
            _ => {}
        }
    }
    Ok(())
}

fn fold(op: &[Value], registers: &[Register]) -> Result<Register> {
    let [_, dtype, name, register] = op else { bail!("a fold is [\"fold\", dtype, op, register], got {op:?}") };
    let Some(what) = name.as_str().and_then(ReduceOp::named) else { bail!("fold: unknown op {name}") };
    let Some(from) = register.as_u64().map(|r| r as usize).filter(|r| *r < registers.len()) else {
        bail!("fold: {register} is not a register before {}", registers.len());
    };
    let have = registers[from].dtype;
    if dtype.as_str() != Some(have.name()) {
        bail!("fold: register {from} is {}, not {dtype}", have.name());
    }
    if !defined(what, have) {
        bail!("{what:?} of {} is not supported", have.name());
    }
    Ok(Register { source: Source::Fold(what, from), dtype: have })
}

fn natures(registers: &[Register], operands: &[Operand], folded: usize) -> Vec<Nature> {
    let mut natures: Vec<Nature> = Vec::with_capacity(registers.len());
    for register in registers {
        natures.push(match &register.source {
            Source::Input(o) => Nature { single: operands[*o].strides[folded] == 0, level: 0 },
            Source::Constant(_) => Nature { single: true, level: 0 },
            Source::Fold(_, from) => Nature { single: true, level: natures[*from].level + 1 },
            Source::Compute { inputs, .. } => Nature {
                single: inputs.iter().all(|i| natures[*i].single),
                level: inputs.iter().map(|i| natures[*i].level).max().unwrap_or(0),
            },
        });
    }
    natures
}
