//! Runs a planned fused step tile by tile.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ops;
use super::plan::{Action, Fused, Place, Shape, REGISTERS};
use super::registers::{Operand, Value8};
use crate::dtype::{for_number, for_size, Element};
use crate::kernels::transpose::transpose;
use crate::step::Run;
use crate::verify::MAX_RANK;
use crate::{Fault, Result};

/// Work (elements times actions) of one task; a step below two of these stays on its thread.
const TASK: usize = 128 << 10;

#[repr(align(64))]
struct Registers(MaybeUninit<[u8; REGISTERS]>);

/// Where a tile lies: its first element's index in every dim and its extent.
struct Tile {
    index: [usize; MAX_RANK],
    start: usize,
    rows: usize,
    columns: usize,
}

pub(super) fn run(step: &Fused, run: &Run) -> Result<()> {
    if step.count == 0 || step.actions.is_empty() {
        return Ok(());
    }
    let tiles = tiles(step);
    let per_task = (TASK / (step.tile * step.cost)).max(1);
    let tasks = tiles.div_ceil(per_task);
    let zero = AtomicUsize::new(usize::MAX);
    run.pool.run(tasks, usize::MAX, |_, task| {
        let mut registers = Registers(MaybeUninit::uninit());
        let base = registers.0.as_mut_ptr().cast::<u8>();
        let last = tiles.min((task + 1) * per_task);
        unsafe { worker(step, run, base, task * per_task, last, &zero) };
    });
    let failed = zero.load(Ordering::Relaxed);
    let Some(Action::RefuseZero { name, dtype, .. }) = step.actions.get(failed) else { return Ok(()) };
    let refusing = |actions: &[Action]| actions.iter().filter(|a| matches!(a, Action::RefuseZero { .. })).count();
    let (division, of) = (refusing(&step.actions[..failed]), refusing(&step.actions));
    Err(Fault::ZeroDivisor { op: name, dtype: dtype.name(), division, of }.into())
}

fn tiles(step: &Fused) -> usize {
    match step.shape {
        Shape::Linear { rows, length } => rows * length.div_ceil(step.tile),
        Shape::Block { row_dim, side } => {
            let inner = step.dims.len() - 1;
            let others: usize = (0..inner).filter(|d| *d != row_dim).map(|d| step.dims[d]).product();
            others * step.dims[row_dim].div_ceil(side) * step.dims[inner].div_ceil(side)
        }
    }
}

fn locate(step: &Fused, number: usize, tile: &mut Tile) {
    let inner = step.dims.len() - 1;
    match step.shape {
        Shape::Linear { length, .. } => {
            let pieces = length.div_ceil(step.tile);
            let offset = number % pieces * step.tile;
            tile.start = number / pieces * length + offset;
            tile.rows = 1;
            tile.columns = step.tile.min(length - offset);
            let mut rest = tile.start;
            for d in (0..=inner).rev() {
                tile.index[d] = rest % step.dims[d];
                rest /= step.dims[d];
            }
        }
        Shape::Block { row_dim, side } => {
            let mut rest = number;
            for d in (0..=inner).rev() {
                let size = step.dims[d];
                let pieces = if d == inner || d == row_dim { size.div_ceil(side) } else { size };
                let at = rest % pieces;
                rest /= pieces;
                tile.index[d] = if d == inner || d == row_dim { at * side } else { at };
            }
            tile.rows = side.min(step.dims[row_dim] - tile.index[row_dim]);
            tile.columns = side.min(step.dims[inner] - tile.index[inner]);
        }
    }
}

unsafe fn worker(step: &Fused, run: &Run, base: *mut u8, first: usize, last: usize, zero: &AtomicUsize) {
    for (value, slot) in &step.constants {
        fill(*value, base.add(*slot), step.tile);
    }
    let mut tile = Tile { index: [0; MAX_RANK], start: 0, rows: 1, columns: step.tile.min(step.count) };
    for (operand, slot) in &step.once {
        // Invariant operands are periodic in the tile, so the first tile's values serve all.
        load(step, run, &step.operands[*operand], &tile, base.add(*slot));
    }
    for number in first..last {
        locate(step, number, &mut tile);
        let n = tile.rows * tile.columns;
        let resolve = |place: Place| match place {
            Place::Slot(slot) => base.add(slot),
            Place::Direct(o) => address(step, run, &step.operands[o], &tile),
        };
        for (i, action) in step.actions.iter().enumerate() {
            match action {
                Action::Load(o, slot) => load(step, run, &step.operands[*o], &tile, base.add(*slot)),
                Action::Compute { function, inputs, arity, out } => {
                    let mut p = [std::ptr::null::<u8>(); 3];
                    for k in 0..*arity {
                        p[k] = resolve(inputs[k]);
                    }
                    function(run.isa, p[0], p[1], p[2], resolve(*out), n);
                }
                Action::RefuseZero { dtype, divisor, .. } => {
                    if ops::any_zero(*dtype, resolve(*divisor), n) {
                        zero.fetch_min(i, Ordering::Relaxed);
                    }
                }
                Action::Store(place, o) => store(step, run, &step.operands[*o], &tile, resolve(*place)),
            }
        }
    }
}

/// Address of the tile's first element.
unsafe fn address(step: &Fused, run: &Run, operand: &Operand, tile: &Tile) -> *mut u8 {
    let size = operand.dtype.size() as isize;
    let base = operand.at.map_or(std::ptr::null_mut(), |at| run.ptr::<u8>(at));
    if operand.contiguous {
        return base.wrapping_offset(tile.start as isize * size);
    }
    base.wrapping_offset(offset(step, operand, &tile.index) * size)
}

fn offset(step: &Fused, operand: &Operand, index: &[usize; MAX_RANK]) -> isize {
    (0..step.dims.len()).map(|d| index[d] as isize * operand.strides[d]).sum()
}

pub(crate) unsafe fn fill(value: Value8, to: *mut u8, n: usize) {
    for_size!(value.size, T => std::slice::from_raw_parts_mut(to.cast::<T>(), n).fill(value.bits as T))
}

unsafe fn load(step: &Fused, run: &Run, operand: &Operand, tile: &Tile, to: *mut u8) {
    if operand.at.is_none() {
        return iota(step, operand, tile, to);
    }
    for_size!(operand.dtype.size(), T => walk(step, run, operand, tile, to.cast::<T>(), read_run, move_block::<T, true>))
}

unsafe fn store(step: &Fused, run: &Run, operand: &Operand, tile: &Tile, from: *mut u8) {
    for_size!(operand.dtype.size(), T => walk(step, run, operand, tile, from.cast::<T>(), write_run, move_block::<T, false>))
}

type RunOf<T> = unsafe fn(memory: *mut T, stride: isize, register: *mut T, n: usize);
type BlockOf<T> = unsafe fn(memory: *mut T, rows: usize, row: isize, columns: usize, column: isize, register: *mut T);

/// Moves a tile between memory and a register, in runs along the innermost dim.
unsafe fn walk<T: Copy>(
    step: &Fused,
    run: &Run,
    operand: &Operand,
    tile: &Tile,
    register: *mut T,
    one: RunOf<T>,
    block: BlockOf<T>,
) {
    let inner = step.dims.len() - 1;
    let memory: *mut T = operand.at.map_or(std::ptr::null_mut(), |at| run.ptr::<T>(at));
    let stride = operand.strides[inner];
    if let Shape::Block { row_dim, .. } = step.shape {
        let start = memory.wrapping_offset(offset(step, operand, &tile.index));
        return block(start, tile.rows, operand.strides[row_dim], tile.columns, stride, register);
    }
    let mut index = tile.index;
    let mut done = 0;
    while done < tile.columns {
        let n = (step.dims[inner] - index[inner]).min(tile.columns - done);
        one(memory.wrapping_offset(offset(step, operand, &index)), stride, register.add(done), n);
        done += n;
        index[inner] += n;
        for d in (1..=inner).rev() {
            if index[d] < step.dims[d] {
                break;
            }
            index[d] = 0;
            index[d - 1] += 1;
        }
    }
}

unsafe fn read_run<T: Copy>(memory: *mut T, stride: isize, register: *mut T, n: usize) {
    match stride {
        1 => std::ptr::copy_nonoverlapping(memory, register, n),
        0 => std::slice::from_raw_parts_mut(register, n).fill(*memory),
        _ => (0..n).for_each(|i| *register.add(i) = *memory.offset(i as isize * stride)),
    }
}

unsafe fn write_run<T: Copy>(memory: *mut T, stride: isize, register: *mut T, n: usize) {
    match stride {
        1 => std::ptr::copy_nonoverlapping(register, memory, n),
        _ => (0..n).for_each(|i| *memory.offset(i as isize * stride) = *register.add(i)),
    }
}

/// Reads a block of rows into a register, or writes the block from the register.
unsafe fn move_block<T: Copy, const READ: bool>(
    memory: *mut T,
    rows: usize,
    row: isize,
    columns: usize,
    column: isize,
    register: *mut T,
) {
    if row == 1 && column.abs() > 1 {
        return if READ {
            transpose(memory, column, rows, columns, register, columns as isize)
        } else {
            transpose(register, columns as isize, columns, rows, memory, column)
        };
    }
    let move_run: RunOf<T> = if READ { read_run } else { write_run };
    for i in 0..rows {
        move_run(memory.offset(i as isize * row), column, register.add(i * columns), columns);
    }
}

/// The index along a dim: its strides are 1 there and 0 elsewhere.
unsafe fn iota(step: &Fused, operand: &Operand, tile: &Tile, to: *mut u8) {
    for_number!(operand.dtype, T => iota_typed::<T>(step, operand, tile, to.cast()));
}

unsafe fn iota_typed<T: Element>(step: &Fused, operand: &Operand, tile: &Tile, to: *mut T) {
    let inner = step.dims.len() - 1;
    let mut index = tile.index;
    let mut place = 0;
    let row_dim = match step.shape {
        Shape::Block { row_dim, .. } => row_dim,
        Shape::Linear { .. } => inner,
    };
    for _ in 0..tile.rows {
        for _ in 0..tile.columns {
            *to.add(place) = T::from_index(offset(step, operand, &index) as usize);
            place += 1;
            index[inner] += 1;
            for d in (1..=inner).rev() {
                if index[d] < step.dims[d] || row_dim != inner {
                    break;
                }
                index[d] = 0;
                index[d - 1] += 1;
            }
        }
        if row_dim != inner {
            index[inner] = tile.index[inner];
            index[row_dim] += 1;
        }
    }
}
