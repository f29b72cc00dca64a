//! Attention without the matrix of scores: blocks of queries and keys with a running maximum and sum per query (Rabe and
//! Staats, 2021; Dao et al., 2022). The gradient computes the weights of a block again from the log of each query's sum.
//! Blocks are of fixed size and go in order, so bits depend on shapes and the instruction set alone.
//!
//! A block has a row for each key and a lane for each query: maxima and sums of queries then need no sums across lanes, and
//! of the operands of all products only the queries of a block, and their cotangents, are copied.

use crate::calls::{AttentionForwardJson, AttentionJson, StridedJson};
use crate::dtype::{for_float, DType};
use crate::isa::{by_isa, Isa, Level};
use crate::kernels::fold::CHAIN;
use crate::kernels::micro::{long_block, Real};
use crate::kernels::product::{in_place, pack_right, product, Matrix, DEPTH};
use crate::kernels::random::fill;
use crate::scalar::Float;
use crate::sizes::offset_of;
use crate::step::{Kernel, Run};
use crate::verify::{contiguous, count, At};
use crate::{bail, Result};

/// Queries and keys of a block.
pub(super) const QUERIES: usize = 32;
pub(super) const KEYS: usize = 128;
/// Queries whose numbers are in registers together.
const LANES: usize = 16;

/// A number for each query of a block.
pub(super) type Each<T> = [T; QUERIES];
/// The head of a block, its queries and its keys.
pub(super) type Part = (usize, (usize, usize), (usize, usize));

/// The matrix of a head: an operand's last two dims. The first element is found by the indices of the leading dims.
pub(super) unsafe fn matrix<T>(run: &Run, at: At, strides: &[isize], lead: &[usize], head: usize) -> Matrix<T> {
    let [rows, columns] = strides[strides.len() - 2..] else { unreachable!() };
    Matrix { ptr: run.ptr::<T>(at).offset(offset_of(lead, strides, head)).cast_const(), rows, columns }
}

impl StridedJson {
    pub(super) unsafe fn matrix<T>(&self, run: &Run, lead: &[usize], head: usize) -> Matrix<T> {
        matrix(run, self.at, &self.strides, lead, head)
    }
}

/// What forward and backward share.
pub(super) struct Shape {
    pub(super) call: AttentionJson,
    /// The dims of groups with the repeats of a group behind them.
    pub(super) heads: Vec<usize>,
    /// Strides of the whole tensor of scores for which random words are drawn.
    pub(super) strides: Vec<isize>,
    /// Bytes of a worker's scratch.
    pub(super) slot: usize,
}

/// The worker's own memory.
pub(super) struct Slot<T> {
    pub(super) weights: *mut T,
    pub(super) changes: *mut T,
    /// Queries and their cotangents, transposed.
    pub(super) queries: *mut T,
    pub(super) dy: *mut T,
    pub(super) words: *mut u32,
}

impl Shape {
    pub(super) fn new(call: AttentionJson) -> Result<Shape> {
        let AttentionJson { dtype, n, m, slots, .. } = call;
        if !dtype.is_float() {
            bail!("attention of {} is not supported", dtype.name());
        }
        if slots == 0 || m == 0 {
            bail!("slots and keys must be positive");
        }
        let heads = [&call.lead[..], &[call.r]].concat();
        let scores = [&heads[..], &[n, m]].concat();
        count(&scores)?;
        if let Some(mask) = call.mask.as_ref().filter(|mask| mask.dtype != dtype && mask.dtype != DType::Bool) {
            bail!("a mask of {} for {}", mask.dtype.name(), dtype.name());
        }
        let mut strides = Vec::new();
        if let Some(dropout) = &call.dropout {
            count(&dropout.total)?;
            if dropout.total.len() != scores.len() {
                bail!("scores {scores:?} and total {:?} differ in rank", dropout.total);
            }
            strides = contiguous(&dropout.total);
        }
        let slot = call.slot().get("slot")?;
        Ok(Shape { heads, strides, slot, call })
    }

    pub(super) unsafe fn slot<T>(&self, run: &Run, worker: usize) -> Slot<T> {
        let weights = run.ptr::<u8>(self.call.scratch).add(worker * self.slot).cast::<T>();
        let changes = weights.add(QUERIES * KEYS);
        let queries = changes.add(QUERIES * KEYS);
        let dy = queries.add(QUERIES * self.call.d);
        Slot { weights, changes, queries, dy, words: dy.add(QUERIES * self.call.e).cast() }
    }

    /// Columns that the rows before `end` may see.
    pub(super) fn seen(&self, end: usize) -> usize {
        if self.call.causal {
            self.call.m.min(end)
        } else {
            self.call.m
        }
    }

    /// Copies the queries of a block, scaled, to its slot.
    pub(super) unsafe fn pack<T: Real>(&self, run: &Run, head: usize, (i0, i1): (usize, usize), slot: &Slot<T>) {
        let queries = self.call.query.matrix::<T>(run, &self.heads, head).from(i0, 0);
        pack_right(queries.transposed(), self.call.d, i1 - i0, slot.queries);
        let copied = std::slice::from_raw_parts_mut(slot.queries, self.call.d * (i1 - i0));
        times(run.isa, copied, &[T::from_f64(self.call.scale)]);
    }

    /// The scores of a block, scaled and masked, in the memory of its weights.
    pub(super) unsafe fn scores<T: Real>(&self, run: &Run, (head, (i0, i1), (j0, j1)): Part, slot: &Slot<T>) {
        let to = slot.weights;
        let keys = self.call.key.matrix::<T>(run, &self.call.lead, head / self.call.r).from(j0, 0);
        let queries = whole(slot.queries, i1 - i0);
        multiply(run.isa, [j1 - j0, i1 - i0, self.call.d], [keys, queries, whole(to, QUERIES)], false);
        if let Some(mask) = &self.call.mask {
            for i in i0..i1 {
                let to = |j: usize| &mut *to.add(j * QUERIES + i - i0);
                if mask.dtype == DType::Bool {
                    let kept: Matrix<u8> = matrix(run, mask.at, &mask.strides, &self.heads, head).from(i, j0);
                    (0..j1 - j0).filter(|j| *kept.at(0, *j) == 0).for_each(|j| *to(j) = T::LOWEST);
                } else {
                    let added: Matrix<T> = matrix(run, mask.at, &mask.strides, &self.heads, head).from(i, j0);
                    (0..j1 - j0).for_each(|j| *to(j) = *to(j) + *added.at(0, j));
                }
            }
        }
        // Queries before a key do not see it.
        for j in if self.call.causal { j0.max(i0 + 1)..j1 } else { 0..0 } {
            std::slice::from_raw_parts_mut(to.add((j - j0) * QUERIES), (j - i0).min(i1 - i0)).fill(T::LOWEST);
        }
    }

    /// Multiplies the numbers of a block by 0 where dropout applies, else by the factor of the call.
    pub(super) unsafe fn drop<T: Real>(&self, run: &Run, part: Part, slot: &Slot<T>, block: *mut T) {
        let Some(dropout) = &self.call.dropout else { return };
        let (head, (i0, i1), (j0, j1)) = part;
        let factor = T::from_f64(dropout.factor);
        let words = std::slice::from_raw_parts_mut(slot.words, j1 - j0);
        let start = std::slice::from_raw_parts(run.ptr::<i32>(dropout.start), dropout.total.len());
        let (rank, mut rest, mut index) = (dropout.total.len(), head, 0u64);
        for dim in (0..rank).rev() {
            let own = match rank - dim {
                1 => j0,
                2 => i0,
                _ => {
                    let size = self.heads[dim];
                    let own = rest % size;
                    rest /= size;
                    own
                }
            };
            index += (start[dim] as u64 + own as u64) * self.strides[dim] as u64;
        }
        for i in 0..i1 - i0 {
            let index = index + i as u64 * self.strides[rank - 2] as u64;
            fill(run.isa, *run.ptr::<[u32; 2]>(dropout.words), 0, index, words);
            for (j, word) in words.iter().enumerate() {
                let x = &mut *block.add(j * QUERIES + i);
                *x = if *word < dropout.threshold { *x * factor } else { T::ZERO };
            }
        }
    }

    /// Refuses a block that is outside of the whole tensor for which random words are drawn.
    pub(super) unsafe fn check(&self, run: &Run) -> Result<()> {
        let Some(dropout) = &self.call.dropout else { return Ok(()) };
        let start = std::slice::from_raw_parts(run.ptr::<i32>(dropout.start), dropout.total.len());
        let shape = self.heads.iter().chain([&self.call.n, &self.call.m]);
        for ((at, size), total) in start.iter().zip(shape).zip(&dropout.total) {
            if *at < 0 || *at as usize + size > *total {
                bail!("start {at} puts {size} scores outside the {total} of the whole");
            }
        }
        Ok(())
    }
}

/// A matrix without gaps.
pub(super) fn whole<T>(ptr: *mut T, columns: usize) -> Matrix<T> {
    Matrix { ptr: ptr.cast_const(), rows: columns as isize, columns: 1 }
}

/// Pieces of a dim, of at most `size`.
pub(super) fn pieces(from: usize, to: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (from..to).step_by(size).map(move |start| (start, to.min(start + size)))
}

/// `out = a · b`, or `out += a · b`, with `out` in rows. Both operands are read in place where rows of `b` have no gaps.
pub(super) unsafe fn multiply<T: Real>(isa: Isa, [m, n, k]: [usize; 3], [a, b, out]: [Matrix<T>; 3], accumulate: bool) {
    if b.columns != 1 {
        return product(isa, [m, n, k], [a, b, out], accumulate);
    }
    long_block(isa, &in_place(isa, [m, n, k], [a, b, out], (accumulate, DEPTH)));
}

by_isa! { fn advance<T: Float>(block: &mut [Each<T>], lanes: usize, tops: &mut Each<T>, sums: &mut Each<T>, before: &mut Each<T>) => advance_body }
by_isa! { fn total<T: Float>(tops: &mut Each<T>, sums: &mut Each<T>) => total_body }
by_isa! { fn times<T: Float>(rows: &mut [T], by: &[T]) => times_body }

/// Turns scores into weights relative to the largest score so far; `before` gets the factors for earlier weights.
#[inline(always)]
unsafe fn advance_body<L: Level, T: Float>(
    block: &mut [Each<T>],
    lanes: usize,
    tops: &mut Each<T>,
    sums: &mut Each<T>,
    before: &mut Each<T>,
) {
    for first in (0..lanes).step_by(LANES) {
        let part = |row: &Each<T>| row.as_ptr().add(first).cast::<[T; LANES]>().read();
        // NaN among scores makes the sum NaN.
        let mut high = part(tops);
        for row in block.iter() {
            let row = part(row);
            (0..LANES).for_each(|l| high[l] = if row[l] > high[l] { row[l] } else { high[l] });
        }
        // A query without visible keys: every difference to its maximum would be NaN.
        let shift = high.map(|high| if high == T::LOWEST { T::ZERO } else { high });
        let mut sum = part(sums);
        for l in 0..LANES {
            before[first + l] = (tops[first + l] - shift[l]).decay();
            sum[l] = sum[l] * before[first + l];
        }
        for rows in block.chunks_mut(CHAIN / 4) {
            let mut chain = [T::ZERO; LANES];
            for row in rows {
                let to = &mut *row.as_mut_ptr().add(first).cast::<[T; LANES]>();
                for l in 0..LANES {
                    to[l] = (to[l] - shift[l]).decay();
                    chain[l] = chain[l] + to[l];
                }
            }
            (0..LANES).for_each(|l| sum[l] = sum[l] + chain[l]);
        }
        tops[first..first + LANES].copy_from_slice(&high);
        sums[first..first + LANES].copy_from_slice(&sum);
    }
}

/// Turns maxima into logs of the sums of exponentials, and sums into the factors of weights.
#[inline(always)]
unsafe fn total_body<L: Level, T: Float>(tops: &mut Each<T>, sums: &mut Each<T>) {
    for (top, sum) in tops.iter_mut().zip(sums) {
        let nothing = *sum == T::ZERO;
        let lse = sum.log() + *top;
        *top = if nothing { T::LOWEST } else { lse };
        *sum = T::ONE / if nothing { T::ONE } else { *sum };
    }
}

/// Multiplies equal parts of a slice by a factor each.
#[inline(always)]
unsafe fn times_body<L: Level, T: Float>(rows: &mut [T], by: &[T]) {
    let length = (rows.len() / by.len()).max(1);
    for (row, by) in rows.chunks_exact_mut(length).zip(by) {
        row.iter_mut().for_each(|x| *x = *x * *by);
    }
}

pub struct Attention {
    s: Shape,
    out: At,
    lse: At,
}

impl Attention {
    pub fn new(call: AttentionForwardJson) -> Result<Attention> {
        Ok(Attention { out: call.out, lse: call.lse, s: Shape::new(call.shared)? })
    }
}

impl Kernel for Attention {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe { self.s.check(run)? };
        for_float!(self.s.call.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl Attention {
    unsafe fn typed<T: Real>(&self, run: &Run) {
        let (s, c) = (&self.s, &self.s.call);
        let blocks = c.n.div_ceil(QUERIES);
        let heads: usize = s.heads.iter().product();
        run.pool.run(heads * blocks, c.slots, |worker, task| {
            let (head, i0) = (task / blocks, task % blocks * QUERIES);
            self.rows::<T>(run, head, (i0, c.n.min(i0 + QUERIES)), &s.slot(run, worker));
        });
    }

    unsafe fn rows<T: Real>(&self, run: &Run, head: usize, (i0, i1): (usize, usize), slot: &Slot<T>) {
        let (s, c, count) = (&self.s, &self.s.call, i1 - i0);
        let out = run.ptr::<T>(self.out).add((head * c.n + i0) * c.e);
        let rows = std::slice::from_raw_parts_mut(out, count * c.e);
        let values = c.value.matrix::<T>(run, &c.lead, head / c.r);
        let (mut tops, mut sums, mut before) = ([T::LOWEST; QUERIES], [T::ZERO; QUERIES], [T::ZERO; QUERIES]);
        s.pack(run, head, (i0, i1), slot);
        for (j0, j1) in pieces(0, s.seen(i1), KEYS) {
            let part = (head, (i0, i1), (j0, j1));
            s.scores(run, part, slot);
            let block = std::slice::from_raw_parts_mut(slot.weights.cast(), j1 - j0);
            advance(run.isa, block, count, &mut tops, &mut sums, &mut before);
            if j0 > 0 {
                times(run.isa, rows, &before[..count]);
            }
            s.drop(run, part, slot, slot.weights);
            let weights = whole(slot.weights, QUERIES).transposed();
            multiply(run.isa, [count, c.e, j1 - j0], [weights, values.from(j0, 0), whole(out, c.e)], j0 > 0);
        }
        total(run.isa, &mut tops, &mut sums);
        times(run.isa, rows, &sums[..count]);
        run.ptr::<T>(self.lse).add(head * c.n + i0).copy_from_nonoverlapping(tops.as_ptr(), count);
    }
}
