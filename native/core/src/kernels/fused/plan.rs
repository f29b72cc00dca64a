//! From registers to actions: merges dims, chooses tiles, gives registers their slots.

use super::{Action, Fused, Operand, Place, Register, Shape, Source, Value8, BUDGET, MAX_TILE, MIN_TILE, REGISTERS};
use crate::{bail, Result};

pub(super) fn plan(
    total: usize,
    shape: &[usize],
    mut operands: Vec<Operand>,
    registers: Vec<Register>,
    outputs: &[(usize, usize)],
) -> Result<Fused> {
    let dims = merge(shape, &mut operands);
    for operand in &mut operands {
        let whole = crate::verify::contiguous(&dims);
        operand.contiguous = operand.at.is_some() && operand.strides == whole;
    }
    let inner = *dims.last().unwrap_or(&1);
    let block = block_dim(&dims, &operands);
    // A first pass with the largest tile counts slots; the second knows the tile.
    let mut tile = MAX_TILE;
    let mut built = build(&dims, &operands, &registers, outputs, tile, block);
    let width = registers.iter().map(|r| r.dtype.size()).max().unwrap_or(1);
    while tile > MIN_TILE && built.slots * tile * width > BUDGET {
        tile /= 2;
        built = build(&dims, &operands, &registers, outputs, tile, block);
    }
    if built.slots * tile * width > REGISTERS {
        bail!("{} values are live at once, more than one fused step can hold", built.slots);
    }
    let stride = tile * width;
    built.constants.iter_mut().for_each(|c| c.1 *= stride);
    let mut once = built.once;
    once.iter_mut().for_each(|o| o.1 *= stride);
    built.actions.iter_mut().for_each(|a| scale(a, stride));
    let (shape, tile) = match block {
        Some(row_dim) => {
            let side = [32, 16, 8, 4].into_iter().find(|s| s * s <= tile).unwrap_or(4);
            (Shape::Block { row_dim, side }, side * side)
        }
        None => linear(total, &dims, inner, tile),
    };
    let cost = built.actions.len() + operands.len();
    Ok(Fused { count: total, dims, operands, shape, tile, constants: built.constants, once, actions: built.actions, cost })
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
fn merge(shape: &[usize], operands: &mut [Operand]) -> Vec<usize> {
    let mut dims: Vec<usize> = Vec::new();
    let mut strides: Vec<Vec<isize>> = vec![Vec::new(); operands.len()];
    for (d, &size) in shape.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let joins = !dims.is_empty()
            && operands.iter().zip(&strides).all(|(o, s)| s.last() == Some(&o.strides[d].saturating_mul(size as isize)));
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

struct Built {
    slots: usize,
    constants: Vec<(Value8, usize)>,
    once: Vec<(usize, usize)>,
    actions: Vec<Action>,
}

struct Slots {
    free: Vec<usize>,
    used: usize,
}

impl Slots {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }
}

fn build(
    dims: &[usize],
    operands: &[Operand],
    registers: &[Register],
    outputs: &[(usize, usize)],
    tile: usize,
    block: Option<usize>,
) -> Built {
    let rows = block.is_none() && dims[dims.len() - 1] * 2 > tile;
    let inner = dims.len() - 1;
    let direct = |o: usize| {
        let operand = &operands[o];
        operand.at.is_some() && block.is_none() && (operand.contiguous || (rows && operand.strides[inner] == 1))
    };
    let aliased = |o: usize| {
        let out = operands[o].at;
        registers.iter().any(|r| matches!(r.source, Source::Input(i) if operands[i].at == out))
    };
    // How often each register is still needed; outputs written at the end keep theirs.
    let mut uses = vec![0usize; registers.len()];
    for register in registers {
        if let Source::Compute { inputs, .. } = &register.source {
            inputs.iter().for_each(|i| uses[*i] += 1);
        }
    }
    outputs.iter().for_each(|(_, r)| uses[*r] += 1);

    let mut slots = Slots { free: Vec::new(), used: 0 };
    let mut built = Built { slots: 0, constants: Vec::new(), once: Vec::new(), actions: Vec::new() };
    let mut places: Vec<Option<Place>> = vec![None; registers.len()];
    let mut stored = vec![false; outputs.len()];
    for r in 0..registers.len() {
        let Source::Compute { function, inputs, divides } = &registers[r].source else { continue };
        if uses[r] == 0 {
            // Kept only for its error: an unused division must still be refused.
            if divides.is_none() {
                continue;
            }
        }
        for &i in inputs {
            place(i, dims, operands, registers, tile, rows, block, &direct, &mut places, &mut slots, &mut built);
        }
        let resolved: Vec<Place> = inputs.iter().filter_map(|i| places[*i]).collect();
        if let Some(name) = divides {
            let dtype = registers[inputs[1]].dtype;
            built.actions.push(Action::RefuseZero { dtype, divisor: resolved[1], name });
        }
        let target = outputs.iter().position(|(o, reg)| *reg == r && direct(*o) && !aliased(*o));
        let out = match target {
            Some(t) => {
                stored[t] = true;
                Place::Direct(outputs[t].0)
            }
            None => Place::Slot(slots.take()),
        };
        let mut padded = [out; 3];
        padded[..resolved.len()].copy_from_slice(&resolved);
        built.actions.push(Action::Compute { function: *function, inputs: padded, arity: resolved.len(), out });
        places[r] = Some(out);
        for &i in inputs {
            release(i, registers, &mut uses, &places, &built, &mut slots);
        }
        for (t, (o, reg)) in outputs.iter().enumerate() {
            if *reg == r && !stored[t] && !aliased(*o) {
                built.actions.push(Action::Store(out, *o));
                stored[t] = true;
                uses[r] -= 1;
            }
        }
        if let Some(slot) = target.is_none().then_some(out).filter(|_| uses[r] == 0) {
            if let Place::Slot(slot) = slot {
                slots.free.push(slot);
            }
        }
    }
    for (t, (o, reg)) in outputs.iter().enumerate() {
        if !stored[t] {
            place(*reg, dims, operands, registers, tile, rows, block, &direct, &mut places, &mut slots, &mut built);
            if let Some(from) = places[*reg] {
                built.actions.push(Action::Store(from, *o));
            }
        }
    }
    built.slots = slots.used;
    built
}

/// Makes sure that an input or constant has a place.
#[allow(clippy::too_many_arguments)]
fn place(
    r: usize,
    dims: &[usize],
    operands: &[Operand],
    registers: &[Register],
    tile: usize,
    rows: bool,
    block: Option<usize>,
    direct: &dyn Fn(usize) -> bool,
    places: &mut [Option<Place>],
    slots: &mut Slots,
    built: &mut Built,
) {
    if places[r].is_some() {
        return;
    }
    places[r] = Some(match &registers[r].source {
        Source::Constant(value) => {
            let slot = fresh(slots);
            built.constants.push((*value, slot));
            Place::Slot(slot)
        }
        Source::Input(o) if direct(*o) => Place::Direct(*o),
        Source::Input(o) if invariant(dims, &operands[*o], tile, rows, block) => {
            let slot = fresh(slots);
            built.once.push((*o, slot));
            Place::Slot(slot)
        }
        Source::Input(o) => {
            let slot = slots.take();
            built.actions.push(Action::Load(*o, slot));
            Place::Slot(slot)
        }
        Source::Compute { .. } => return,
    });
}

/// A slot that no other register has used in this tile: constants are filled before the first action.
fn fresh(slots: &mut Slots) -> usize {
    slots.used += 1;
    slots.used - 1
}

fn release(
    r: usize,
    registers: &[Register],
    uses: &mut [usize],
    places: &[Option<Place>],
    built: &Built,
    slots: &mut Slots,
) {
    uses[r] -= 1;
    let kept = match registers[r].source {
        Source::Constant(_) => true,
        Source::Input(o) => built.once.iter().any(|(once, _)| *once == o),
        Source::Compute { .. } => false,
    };
    if let (0, false, Some(Place::Slot(slot))) = (uses[r], kept, places[r]) {
        slots.free.push(slot);
    }
}

/// Whether every tile sees the same values of an operand.
fn invariant(dims: &[usize], operand: &Operand, tile: usize, rows: bool, block: Option<usize>) -> bool {
    let varying = operand.strides.iter().position(|s| *s != 0);
    let Some(first) = varying else { return true };
    if rows || block.is_some() {
        return false;
    }
    let repeat: usize = dims[first..].iter().product();
    repeat <= tile && period(dims, tile) % repeat == 0
}
