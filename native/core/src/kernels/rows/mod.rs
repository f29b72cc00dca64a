//! Groups whose values are folded along rows: elementwise passes, each folded into lanes, and between them scalar code on
//! the values of the rows. Several rows go through all passes together, so that they stay in L1.

pub mod columns;
mod group;
mod pass;

use std::mem::MaybeUninit;

use super::fold::{finish, pair, pairwise, start, LANES, RUN};
use super::fused::generated::{exceeds, streams};
use super::fused::registers::{Operand, Source, Value8};
use super::fused::tile::fill;
use super::reduce::{PIECE, TASK};
use crate::calls::{FusedJson, ReduceOp};
use crate::dtype::{for_number, read_bits, write_bits, DType, Element};
use crate::generate::Generate;
use crate::reader::kernels;
use crate::reader::Reader;
use crate::sizes::offset_of;
use crate::step::{Kernel, Run};
use crate::{bail, Result};
use group::{read, Group};
use pass::{gather, Address, Builder, Pass, Place, VIEWS};

kernels! {
    fusedRows(reader) = FusedRows::new;
    fusedColumns(reader) = columns::FusedColumns::new;
}

/// Rows that go through the passes together, at most.
const ROWS: usize = 16;
/// Bytes of one worker, on its stack.
const SCRATCH: usize = 160 << 10;
/// What rows keep from pass to pass should fit L1, and must fit this.
const KEPT: usize = 32 << 10;
const MOST_KEPT: usize = 64 << 10;
/// Values that take fewer steps than this are computed again in a later pass.
const WORTH: usize = 4;

pub struct FusedRows {
    group: Group,
    /// Of each level, registers with one value per row, then the pass that ends in the folds of the next level.
    levels: Vec<(Vec<usize>, Option<Pass>)>,
    /// The place of a register's values among the values of the rows.
    singles: Vec<usize>,
    /// Registers that are kept from pass to pass.
    kept: Vec<usize>,
    /// Rows that go through the passes together.
    block: usize,
    /// Numbers along a row, by operand.
    ramps: Vec<(usize, Vec<u64>)>,
    layout: Layout,
}

/// Where things lie in a worker's scratch.
#[derive(Default)]
struct Layout {
    lanes: usize,
    /// Results of the runs of rows that are longer than one.
    partials: usize,
    kept: usize,
}

impl FusedRows {
    pub fn new(json: FusedJson, reader: &Reader) -> Result<FusedRows> {
        let group = read(&json, json.shape.len().saturating_sub(1))?;
        if group.length > PIECE {
            bail!("rows of {} elements are longer than {PIECE}", group.length);
        }
        let plan = Plan::new(&group)?;
        let (kept, block, layout) = (plan.kept.clone(), plan.block, plan.layout()?);
        let passes = plan.finish(reader.generate)?;
        let mut levels: Vec<(Vec<usize>, Option<Pass>)> = Vec::new();
        let mut singles = vec![0; group.registers.len()];
        let mut count = 0;
        for (level, pass) in passes.into_iter().enumerate() {
            let of_level = |r: &usize| group.natures[*r].single && group.natures[*r].level == level;
            let registers: Vec<usize> = (0..group.registers.len()).filter(of_level).collect();
            for register in &registers {
                singles[*register] = count;
                count += 1;
            }
            levels.push((registers, pass));
        }
        let ramps = ramps(&group);
        Ok(FusedRows { group, levels, singles, kept, block, ramps, layout })
    }
}

impl Kernel for FusedRows {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let group = &self.group;
        let rows = *group.dims.last().unwrap_or(&1);
        if group.rows == 0 {
            return Ok(());
        }
        let outer: usize = group.dims[..group.dims.len() - 1].iter().product();
        let work = group.length.max(1) * group.registers.len();
        let per_task = (TASK * 4 / work).max(1).next_multiple_of(self.block);
        let parts = rows.div_ceil(per_task);
        run.pool.run(outer * parts, usize::MAX, |_, task| {
            let first = task % parts * per_task;
            unsafe { self.part(run, task / parts, first, rows.min(first + per_task)) };
        });
        Ok(())
    }
}

impl FusedRows {
    /// Rows `first..last` of the innermost dim of rows.
    unsafe fn part(&self, run: &Run, outer: usize, first: usize, last: usize) {
        let mut scratch = Scratch(MaybeUninit::uninit());
        let scratch = scratch.0.as_mut_ptr().cast::<u8>();
        for row in (first..last).step_by(self.block) {
            let block = Block { step: self, run, outer, row, rows: self.block.min(last - row), scratch };
            block.run();
        }
    }
}

fn ramps(group: &Group) -> Vec<(usize, Vec<u64>)> {
    let counted = group.operands.iter().enumerate().filter(|(_, o)| o.at.is_none());
    counted
        .map(|(k, operand)| {
            let mut memory = vec![0u64; group.length];
            for_number!(operand.dtype, T => {
                let to: *mut T = memory.as_mut_ptr().cast();
                (0..group.length).for_each(|i| unsafe { *to.add(i) = T::from_index(i) });
            });
            (k, memory)
        })
        .collect()
}

/// What each pass computes, and what is kept from pass to pass.
struct Plan<'a> {
    group: &'a Group,
    passes: Vec<Builder<'a>>,
    kept: Vec<usize>,
    block: usize,
}

impl<'a> Plan<'a> {
    fn new(group: &'a Group) -> Result<Plan<'a>> {
        let deepest = group.natures.iter().map(|n| n.level).max().unwrap_or(0);
        let passes = (0..=deepest).map(|_| Builder::new(group, true)).collect();
        let mut plan = Plan { group, passes, kept: Vec::new(), block: ROWS };
        for level in 0..=deepest {
            for (fold, register) in group.registers.iter().enumerate() {
                let Source::Fold(op, from) = register.source else { continue };
                if group.natures[fold].level == level + 1 {
                    let value = plan.value(level, from);
                    plan.passes[level].fold(fold, op, value)?;
                }
            }
            for output in group.outputs.iter().filter(|o| !o.single) {
                // What takes an input's place must not be written before the last pass.
                let Operand { at, dtype, .. } = group.operands[output.operand];
                let replaces = group.operands.iter().enumerate().any(|(k, o)| k != output.operand && o.at == at);
                if level == if replaces { deepest } else { group.natures[output.register].level } {
                    let value = plan.value(level, output.register);
                    plan.passes[level].write(Place::Operand(output.operand), dtype, group.along[output.operand], value);
                }
            }
        }
        plan.block = (KEPT / plan.kept_bytes().max(1)).clamp(1, ROWS);
        plan.stream();
        Ok(plan)
    }

    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|r| self.group.registers[*r].dtype.size() * self.group.length).sum()
    }

    fn value(&mut self, level: usize, register: usize) -> usize {
        let group = self.group;
        let (before, from_level) = self.passes.split_at_mut(level);
        let kept = &mut self.kept;
        from_level[0].value(register, &mut |r| {
            if let Some(i) = kept.iter().position(|k| *k == r) {
                return Some(Place::Kept(i));
            }
            // An earlier pass may have computed the value.
            let (from, value) = before.iter().enumerate().find_map(|(k, b)| b.known[r].map(|v| (k, v)))?;
            let held: usize = kept.iter().map(|k| group.registers[*k].dtype.size() * group.length).sum();
            let dtype = group.registers[r].dtype;
            if effort(group, r) < WORTH || held + dtype.size() * group.length > MOST_KEPT {
                return None;
            }
            kept.push(r);
            before[from].write(Place::Kept(kept.len() - 1), dtype, 1, value);
            Some(Place::Kept(kept.len() - 1))
        })
    }

    fn stream(&mut self) {
        let group = self.group;
        let past = |k: usize| streams(&group.operands, group.total, k, group.operands[k].strides.iter());
        self.passes.iter_mut().for_each(|p| p.stream(past));
        // While rows from memory are walked again, which is in a cache, memory delivers the next ones.
        if let Some(again) = self.passes.get_mut(1).filter(|_| exceeds(&group.operands, group.total)) {
            let rows = |o: &Operand| self.block as isize * o.strides.last().unwrap_or(&0) * o.dtype.size() as isize;
            again.fetch(|k| usize::try_from(rows(&group.operands[k])).unwrap_or(0));
        }
    }

    fn layout(&self) -> Result<Layout> {
        let group = self.group;
        let singles = group.natures.iter().filter(|n| n.single).count();
        let folds = self.passes.iter().map(|p| p.folds.len()).max().unwrap_or(0);
        let lanes = (singles * self.block * 8).next_multiple_of(64);
        let partials = lanes + folds * self.block * LANES * 8;
        let runs = if group.length > RUN { group.length.div_ceil(RUN) } else { 0 };
        let kept = (partials + folds * self.block * runs * 8).next_multiple_of(64);
        let bytes = kept + self.kept.len() * 64 + self.block * self.kept_bytes();
        if bytes > SCRATCH {
            bail!("{singles} values per row and {folds} folds at once are more than one folded group can hold");
        }
        Ok(Layout { lanes, partials, kept })
    }

    fn finish(self, generate: Generate) -> Result<Vec<Option<Pass>>> {
        let made = self.passes.into_iter().map(|p| if p.is_empty() { Ok(None) } else { p.finish(generate).map(Some) });
        made.collect()
    }
}

/// Steps to compute a register from memory.
fn effort(group: &Group, register: usize) -> usize {
    if group.natures[register].single {
        return 0;
    }
    let Source::Compute { name, inputs, .. } = &group.registers[register].source else { return 0 };
    let steps = match name.as_str() {
        "add" | "sub" | "mul" | "max" | "min" | "neg" | "abs" | "select" | "cast" | "not" | "and" | "or" | "xor" => 1,
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => 1,
        _ => WORTH,
    };
    inputs.iter().fold(steps, |sum: usize, i| sum.saturating_add(effort(group, *i)).min(WORTH))
}

#[repr(align(64))]
struct Scratch(MaybeUninit<[u8; SCRATCH]>);

/// Rows that go through the passes together.
struct Block<'a> {
    step: &'a FusedRows,
    run: &'a Run<'a>,
    /// Place along the outer dims.
    outer: usize,
    row: usize,
    rows: usize,
    scratch: *mut u8,
}

impl Block<'_> {
    unsafe fn run(&self) {
        for (registers, pass) in &self.step.levels {
            registers.iter().for_each(|r| self.single(*r));
            if let Some(pass) = pass {
                self.pass(pass);
            }
        }
        for output in self.step.group.outputs.iter().filter(|o| o.single) {
            let (to, by) = self.operand(output.operand);
            let dtype = self.step.group.operands[output.operand].dtype;
            gather(dtype, self.values(output.register), 1, to, by, self.rows);
        }
    }

    /// Address of an operand's part of the first row, and elements from row to row.
    unsafe fn operand(&self, k: usize) -> (*mut u8, isize) {
        let group = &self.step.group;
        let operand = &group.operands[k];
        let Some(at) = operand.at else {
            let ramp = self.step.ramps.iter().find(|(o, _)| *o == k);
            return (ramp.map_or(std::ptr::null_mut(), |(_, m)| m.as_ptr() as *mut u8), 0);
        };
        let inner = group.dims.len() - 1;
        let offset =
            offset_of(&group.dims[..inner], &operand.strides, self.outer) + self.row as isize * operand.strides[inner];
        (self.run.ptr::<u8>(at).wrapping_offset(offset * operand.dtype.size() as isize), operand.strides[inner])
    }

    fn values(&self, register: usize) -> *mut u8 {
        self.scratch.wrapping_add(self.step.singles[register] * self.step.block * 8)
    }

    /// A register's value for each row.
    unsafe fn single(&self, r: usize) {
        let register = &self.step.group.registers[r];
        let to = self.values(r);
        match &register.source {
            Source::Input(o) => {
                let (from, by) = self.operand(*o);
                gather(register.dtype, from, by, to, 1, self.rows);
            }
            Source::Constant(Value8 { bits, size }) => fill(Value8 { bits: *bits, size: *size }, to, self.rows),
            Source::Compute { function, inputs, .. } => {
                let mut p = [std::ptr::null::<u8>(); 3];
                inputs.iter().enumerate().for_each(|(k, i)| p[k] = self.values(*i));
                function(self.run.isa, p[0], p[1], p[2], to, self.rows);
            }
            // The pass before has written the value.
            Source::Fold(..) => {}
        }
    }

    unsafe fn pass(&self, pass: &Pass) {
        let (length, isa) = (self.step.group.length, self.run.isa);
        let mut at: [Address; VIEWS] = [(0, 0); VIEWS];
        for (view, place) in pass.places.iter().enumerate() {
            at[view] = self.address(pass, *place, view);
        }
        let at = &mut at[..pass.places.len()];
        if pass.folds.is_empty() {
            return pass.call(isa, (self.rows, length), at);
        }
        let pieces = length.div_ceil(RUN).max(1);
        for piece in 0..pieces {
            let n = RUN.min(length - piece * RUN);
            self.folds(pass, at, n, piece);
            for (view, (first, _)) in at.iter_mut().enumerate() {
                if !matches!(pass.places[view], Place::Lanes(_)) {
                    let size = pass.description().views[view].dtype.size() as isize;
                    *first = first.wrapping_add_signed(pass.along[view] * n as isize * size);
                }
            }
        }
        if pieces > 1 {
            for (f, register) in pass.folds.iter().enumerate() {
                let (op, dtype) = self.fold(pass, f);
                let to = self.values(*register);
                let size = dtype.size();
                for row in 0..self.rows {
                    let value = |piece: usize| read_bits(size, self.partials(f, piece).add(row * size));
                    write_bits(size, pairwise(pair(op, dtype), 0, pieces, &value), to.add(row * size));
                }
            }
        }
    }

    /// Folds `n` elements of each row. With a single piece, the results are the values of the rows.
    unsafe fn folds(&self, pass: &Pass, at: &[Address], n: usize, piece: usize) {
        let isa = self.run.isa;
        let kernel = pass.kernel(isa, at);
        let holds = n > 0 && kernel.is_some_and(|k| k.holds);
        if !holds {
            (0..pass.folds.len()).for_each(|f| start(self.fold(pass, f), self.lanes(f), self.rows * LANES));
        }
        // The interpreter folds into lanes itself.
        if holds || kernel.is_none() || n <= LANES {
            pass.call(isa, (self.rows, n), at);
        } else {
            (0..self.rows).for_each(|row| self.long(pass, at, row, n));
        }
        let used = if holds { 16 } else { n.min(LANES) };
        for (f, register) in pass.folds.iter().enumerate() {
            let to = if self.step.group.length > RUN { self.partials(f, piece) } else { self.values(*register) };
            finish(isa, self.fold(pass, f), self.lanes(f), (self.rows, used), to);
        }
    }

    /// One row, walked as rows of as many elements as there are lanes.
    unsafe fn long(&self, pass: &Pass, at: &[Address], row: usize, length: usize) {
        let mut part: [Address; VIEWS] = [(0, 0); VIEWS];
        for (view, place) in pass.places.iter().enumerate() {
            let size = pass.description().views[view].dtype.size() as isize;
            let (first, by) = at[view];
            let step = if matches!(place, Place::Lanes(_)) { 0 } else { pass.along[view] * LANES as isize * size };
            part[view] = (first.wrapping_add_signed(row as isize * by), step);
        }
        let part = &mut part[..pass.places.len()];
        let vectors = length / LANES;
        pass.call(self.run.isa, (vectors, LANES), part);
        if !length.is_multiple_of(LANES) {
            part.iter_mut().for_each(|(first, by)| *first = first.wrapping_add_signed(vectors as isize * *by));
            pass.call(self.run.isa, (1, length % LANES), part);
        }
    }

    unsafe fn address(&self, pass: &Pass, place: Place, view: usize) -> Address {
        let size = pass.description().views[view].dtype.size() as isize;
        match place {
            Place::Operand(k) => {
                let (first, by) = self.operand(k);
                (first as usize, by * size)
            }
            Place::Single(register) => (self.values(register) as usize, size),
            Place::Lanes(f) => (self.lanes(f) as usize, LANES as isize * size),
            Place::Kept(k) => (self.kept(k) as usize, self.step.group.length as isize * size),
        }
    }

    fn lanes(&self, fold: usize) -> *mut u8 {
        self.scratch.wrapping_add(self.step.layout.lanes + fold * self.step.block * LANES * 8)
    }

    /// Results of a run of each row, for fold `f` of a pass.
    fn partials(&self, f: usize, run: usize) -> *mut u8 {
        let runs = self.step.group.length.div_ceil(RUN);
        self.scratch.wrapping_add(self.step.layout.partials + (f * runs + run) * self.step.block * 8)
    }

    fn kept(&self, k: usize) -> *mut u8 {
        let step = self.step;
        let bytes =
            |r: &usize| (step.group.registers[*r].dtype.size() * step.group.length * step.block).next_multiple_of(64);
        let before: usize = step.kept[..k].iter().map(bytes).sum();
        self.scratch.wrapping_add(step.layout.kept + before)
    }

    fn fold(&self, pass: &Pass, f: usize) -> (ReduceOp, DType) {
        let register = &self.step.group.registers[pass.folds[f]];
        match register.source {
            Source::Fold(op, _) => (op, register.dtype),
            _ => unreachable!("a fold of the pass"),
        }
    }
}
