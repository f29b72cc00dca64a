//! One walk over rows: elementwise instructions on views that are along a row or constant in it. Generated code and an
//! interpreter of tiles run the same description and give the same bits.

use std::mem::MaybeUninit;

use super::group::Group;
use crate::calls::ReduceOp;
use crate::dtype::{for_size, read_bits, DType};
use crate::generate::{Description, Generate, Instruction, Kernel, Prepared, View, HEAD};
use crate::isa::Isa;
use crate::kernels::fold::{start, LANES};
use crate::kernels::fused::generated::OPERANDS;
use crate::kernels::fused::ops::{find_binary, Loop};
use crate::kernels::fused::plan::REGISTERS;
use crate::kernels::fused::registers::{Source, Value8};
use crate::kernels::fused::tile::fill;
use crate::{bail, Result};

/// Most views of a pass.
pub(super) const VIEWS: usize = 128;
const TILE: usize = 1024;

/// Where a view of a pass lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Of the group.
    Operand(usize),
    /// The value of a register for each row.
    Single(usize),
    /// Of the pass's fold `i`: the lanes, or columns, that elements are folded into.
    Lanes(usize),
    /// What an earlier pass has kept of a register.
    Kept(usize),
}

/// First address of a view, and bytes from row to row.
pub(super) type Address = (usize, isize);

/// Collects what a pass computes.
pub(super) struct Builder<'a> {
    group: &'a Group,
    views: Vec<View>,
    pub places: Vec<Place>,
    along: Vec<isize>,
    registers: Vec<(Instruction, DType)>,
    functions: Vec<Option<Loop>>,
    outputs: Vec<(usize, usize)>,
    /// The pass's number of each register of the group.
    pub known: Vec<Option<usize>>,
    /// Registers of the group that are folds and end with this pass.
    pub folds: Vec<usize>,
    /// Whether lanes belong to one row, so that they may stay in registers.
    holds: bool,
}

impl<'a> Builder<'a> {
    pub fn new(group: &'a Group, holds: bool) -> Builder<'a> {
        Builder {
            group,
            holds,
            views: Vec::new(),
            places: Vec::new(),
            along: Vec::new(),
            registers: Vec::new(),
            functions: Vec::new(),
            outputs: Vec::new(),
            known: vec![None; group.registers.len()],
            folds: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    fn push(&mut self, instruction: Instruction, dtype: DType, function: Option<Loop>) -> usize {
        self.registers.push((instruction, dtype));
        self.functions.push(function);
        self.registers.len() - 1
    }

    fn view(&mut self, place: Place, dtype: DType, along: isize) -> usize {
        if let Some(known) = self.places.iter().position(|p| *p == place) {
            return known;
        }
        self.views.push(View { dtype, along: along != 0, streamed: false, fetched: 0, lanes: None });
        self.places.push(place);
        self.along.push(along);
        self.views.len() - 1
    }

    /// Reads a register of the group from where it lies.
    pub fn read(&mut self, register: usize, place: Place, along: isize) -> usize {
        let dtype = self.group.registers[register].dtype;
        let view = self.view(place, dtype, along);
        let value = self.push(Instruction::Input(view), dtype, None);
        self.known[register] = Some(value);
        value
    }

    /// Computes a constant, or a register whose inputs are known.
    pub fn compute(&mut self, register: usize) -> usize {
        let group = self.group;
        let dtype = group.registers[register].dtype;
        let value = match &group.registers[register].source {
            Source::Constant(value) => self.push(Instruction::Constant(value.bits), dtype, None),
            Source::Compute { name, function, inputs, .. } => {
                let known = inputs.iter().filter_map(|i| self.known[*i]).collect();
                self.push(Instruction::Compute(name.clone(), known), dtype, Some(*function))
            }
            Source::Input(_) | Source::Fold(..) => unreachable!("inputs are read and folds are folded elsewhere"),
        };
        self.known[register] = Some(value);
        value
    }

    /// Makes a register of the group known, with all it needs; `kept` says where some are already.
    pub fn value(&mut self, register: usize, kept: &mut dyn FnMut(usize) -> Option<Place>) -> usize {
        if let Some(known) = self.known[register] {
            return known;
        }
        let group = self.group;
        match &group.registers[register].source {
            Source::Constant(_) => self.compute(register),
            _ if group.natures[register].single => self.read(register, Place::Single(register), 0),
            Source::Input(o) => self.read(register, Place::Operand(*o), group.along[*o]),
            Source::Compute { inputs, .. } => {
                if let Some(place) = kept(register) {
                    return self.read(register, place, 1);
                }
                for input in inputs {
                    self.value(*input, kept);
                }
                self.compute(register)
            }
            Source::Fold(..) => unreachable!("a fold has one value per row"),
        }
    }

    /// Folds a register of the pass into the lanes of a fold of the group.
    pub fn fold(&mut self, fold: usize, op: ReduceOp, value: usize) -> Result<()> {
        let dtype = self.group.registers[fold].dtype;
        let view = self.view(Place::Lanes(self.folds.len()), dtype, 1);
        if self.holds && matches!(dtype, DType::F32 | DType::I32 | DType::U32) {
            let mut bits = 0u32;
            unsafe { start((op, dtype), (&raw mut bits).cast(), 1) };
            self.views[view].lanes = Some(u64::from(bits));
        }
        let held = self.push(Instruction::Input(view), dtype, None);
        let name = match op {
            ReduceOp::Sum => "add",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::And => "and",
            ReduceOp::Or => "or",
        };
        let Some(function) = find_binary(name, dtype) else { bail!("there is no {name} of {}", dtype.name()) };
        let sum = self.push(Instruction::Compute(name.to_string(), vec![held, value]), dtype, Some(function));
        self.outputs.push((view, sum));
        self.folds.push(fold);
        Ok(())
    }

    /// Writes a register of the pass.
    pub fn write(&mut self, place: Place, dtype: DType, along: isize, value: usize) {
        // An output that takes an input's place is a view of its own.
        self.views.push(View { dtype, along: along != 0, streamed: false, fetched: 0, lanes: None });
        self.places.push(place);
        self.along.push(along);
        self.outputs.push((self.views.len() - 1, value));
    }

    /// Marks outputs that are written past the caches.
    pub fn stream(&mut self, streams: impl Fn(usize) -> bool) {
        for (view, _) in &self.outputs {
            if let Place::Operand(o) = self.places[*view] {
                self.views[*view].streamed = self.along[*view] == 1 && streams(o);
            }
        }
    }

    /// Fetches what lies so many bytes behind operands while these are read.
    pub fn fetch(&mut self, ahead: impl Fn(usize) -> usize) {
        for (view, place) in self.views.iter_mut().zip(&self.places) {
            if let (Place::Operand(o), true) = (place, view.along) {
                view.fetched = ahead(*o);
            }
        }
    }

    pub fn finish(self, generate: Generate) -> Result<Pass> {
        // Tiles of rows begin at the first lane.
        let unit = if self.holds { LANES } else { 16 };
        let tile = (REGISTERS / 8 / self.registers.len().max(1) / unit * unit).min(TILE);
        if tile == 0 || self.views.len() > VIEWS {
            let (values, operands) = (self.registers.len(), self.views.len());
            bail!("{values} values and {operands} operands are more than one folded group can hold");
        }
        let plain = self.along.iter().all(|a| *a == 0 || *a == 1) && self.views.len() <= OPERANDS;
        let written = self.outputs.iter().all(|(view, _)| self.views[*view].along);
        // All folds of a pass stay in registers, or none.
        let mut views = self.views;
        if views.iter().filter(|v| v.lanes.is_some()).count() < self.folds.len() {
            views.iter_mut().for_each(|v| v.lanes = None);
        }
        let description = Description { views, registers: self.registers, outputs: self.outputs };
        let (prepared, described) = match generate {
            Generate::On if plain && written => (Some(Prepared::new(description)), None),
            _ => (None, Some(description)),
        };
        let Builder { places, along, functions, folds, holds: by_rows, .. } = self;
        Ok(Pass { prepared, described, places, along, functions, folds, by_rows, tile })
    }
}

pub(super) struct Pass {
    prepared: Option<Prepared>,
    /// The description, where no code is generated.
    described: Option<Description>,
    pub places: Vec<Place>,
    /// Elements from neighbour to neighbour in a row, of each view.
    pub along: Vec<isize>,
    functions: Vec<Option<Loop>>,
    pub folds: Vec<usize>,
    /// Rows are folded, each into lanes of its own.
    by_rows: bool,
    tile: usize,
}

#[repr(align(64))]
struct Registers(MaybeUninit<[u8; REGISTERS]>);

impl Pass {
    pub fn description(&self) -> &Description {
        match (&self.prepared, &self.described) {
            (Some(prepared), _) => &prepared.description,
            (_, Some(description)) => description,
            _ => unreachable!("a pass is prepared or described"),
        }
    }

    /// The generated kernel for these views, if there is one.
    pub fn kernel(&self, isa: Isa, at: &[Address]) -> Option<&Kernel> {
        // Streaming stores need whole cache lines.
        let lines = |(view, (at, by)): (&View, &Address)| !view.streamed || (at | *by as usize).is_multiple_of(64);
        let prepared = self.prepared.as_ref().filter(|p| p.description.views.iter().zip(at).all(lines))?;
        prepared.kernel(isa)
    }

    /// Walks `rows` rows of `columns` elements.
    pub unsafe fn call(&self, isa: Isa, (rows, columns): (usize, usize), at: &[Address]) {
        if rows * columns == 0 {
            return;
        }
        match self.kernel(isa, at) {
            None => self.interpret(isa, (rows, columns), at),
            Some(kernel) => {
                let mut arguments = [0u64; HEAD + 2 * OPERANDS];
                (arguments[0], arguments[1]) = (rows as u64, columns as u64);
                for (i, (at, by)) in at.iter().enumerate() {
                    arguments[HEAD + 2 * i] = *at as u64;
                    arguments[HEAD + 2 * i + 1] = *by as u64;
                }
                kernel.call(&mut arguments);
            }
        }
    }

    unsafe fn interpret(&self, isa: Isa, (rows, columns): (usize, usize), at: &[Address]) {
        let mut memory = Registers(MaybeUninit::uninit());
        let base = memory.0.as_mut_ptr().cast::<u8>();
        let description = self.description();
        let mut place = [std::ptr::null_mut::<u8>(); REGISTERS / 8 / 16];
        let stored = |register: usize| description.outputs.iter().any(|(_, r)| *r == register);
        for (i, (instruction, dtype)) in description.registers.iter().enumerate() {
            place[i] = base.add(i * self.tile * 8);
            if let Instruction::Constant(bits) = instruction {
                fill(Value8 { bits: *bits, size: dtype.size() }, place[i], self.tile.min(columns));
            }
        }
        for row in 0..rows {
            for start in (0..columns).step_by(self.tile) {
                let n = self.tile.min(columns - start);
                let address = |view: usize| {
                    let step = self.along[view] * description.views[view].dtype.size() as isize;
                    let start = if self.lanes(view) { 0 } else { start as isize };
                    (at[view].0 as *mut u8).wrapping_offset(row as isize * at[view].1 + start * step)
                };
                for (i, (instruction, dtype)) in description.registers.iter().enumerate() {
                    match instruction {
                        // Nothing is written before all is computed, so inputs can be used where they lie.
                        Instruction::Input(view) if self.along[*view] == 1 && !stored(i) => place[i] = address(*view),
                        Instruction::Input(view) => spread(*dtype, address(*view), self.along[*view], place[i], n),
                        Instruction::Constant(_) => {}
                        Instruction::Compute(_, inputs) => self.compute(isa, i, inputs, &place, n),
                    }
                }
                for (view, register) in description.outputs.iter().filter(|(view, _)| !self.lanes(*view)) {
                    gather(description.views[*view].dtype, place[*register], 1, address(*view), self.along[*view], n);
                }
            }
        }
    }

    /// Whether a view is the lanes of a row.
    fn lanes(&self, view: usize) -> bool {
        self.by_rows && matches!(self.places[view], Place::Lanes(_))
    }

    unsafe fn compute(&self, isa: Isa, i: usize, inputs: &[usize], place: &[*mut u8], n: usize) {
        let Some(function) = self.functions[i] else { return };
        let mut p = [std::ptr::null::<u8>(); 3];
        inputs.iter().enumerate().for_each(|(k, i)| p[k] = place[*i]);
        let registers = &self.description().registers;
        if !matches!(registers[inputs[0]].0, Instruction::Input(view) if self.lanes(view)) {
            return function(isa, p[0], p[1], p[2], place[i], n);
        }
        let size = registers[i].1.size();
        for first in (0..n).step_by(LANES) {
            let count = LANES.min(n - first);
            // A function's result must not lie on its operands.
            function(isa, p[0], p[1].add(first * size), p[2], place[i], count);
            std::ptr::copy_nonoverlapping(place[i], place[inputs[0]], count * size);
        }
    }
}

unsafe fn spread(dtype: DType, from: *const u8, stride: isize, to: *mut u8, n: usize) {
    if stride != 0 {
        return gather(dtype, from, stride, to, 1, n);
    }
    fill(Value8 { bits: read_bits(dtype.size(), from), size: dtype.size() }, to, n);
}

/// Copies `n` elements between strided places.
pub(super) unsafe fn gather(dtype: DType, from: *const u8, by: isize, to: *mut u8, step: isize, n: usize) {
    let size = dtype.size();
    if by == 1 && step == 1 {
        return std::ptr::copy(from, to, n * size);
    }
    for i in 0..n as isize {
        let (from, to) = (from.offset(i * by * size as isize), to.offset(i * step * size as isize));
        for_size!(size, T => *to.cast::<T>() = *from.cast::<T>())
    }
}
