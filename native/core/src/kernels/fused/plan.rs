//! From registers to actions: merges dims, chooses tiles, gives registers their slots.

use super::generated::Generated;
use super::ops::Loop;
use super::registers::{Operand, Register, Source, Value8};
use crate::dtype::DType;
use crate::generate::Generate;
use crate::{bail, Result};

/// Bytes of registers of one worker, on its stack.
pub(crate) const REGISTERS: usize = 64 << 10;
/// Registers should leave room in L1 for what is streamed.
const BUDGET: usize = 32 << 10;
const MAX_TILE: usize = 1024;
const MIN_TILE: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Slot(usize),
    /// In place: the tile's part of operand i.
    Direct(usize),
}

pub(crate) enum Action {
    /// Operand i into a slot.
    Load(usize, usize),
    Compute {
        function: Loop,
        inputs: [Place; 3],
        arity: usize,
        out: Place,
    },
    RefuseZero {
        dtype: DType,
        divisor: Place,
        name: &'static str,
    },
    Store(Place, usize),
}

pub(crate) enum Shape {
    /// `rows` times `length` consecutive elements, cut into tiles; offsets follow the dims.
    Linear { rows: usize, length: usize },
    /// Blocks of two dims, for views that are contiguous along different dims.
    Block { row_dim: usize, side: usize },
}

pub struct Fused {
    pub(crate) count: usize,
    pub(crate) dims: Vec<usize>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) shape: Shape,
    pub(crate) tile: usize,
    /// Constants: value bits, dtype, slot. Filled once per worker.
    pub(crate) constants: Vec<(Value8, usize)>,
    /// Operands that are the same in every tile.
    pub(crate) once: Vec<(usize, usize)>,
    pub(crate) actions: Vec<Action>,
    pub(crate) cost: usize,
    pub(crate) generated: Generated,
}

pub(super) fn plan(
    total: usize,
    shape: &[usize],
    mut operands: Vec<Operand>,
    registers: Vec<Register>,
    outputs: &[(usize, usize)],
    generate: Generate,
) -> Result<Fused> {
    if total == 0 {
        let shape = Shape::Linear { rows: 0, length: 0 };
        let (constants, once, actions) = (Vec::new(), Vec::new(), Vec::new());
        let (dims, generated) = (vec![1], Generated::default());
        return Ok(Fused { count: 0, dims, operands, shape, tile: 1, constants, once, actions, cost: 1, generated });
    }
    let dims = merge(shape, &mut operands);
    for operand in &mut operands {
        let whole = crate::verify::contiguous(&dims);
        operand.contiguous = operand.at.is_some() && operand.strides == whole;
    }
    let inner = *dims.last().unwrap_or(&1);
    let block = block_dim(&dims, &operands);
    // A first pass with the largest tile counts slots; the second knows the tile.
    let mut tile = MAX_TILE;
    let mut built = build(&dims, &operands, &registers, outputs, tile, block.is_some());
    let width = registers.iter().map(|r| r.dtype.size()).max().unwrap_or(1);
    while tile > MIN_TILE && built.slots * tile * width > BUDGET {
        tile /= 2;
        built = build(&dims, &operands, &registers, outputs, tile, block.is_some());
    }
    if built.slots * tile * width > REGISTERS {
        bail!("{} values are live at once, more than one fused step can hold", built.slots);
    }
    let stride = tile * width;
    let Builder { mut constants, mut once, mut actions, .. } = built;
    constants.iter_mut().for_each(|c| c.1 *= stride);
    once.iter_mut().for_each(|o| o.1 *= stride);
    actions.iter_mut().for_each(|a| scale(a, stride));
    let (shape, tile) = match block {
        Some(row_dim) => {
            let side = [32, 16, 8, 4].into_iter().find(|s| s * s <= tile).unwrap_or(4);
            (Shape::Block { row_dim, side }, side * side)
        }
        None => linear(total, &dims, inner, tile),
    };
    let cost = actions.len() + operands.len();
    let generated = Generated::new(total, &dims, &operands, &registers, outputs, generate);
    Ok(Fused { count: total, dims, operands, shape, tile, constants, once, actions, cost, generated })
}

fn scale(action: &mut Action, stride: usize) {
    let fix = |place: &mut Place| {
        if let Place::Slot(slot) = place {
            *slot *= stride;
        }
    };
    match action {
        Action::Load(_, slot) => *slot *= stride,
        Action::Compute { inputs, out, .. } => {
            inputs.iter_mut().for_each(fix);
            fix(out);
        }
        Action::RefuseZero { divisor, .. } => fix(divisor),
        Action::Store(place, _) => fix(place),
    }
}

/// Drops dims of size one and merges neighbours that every operand walks as one.
pub(crate) fn merge(shape: &[usize], operands: &mut [Operand]) -> Vec<usize> {
    let mut dims: Vec<usize> = Vec::new();
    let mut strides: Vec<Vec<isize>> = vec![Vec::new(); operands.len()];
    for (d, &size) in shape.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let joins = !dims.is_empty()
            && operands
                .iter()
                .zip(&strides)
                .all(|(o, s)| s.last() == Some(&o.strides[d].saturating_mul(size as isize)));
        for (operand, strides) in operands.iter().zip(&mut strides) {
            if joins {
                strides.pop();
            }
            strides.push(operand.strides[d]);
        }
        match dims.last_mut() {
            Some(last) if joins => *last *= size,
            _ => dims.push(size),
        }
    }
    if dims.is_empty() {
        dims.push(1);
        strides.iter_mut().for_each(|s| s.push(0));
        // One element: any stride will do, and 1 allows direct access.
        for (operand, s) in operands.iter().zip(&mut strides) {
            s[0] = isize::from(operand.at.is_some());
        }
    }
    for (operand, strides) in operands.iter_mut().zip(strides) {
        operand.strides = strides;
    }
    dims
}

/// The dim to pair with the innermost when some view is contiguous along it instead.
fn block_dim(dims: &[usize], operands: &[Operand]) -> Option<usize> {
    let inner = dims.len() - 1;
    if dims[inner] < 8 {
        return None;
    }
    operands.iter().filter(|o| o.at.is_some() && o.strides[inner].abs() > 1).find_map(|o| {
        let by_stride = (0..inner).filter(|d| dims[*d] >= 8 && o.strides[*d].abs() == 1);
        by_stride.max_by_key(|d| dims[*d])
    })
}

fn linear(total: usize, dims: &[usize], inner: usize, tile: usize) -> (Shape, usize) {
    if inner * 2 > tile {
        // Tiles of equal length (within rounding to cache lines) inside each row.
        let pieces = inner.div_ceil(tile);
        let tile = inner.div_ceil(pieces).next_multiple_of(16).min(tile);
        return (Shape::Linear { rows: total / inner.max(1), length: inner }, tile);
    }
    (Shape::Linear { rows: 1, length: total }, period(dims, tile))
}

/// The largest multiple of whole inner dims within a tile, so that broadcast rows repeat from tile to tile.
fn period(dims: &[usize], tile: usize) -> usize {
    let mut product = 1;
    for size in dims.iter().rev() {
        if product * size > tile {
            break;
        }
        product *= size;
    }
    tile / product.max(1) * product.max(1)
}

/// Gives registers places and actions an order.
#[derive(Default)]
struct Builder<'a> {
    dims: &'a [usize],
    operands: &'a [Operand],
    registers: &'a [Register],
    /// Operand and register of each output.
    outputs: &'a [(usize, usize)],
    tile: usize,
    block: bool,
    /// Tiles lie inside rows of the innermost dim.
    rows: bool,
    /// How often each register is still needed.
    uses: Vec<usize>,
    places: Vec<Option<Place>>,
    stored: Vec<bool>,
    free: Vec<usize>,
    slots: usize,
    constants: Vec<(Value8, usize)>,
    once: Vec<(usize, usize)>,
    actions: Vec<Action>,
}

fn build<'a>(
    dims: &'a [usize],
    operands: &'a [Operand],
    registers: &'a [Register],
    outputs: &'a [(usize, usize)],
    tile: usize,
    block: bool,
) -> Builder<'a> {
    let mut uses = vec![0usize; registers.len()];
    for register in registers {
        if let Source::Compute { inputs, .. } = &register.source {
            inputs.iter().for_each(|i| uses[*i] += 1);
        }
    }
    outputs.iter().for_each(|(_, r)| uses[*r] += 1);
    let mut builder = Builder {
        dims,
        operands,
        registers,
        outputs,
        tile,
        block,
        rows: !block && dims[dims.len() - 1] * 2 > tile,
        uses,
        places: vec![None; registers.len()],
        stored: vec![false; outputs.len()],
        ..Builder::default()
    };
    for r in 0..registers.len() {
        builder.compute(r);
    }
    builder.store_rest();
    builder
}

impl Builder<'_> {
    /// Whether tiles of an operand can be used where they lie.
    fn direct(&self, o: usize) -> bool {
        let operand = &self.operands[o];
        let inner = self.dims.len() - 1;
        operand.at.is_some() && !self.block && (operand.contiguous || (self.rows && operand.strides[inner] == 1))
    }

    /// Whether an output replaces an input, so that it must not be written before the input's last use.
    fn replaces(&self, o: usize) -> bool {
        let out = self.operands[o].at;
        self.registers.iter().any(|r| matches!(r.source, Source::Input(i) if self.operands[i].at == out))
    }

    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| self.fresh())
    }

    /// A slot that no other register uses in this tile: constants are filled before the first action.
    fn fresh(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn compute(&mut self, r: usize) {
        let registers = self.registers;
        let Source::Compute { function, inputs, divides, .. } = &registers[r].source else { return };
        // An unused division must still be refused when its divisor is zero.
        if self.uses[r] == 0 && divides.is_none() {
            return;
        }
        let resolved: Vec<Place> = inputs.iter().filter_map(|i| self.place(*i)).collect();
        if let Some(name) = divides {
            let dtype = registers[inputs[1]].dtype;
            self.actions.push(Action::RefuseZero { dtype, divisor: resolved[1], name });
        }
        let target = self.outputs.iter().position(|(o, reg)| *reg == r && self.direct(*o) && !self.replaces(*o));
        let out = match target {
            Some(t) => {
                self.stored[t] = true;
                Place::Direct(self.outputs[t].0)
            }
            None => Place::Slot(self.take()),
        };
        let mut padded = [out; 3];
        padded[..resolved.len()].copy_from_slice(&resolved);
        self.actions.push(Action::Compute { function: *function, inputs: padded, arity: resolved.len(), out });
        self.places[r] = Some(out);
        inputs.iter().for_each(|i| self.release(*i));
        for (t, (o, reg)) in self.outputs.iter().enumerate() {
            if *reg == r && !self.stored[t] && !self.replaces(*o) {
                self.actions.push(Action::Store(out, *o));
                self.stored[t] = true;
                self.uses[r] -= 1;
            }
        }
        if let (Place::Slot(slot), 0) = (out, self.uses[r]) {
            self.free.push(slot);
        }
    }

    /// Outputs that replace inputs, or are inputs.
    fn store_rest(&mut self) {
        for (t, (o, reg)) in self.outputs.iter().enumerate() {
            if self.stored[t] {
                continue;
            }
            if let Some(from) = self.place(*reg) {
                self.actions.push(Action::Store(from, *o));
            }
        }
    }

    /// The place of a register; inputs and constants get their place at the first use.
    fn place(&mut self, r: usize) -> Option<Place> {
        if self.places[r].is_some() {
            return self.places[r];
        }
        let place = match self.registers[r].source {
            Source::Constant(value) => {
                let slot = self.fresh();
                self.constants.push((value, slot));
                Place::Slot(slot)
            }
            Source::Input(o) if self.direct(o) => Place::Direct(o),
            Source::Input(o) if self.invariant(&self.operands[o]) => {
                let slot = self.fresh();
                self.once.push((o, slot));
                Place::Slot(slot)
            }
            Source::Input(o) => {
                let slot = self.take();
                self.actions.push(Action::Load(o, slot));
                Place::Slot(slot)
            }
            Source::Compute { .. } | Source::Fold(..) => return None,
        };
        self.places[r] = Some(place);
        self.places[r]
    }

    fn release(&mut self, r: usize) {
        self.uses[r] -= 1;
        let kept = match self.registers[r].source {
            Source::Constant(_) => true,
            Source::Input(o) => self.once.iter().any(|(once, _)| *once == o),
            Source::Compute { .. } | Source::Fold(..) => false,
        };
        if let (0, false, Some(Place::Slot(slot))) = (self.uses[r], kept, self.places[r]) {
            self.free.push(slot);
        }
    }

    /// Whether every tile sees the same values of an operand.
    fn invariant(&self, operand: &Operand) -> bool {
        let varying = operand.strides.iter().position(|s| *s != 0);
        let Some(first) = varying else { return true };
        if self.rows || self.block {
            return false;
        }
        let repeat: usize = self.dims[first..].iter().product();
        repeat <= self.tile && period(self.dims, self.tile).is_multiple_of(repeat)
    }
}
