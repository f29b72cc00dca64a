//! Reductions over any dims, and the position of a row's maximum.
//!
//! Runs are folded in lanes, columns row by row, pieces of either by a binary tree (see `fold.rs`).

use std::ops::Range;

use super::fold::{defined, for_fold, join, pair, pairwise, settle, start, tree, Fold, Max, CHAIN, LANES, RUN};
use crate::calls::{ArgMaxJson, ReduceJson, ReduceOp};
use crate::dtype::{for_number, read_bits, write_bits, DType, Element};
use crate::isa::{by_isa, Isa, Level};
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::verify::{count, At};
use crate::walk::fetch;
use crate::{bail, Result};

kernels! {
    reduce = Reduce::new;
    argMax = ArgMax::new;
}

/// Bytes from what is read to what is fetched meanwhile, where an input of so many bytes is not in a cache: while the lanes of a row
/// are folded, memory would stand still.
fn ahead(bytes: usize) -> usize {
    if bytes >= 8 << 20 {
        2048
    } else {
        0
    }
}

/// Elements of a run that are folded as one piece.
pub(super) const PIECE: usize = 1 << 14;
/// Work of one task.
pub(super) const TASK: usize = 1 << 15;
/// Columns folded side by side.
pub(super) const WIDTH: usize = 256;

#[derive(Clone, Debug)]
struct Dim {
    size: usize,
    stride: isize,
}

enum Way {
    /// Each output folds pieces: `outer` runs of `length`, in groups of `group` pieces.
    Rows { outer: Vec<Dim>, length: usize, stride: isize, pieces: usize, group: usize, partial: bool },
    /// `columns` outputs side by side fold rows; rows are cut into `chunks`.
    Columns { outer: Vec<Dim>, columns: usize, rows: usize, chunks: usize },
}

pub struct Reduce {
    op: ReduceOp,
    dtype: DType,
    input: At,
    out: At,
    outputs: usize,
    keep: Vec<Dim>,
    over: Vec<Dim>,
    way: Way,
    pub extra: usize,
}

fn merge(sizes: &[usize], strides: &[isize]) -> Vec<Dim> {
    let mut dims: Vec<Dim> = Vec::new();
    for (&size, &stride) in sizes.iter().zip(strides).filter(|(size, _)| **size != 1) {
        match dims.last_mut() {
            Some(last) if last.stride == stride.saturating_mul(size as isize) => {
                *last = Dim { size: last.size * size, stride }
            }
            _ => dims.push(Dim { size, stride }),
        }
    }
    dims
}

fn product(dims: &[Dim]) -> usize {
    dims.iter().map(|d| d.size).product()
}

fn offset(dims: &[Dim], mut index: usize) -> isize {
    let mut at = 0;
    for dim in dims.iter().rev() {
        at += (index % dim.size) as isize * dim.stride;
        index /= dim.size;
    }
    at
}

impl Reduce {
    pub fn new(json: ReduceJson) -> Result<Reduce> {
        if !defined(json.op, json.dtype) {
            bail!("{:?} of {} is not supported", json.op, json.dtype.name());
        }
        if json.keep.len() != json.keep_strides.len() {
            bail!("keep has {} sizes but {} strides", json.keep.len(), json.keep_strides.len());
        }
        let outputs = count(&json.keep)?;
        let keep = merge(&json.keep, &json.keep_strides);
        let over = merge(&json.over, &json.over_strides);
        let way = if outputs * count(&json.over)? == 0 { rows(&[], outputs) } else { choose(&keep, &over, outputs) };
        let size = json.dtype.size();
        let extra = match &way {
            Way::Rows { pieces, group, partial: true, .. } => outputs * pieces.div_ceil(*group) * size,
            Way::Columns { outer, columns, chunks, .. } if *chunks > 1 => product(outer) * chunks * columns * size,
            _ => 0,
        };
        Ok(Reduce { op: json.op, dtype: json.dtype, input: json.input, out: json.out, outputs, keep, over, way, extra })
    }
}

impl Kernel for Reduce {
    fn extra(&self) -> usize {
        self.extra
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.outputs == 0 {
            return Ok(());
        }
        unsafe { self.fold(run) };
        if self.dtype == DType::Bool {
            // The identities of `and` and `min` are not truth values.
            let out = unsafe { std::slice::from_raw_parts_mut(run.ptr::<u8>(self.out), self.outputs) };
            out.iter_mut().for_each(|o| *o = u8::from(*o != 0));
        }
        Ok(())
    }
}

impl Reduce {
    unsafe fn fold(&self, run: &Run) {
        if product(&self.over) == 0 {
            return start((self.op, self.dtype), run.ptr(self.out), self.outputs);
        }
        match &self.way {
            Way::Rows { .. } => self.fold_rows(run),
            Way::Columns { .. } => self.fold_columns(run),
        }
    }

    unsafe fn fold_rows(&self, run: &Run) {
        let Way::Rows { outer, length, stride, pieces, group, partial } = &self.way else { return };
        let (length, pieces, group) = (*length, *pieces, *group);
        let size = self.dtype.size();
        let per_run = length.div_ceil(PIECE).max(1);
        let input = run.ptr::<u8>(self.input) as usize;
        let out = run.ptr::<u8>(self.out) as usize;
        let pair = pair(self.op, self.dtype);
        let fold: OfRun = for_fold!((self.op, self.dtype), T, F => run_bits::<T, F>);
        let ahead = ahead(self.outputs * product(&self.over) * size);
        let fold_piece = |output: usize, piece: usize| {
            let base = offset(&self.keep, output) + offset(outer, piece / per_run);
            let start = piece % per_run * PIECE;
            let from = (input as *const u8).wrapping_offset((base + start as isize * stride) * size as isize);
            fold(run.isa, from, *stride, PIECE.min(length - start), ahead)
        };
        if !partial {
            let per_task = (TASK / (length * pieces / per_run).max(1)).max(1);
            run.pool.run(self.outputs.div_ceil(per_task), usize::MAX, |_, task| {
                for o in task * per_task..self.outputs.min((task + 1) * per_task) {
                    write_bits(size, pairwise(pair, 0, pieces, &|p| fold_piece(o, p)), (out as *mut u8).add(o * size));
                }
            });
            return;
        }
        let groups = pieces.div_ceil(group);
        let partials = run.extra as usize;
        run.pool.run(self.outputs * groups, usize::MAX, |_, task| {
            let (o, g) = (task / groups, task % groups);
            let value = pairwise(pair, g * group, pieces.min((g + 1) * group), &|p| fold_piece(o, p));
            write_bits(size, value, (partials as *mut u8).add(task * size));
        });
        for o in 0..self.outputs {
            let value = |g: usize| read_bits(size, (partials as *const u8).add((o * groups + g) * size));
            write_bits(size, pairwise(pair, 0, groups, &value), (out as *mut u8).add(o * size));
        }
    }

    unsafe fn fold_columns(&self, run: &Run) {
        let Way::Columns { outer, columns, rows, chunks } = &self.way else { return };
        let (columns, rows, chunks) = (*columns, *rows, *chunks);
        let size = self.dtype.size();
        let blocks = columns.div_ceil(WIDTH);
        let input = run.ptr::<u8>(self.input) as usize;
        let out = run.ptr::<u8>(self.out);
        let target = if chunks > 1 { run.extra as usize } else { out as usize };
        let outers = product(outer);
        let fold: OfBlock = for_fold!((self.op, self.dtype), T, F => block_bytes::<T, F>);
        run.pool.run(outers * chunks * blocks, usize::MAX, |_, task| {
            let (part, block) = (task / blocks, task % blocks);
            let (o, chunk) = (part / chunks, part % chunks);
            let column = block * WIDTH;
            let n = WIDTH.min(columns - column);
            let from = (input as *const u8).wrapping_offset((offset(outer, o) + column as isize) * size as isize);
            let to = (target as *mut u8).add((part * columns + column) * size);
            let some = rows * chunk / chunks..rows * (chunk + 1) / chunks;
            fold(run.isa, from, &self.over, some, to, n);
        });
        if chunks > 1 {
            let pair = pair(self.op, self.dtype);
            for o in 0..outers {
                let base = (target as *const u8).add(o * chunks * columns * size);
                for c in 0..columns {
                    let value = |i: usize| read_bits(size, base.add((i * columns + c) * size));
                    write_bits(size, pairwise(pair, 0, chunks, &value), out.add((o * columns + c) * size));
                }
            }
        }
    }
}

fn rows(over: &[Dim], outputs: usize) -> Way {
    let (outer, length, stride) = match over.split_last() {
        Some((inner, outer)) => (outer.to_vec(), inner.size, inner.stride),
        None => (Vec::new(), 1, 1),
    };
    let per_run = length.div_ceil(PIECE).max(1);
    let pieces = product(&outer) * per_run;
    let group = (PIECE / length.clamp(1, PIECE)).next_power_of_two();
    let partial = outputs < 64 && pieces > group && outputs * length * product(&outer) > 4 * TASK;
    Way::Rows { outer, length, stride, pieces, group, partial }
}

fn choose(keep: &[Dim], over: &[Dim], outputs: usize) -> Way {
    let by_columns = match (keep.last(), over.last()) {
        (Some(k), Some(o)) => k.stride == 1 && k.size >= 4 && o.stride != 1,
        _ => false,
    };
    if !by_columns {
        return rows(over, outputs);
    }
    let outer = keep[..keep.len() - 1].to_vec();
    let columns = keep[keep.len() - 1].size;
    let rows = product(over);
    let chunks = chunks(product(&outer), columns, rows);
    Way::Columns { outer, columns, rows, chunks }
}

/// The number of chunks of the rows that are folded to `outer` times `columns` values.
pub(super) fn chunks(outer: usize, columns: usize, rows: usize) -> usize {
    let tasks = outer * columns.div_ceil(WIDTH);
    if tasks >= 16 {
        1
    } else {
        (rows * columns / TASK).min(rows / 64).clamp(1, 32)
    }
}

/// The bits of the fold of `n` elements, some elements apart; what lies so many bytes behind them is fetched.
type OfRun = unsafe fn(Isa, *const u8, isize, usize, usize) -> u64;
/// Folds some rows of `n` columns.
type OfBlock = unsafe fn(Isa, *const u8, &[Dim], Range<usize>, *mut u8, usize);

unsafe fn run_bits<T: Element, F: Fold>(isa: Isa, from: *const u8, stride: isize, n: usize, ahead: usize) -> u64 {
    fold_run::<T, F>(isa, from.cast(), stride, n, ahead).bits()
}

unsafe fn block_bytes<T: Element, F: Fold>(
    isa: Isa,
    from: *const u8,
    over: &[Dim],
    rows: Range<usize>,
    to: *mut u8,
    n: usize,
) {
    fold_block::<T, F>(isa, from.cast(), over, rows, std::slice::from_raw_parts_mut(to.cast(), n));
}

by_isa! {
    fn fold_run<T: Element, F: Fold>(from: *const T, stride: isize, n: usize, ahead: usize) -> T =>
        fold_run_body, wide if T::WIDE
}
by_isa! {
    fn fold_block<T: Element, F: Fold>(from: *const T, over: &[Dim], rows: Range<usize>, to: &mut [T]) =>
        fold_block_body, wide if T::WIDE
}

#[inline(always)]
unsafe fn fold_run_body<L: Level, T: Element, F: Fold>(from: *const T, stride: isize, n: usize, ahead: usize) -> T {
    // Only folds that round are cut into runs.
    let most = if F::ROUNDS { RUN } else { usize::MAX };
    let mut totals = [F::identity::<T>(); LANES];
    let mut lost = [T::ZERO; LANES];
    let mut first = 0;
    loop {
        let count = most.min(n - first);
        let from = from.wrapping_offset(first as isize * stride);
        let lanes = if stride == 1 {
            fold_lanes::<T, F>(std::slice::from_raw_parts(from, count), ahead)
        } else {
            let mut lanes = [F::identity::<T>(); LANES];
            (0..count).for_each(|i| lanes[i % LANES] = F::fold(lanes[i % LANES], *from.offset(i as isize * stride)));
            lanes
        };
        if first == 0 {
            totals = lanes;
        } else {
            join::<T, F>(&mut totals, &mut lost, &lanes);
        }
        if n - first == count {
            break;
        }
        first += count;
    }
    if first > 0 {
        settle::<T, F>(&mut totals, &lost);
    }
    tree::<T, F, LANES>(&mut totals)
}

#[inline(always)]
fn fold_lanes<T: Element, F: Fold>(run: &[T], ahead: usize) -> [T; LANES] {
    let mut lanes = [F::identity::<T>(); LANES];
    let chunks = run.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for line in (0..size_of_val(chunk)).step_by(128).filter(|_| ahead > 0) {
            fetch(chunk.as_ptr().cast::<u8>().wrapping_add(ahead + line), 128);
        }
        for l in 0..LANES {
            lanes[l] = F::fold(lanes[l], chunk[l]);
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = F::fold(*lane, *x));
    lanes
}

#[inline(always)]
unsafe fn fold_block_body<L: Level, T: Element, F: Fold>(
    from: *const T,
    over: &[Dim],
    rows: Range<usize>,
    to: &mut [T],
) {
    let n = to.len();
    let row = |r: usize| {
        let at = if over.len() == 1 { r as isize * over[0].stride } else { offset(over, r) };
        std::slice::from_raw_parts(from.wrapping_offset(at), n)
    };
    let (mut lost, mut sums) = ([T::ZERO; WIDTH], [T::ZERO; WIDTH]);
    let (lost, sums) = (&mut lost[..n], &mut sums[..n]);
    let mut start = rows.start;
    loop {
        let end = rows.end.min(start + CHAIN);
        let first = start == rows.start;
        fold_some::<T, F>(row, start, end, if first { &mut *to } else { &mut *sums });
        if !first {
            join::<T, F>(to, lost, sums);
        }
        if end == rows.end {
            break;
        }
        start = end;
    }
    if start > rows.start {
        settle::<T, F>(to, lost);
    }
}

/// Folds rows `first..last` in order, element by element: as fused columns do, to the same bits.
#[inline(always)]
fn fold_some<'a, T: Element, F: Fold>(row: impl Fn(usize) -> &'a [T], first: usize, last: usize, to: &mut [T]) {
    to.fill(F::identity());
    let n = to.len();
    let mut r = first;
    while r + 4 <= last {
        let (a, b, c, d) = (row(r), row(r + 1), row(r + 2), row(r + 3));
        for i in 0..n {
            to[i] = F::fold(F::fold(F::fold(F::fold(to[i], a[i]), b[i]), c[i]), d[i]);
        }
        r += 4;
    }
    for r in r..last {
        to.iter_mut().zip(row(r)).for_each(|(t, a)| *t = F::fold(*t, *a));
    }
}

pub struct ArgMax(ArgMaxJson);

impl ArgMax {
    pub fn new(call: ArgMaxJson) -> Result<ArgMax> {
        if call.dtype.is_half() {
            bail!("the position of a maximum of {} is not supported", call.dtype.name());
        }
        if call.cols == 0 || call.cols > i32::MAX as usize {
            bail!("the position of a maximum among {} values does not exist", call.cols);
        }
        Ok(ArgMax(call))
    }
}

impl Kernel for ArgMax {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_number!(self.0.dtype, T => unsafe { self.typed::<T>(run.isa, run) });
        Ok(())
    }
}

impl ArgMax {
    unsafe fn typed<T: Element>(&self, isa: Isa, run: &Run) {
        let per_task = (TASK / self.0.cols).max(1);
        let ahead = ahead(self.0.rows * self.0.cols * size_of::<T>());
        let (input, out) = (run.ptr::<T>(self.0.input) as usize, run.ptr::<i32>(self.0.out) as usize);
        run.pool.run(self.0.rows.div_ceil(per_task), usize::MAX, |_, task| {
            for r in task * per_task..self.0.rows.min((task + 1) * per_task) {
                let row = (input as *const T).add(r * self.0.cols);
                let top = fold_run::<T, Max>(isa, row, 1, self.0.cols, ahead);
                let row = std::slice::from_raw_parts(row, self.0.cols);
                let found = row.iter().position(|x| *x == top || (top.nan() && x.nan()));
                *(out as *mut i32).add(r) = found.unwrap_or(0) as i32;
            }
        });
    }
}
