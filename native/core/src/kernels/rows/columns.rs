//! Groups whose values are folded along the outermost dim: many columns side by side, row after row. Rows are cut into
//! chunks, whose results combine by a tree.

use std::mem::MaybeUninit;

use super::group::{read, Group};
use super::pass::{gather, Address, Builder, Pass, Place, VIEWS};
use crate::calls::{FusedJson, ReduceOp};
use crate::dtype::{read_bits, write_bits, DType, Element};
use crate::isa::{by_isa, Level};
use crate::kernels::fold::{for_fold, join, pair, pairwise, settle, start, Fold, CHAIN};
use crate::kernels::fused::generated::streams;
use crate::kernels::fused::registers::Source;
use crate::kernels::reduce::chunks;
use crate::reader::Reader;
use crate::sizes::offset_of;
use crate::step::{Kernel, Run};
use crate::{bail, Result};

/// Most folds of a group.
const FOLDS: usize = 8;
/// Most columns of one task; fewer where there would be too few tasks.
const WIDTH: usize = 1024;
const NARROW: usize = 256;
const TASKS: usize = 8;

pub struct FusedColumns {
    group: Group,
    pass: Pass,
    /// Operation, dtype and output operand of each fold.
    folds: Vec<(ReduceOp, DType, usize)>,
    chunks: usize,
    pub extra: usize,
}

#[repr(align(64))]
struct Lanes(MaybeUninit<[u8; FOLDS * WIDTH * 8]>);

impl FusedColumns {
    pub fn new(json: FusedJson, reader: &Reader) -> Result<FusedColumns> {
        let group = read(&json, 0)?;
        let mut builder = Builder::new(&group, false);
        let mut folds = Vec::new();
        for output in group.outputs.iter().filter(|o| o.single) {
            let register = &group.registers[output.register];
            let Source::Fold(op, from) = register.source else {
                bail!("register {} is not a fold: nothing is computed from columns' values here", output.register);
            };
            let value = value(&group, &mut builder, from)?;
            builder.fold(output.register, op, value)?;
            folds.push((op, register.dtype, output.operand));
        }
        for output in group.outputs.iter().filter(|o| !o.single) {
            let value = value(&group, &mut builder, output.register)?;
            let dtype = group.operands[output.operand].dtype;
            let along = group.operands[output.operand].strides.last().copied().unwrap_or(0);
            builder.write(Place::Operand(output.operand), dtype, along, value);
        }
        if folds.is_empty() || folds.len() > FOLDS {
            bail!("{} folds: a group of columns has 1 to {FOLDS}", folds.len());
        }
        stream(&group, &mut builder);
        let pass = builder.finish(reader.generate)?;
        let columns = *group.dims.last().unwrap_or(&1);
        let chunks = chunks(group.rows / columns.max(1), columns, group.length);
        // src/lower/partials.ts computes the same number.
        let bytes = folds.iter().map(|(_, dtype, _)| (chunks * group.rows * dtype.size()).next_multiple_of(64));
        let extra = if chunks > 1 { bytes.sum() } else { 0 };
        Ok(FusedColumns { group, pass, folds, chunks, extra })
    }
}

impl Kernel for FusedColumns {
    fn extra(&self) -> usize {
        self.extra
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let group = &self.group;
        if group.rows == 0 {
            return Ok(());
        }
        let columns = *group.dims.last().unwrap_or(&1);
        let parts = group.rows / columns * self.chunks;
        let width = if parts * columns.div_ceil(WIDTH) < TASKS { NARROW } else { WIDTH };
        let blocks = columns.div_ceil(width);
        run.pool.run(parts * blocks, usize::MAX, |_, task| {
            let (part, block) = (task / blocks, task % blocks);
            let (outer, chunk) = (part / self.chunks, part % self.chunks);
            unsafe { self.part(run, outer, chunk, block * width, width.min(columns - block * width)) };
        });
        if self.chunks > 1 {
            unsafe { self.combine(run, columns) };
        }
        Ok(())
    }
}

impl FusedColumns {
    /// The offset of an operand at index `outer` of the outer dims.
    fn before(&self, operand: usize, outer: usize) -> isize {
        let dims = &self.group.dims;
        offset_of(&dims[..dims.len() - 1], &self.group.operands[operand].strides, outer)
    }

    fn inner(&self, operand: usize) -> isize {
        self.group.operands[operand].strides.last().copied().unwrap_or(0)
    }

    /// Rows of one chunk, some columns of them.
    unsafe fn part(&self, run: &Run, outer: usize, chunk: usize, column: usize, n: usize) {
        let group = &self.group;
        let mut room = [const { Lanes(MaybeUninit::uninit()) }; 3];
        let [lanes, totals, lost] = room.each_mut().map(|part| part.0.as_mut_ptr().cast::<u8>());
        let first = group.length * chunk / self.chunks;
        let rows = group.length * (chunk + 1) / self.chunks - first;
        let mut at: [Address; VIEWS] = [(0, 0); VIEWS];
        for (view, place) in self.pass.places.iter().enumerate() {
            at[view] = match place {
                Place::Operand(k) => {
                    let (operand, along) = (&group.operands[*k], group.along[*k]);
                    let size = operand.dtype.size() as isize;
                    let base = operand.at.map_or(std::ptr::null_mut(), |at| run.ptr::<u8>(at)) as usize;
                    let offset = self.before(*k, outer) + first as isize * along + column as isize * self.inner(*k);
                    (base.wrapping_add_signed(offset * size), along * size)
                }
                Place::Lanes(f) => (lanes.add(f * WIDTH * 8) as usize, 0),
                Place::Single(_) | Place::Kept(_) => unreachable!("columns have no values of rows"),
            };
        }
        let at = &mut at[..self.pass.places.len()];
        for done in (0..rows.max(1)).step_by(CHAIN) {
            let more = CHAIN.min(rows - done);
            for (f, (op, dtype, _)) in self.folds.iter().enumerate() {
                start((*op, *dtype), lanes.add(f * WIDTH * 8), n);
            }
            self.pass.call(run.isa, (more, n), at);
            at.iter_mut().for_each(|(first, by)| *first = first.wrapping_add_signed(more as isize * *by));
            let last = done + more == rows;
            for (f, (op, dtype, _)) in self.folds.iter().enumerate() {
                let [values, totals, lost] = [lanes, totals, lost].map(|room| room.add(f * WIDTH * 8));
                for_fold!((*op, *dtype), T, F => {
                    gathered::<T, F>(run.isa, (done > 0, last), n, values.cast(), totals.cast(), lost.cast())
                });
            }
        }
        for (f, (_, dtype, operand)) in self.folds.iter().enumerate() {
            let from = totals.add(f * WIDTH * 8);
            if self.chunks > 1 {
                let columns = *group.dims.last().unwrap_or(&1);
                let to = self.partial(run, f).add(((outer * self.chunks + chunk) * columns + column) * dtype.size());
                gather(*dtype, from, 1, to, 1, n);
            } else {
                let (to, by) = self.out(run, *operand, outer, column);
                gather(*dtype, from, 1, to, by, n);
            }
        }
    }

    /// Room for the chunks' results of a fold.
    fn partial(&self, run: &Run, fold: usize) -> *mut u8 {
        let bytes = |(_, dtype, _): &(ReduceOp, DType, usize)| {
            (self.chunks * self.group.rows * dtype.size()).next_multiple_of(64)
        };
        run.extra.wrapping_add(self.folds[..fold].iter().map(bytes).sum())
    }

    fn out(&self, run: &Run, k: usize, outer: usize, column: usize) -> (*mut u8, isize) {
        let operand = &self.group.operands[k];
        let offset = self.before(k, outer) + column as isize * self.inner(k);
        let base = operand.at.map_or(std::ptr::null_mut(), |at| run.ptr::<u8>(at));
        (base.wrapping_offset(offset * operand.dtype.size() as isize), self.inner(k))
    }

    unsafe fn combine(&self, run: &Run, columns: usize) {
        for (f, (op, dtype, operand)) in self.folds.iter().enumerate() {
            for outer in 0..self.group.rows / columns {
                let (to, by) = self.out(run, *operand, outer, 0);
                let size = dtype.size();
                let from = self.partial(run, f).add(outer * self.chunks * columns * size);
                // The chunks of each column combine by a tree.
                for c in 0..columns {
                    let value = |i: usize| read_bits(size, from.add((i * columns + c) * size));
                    let combined = pairwise(pair(*op, *dtype), 0, self.chunks, &value);
                    write_bits(size, combined, to.offset(c as isize * by * size as isize));
                }
            }
        }
    }
}

by_isa! {
    fn gathered<T: Element, F: Fold>(at: (bool, bool), n: usize, values: *const T, totals: *mut T, lost: *mut T) =>
        gathered_body, wide if T::WIDE
}

/// Joins the results of some rows to those before them, if there are, and settles the totals after the last.
#[inline(always)]
unsafe fn gathered_body<L: Level, T: Element, F: Fold>(
    (joins, last): (bool, bool),
    n: usize,
    values: *const T,
    totals: *mut T,
    lost: *mut T,
) {
    if !joins {
        std::ptr::copy_nonoverlapping(values, totals, n);
        if !last {
            std::slice::from_raw_parts_mut(lost, n).fill(T::ZERO);
        }
        return;
    }
    let totals = std::slice::from_raw_parts_mut(totals, n);
    let lost = std::slice::from_raw_parts_mut(lost, n);
    join::<T, F>(totals, lost, std::slice::from_raw_parts(values, n));
    if last {
        settle::<T, F>(totals, lost);
    }
}

/// Makes a register known to the pass: all that is not a constant lies along the columns.
fn value(group: &Group, builder: &mut Builder, register: usize) -> Result<usize> {
    if let Some(known) = builder.known[register] {
        return Ok(known);
    }
    match &group.registers[register].source {
        Source::Input(o) if group.operands[*o].at.is_some() => {
            let along = group.operands[*o].strides.last().copied().unwrap_or(0);
            Ok(builder.read(register, Place::Operand(*o), along))
        }
        Source::Compute { inputs, .. } => {
            inputs.iter().try_for_each(|i| value(group, builder, *i).map(drop))?;
            Ok(builder.compute(register))
        }
        Source::Constant(_) => Ok(builder.compute(register)),
        _ => bail!("register {register}: columns are folded once, and have no counts"),
    }
}

fn stream(group: &Group, builder: &mut Builder) {
    builder.stream(|k| {
        let strides = &group.operands[k].strides;
        let outer = &strides[..strides.len().saturating_sub(1)];
        streams(&group.operands, group.total, k, outer.iter().chain(std::iter::once(&group.along[k])))
    });
}
