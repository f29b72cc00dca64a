//! Attention without the matrix of scores: blocks of queries and keys with a running maximum and sum per row (Rabe and
//! Staats, 2021; Dao et al., 2022). The gradient computes the weights of a block again from the log of each row's sum.
//! Blocks are of fixed size and go in order, so bits depend on shapes and the instruction set alone.

use crate::calls::{AttentionForwardJson, AttentionJson, StridedJson};
use crate::dtype::{for_float, DType};
use crate::isa::{by_isa, Level};
use crate::kernels::micro::Real;
use crate::kernels::product::{product, Matrix};
use crate::kernels::random::fill;
use crate::scalar::Float;
use crate::sizes::offset_of;
use crate::step::{Kernel, Run};
use crate::verify::{contiguous, count, At};
use crate::{bail, Result};

/// Queries and keys of a block.
pub(super) const ROWS: usize = 64;
pub(super) const COLUMNS: usize = 128;
const LANES: usize = 16;

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
    pub(super) top: *mut T,
    pub(super) sum: *mut T,
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
        let changes = weights.add(ROWS * COLUMNS);
        let top = changes.add(ROWS * COLUMNS);
        Slot { weights, changes, top, sum: top.add(ROWS), words: top.add(4 * ROWS).cast() }
    }

    /// Columns that the rows before `end` may see.
    pub(super) fn seen(&self, end: usize) -> usize {
        if self.call.causal {
            self.call.m.min(end)
        } else {
            self.call.m
        }
    }

    /// The scores of a block, scaled and masked, `COLUMNS` apart.
    pub(super) unsafe fn scores<T: Real>(
        &self,
        run: &Run,
        head: usize,
        (i0, i1): (usize, usize),
        (j0, j1): (usize, usize),
        to: *mut T,
    ) {
        let q = self.call.query.matrix::<T>(run, &self.heads, head).from(i0, 0);
        let k = self.call.key.matrix::<T>(run, &self.call.lead, head / self.call.r).from(j0, 0);
        product(run.isa, i1 - i0, j1 - j0, self.call.d, q, k.transposed(), block(to), false);
        for i in i0..i1 {
            let row = std::slice::from_raw_parts_mut(to.add((i - i0) * COLUMNS), j1 - j0);
            let sight = if self.call.causal { (i + 1).saturating_sub(j0).min(row.len()) } else { row.len() };
            scale(run.isa, T::from_f64(self.call.scale), sight, row);
            if let Some(mask) = &self.call.mask {
                if mask.dtype == DType::Bool {
                    let kept: Matrix<u8> = matrix(run, mask.at, &mask.strides, &self.heads, head).from(i, j0);
                    for (j, s) in row[..sight].iter_mut().enumerate() {
                        if *kept.ptr.offset(j as isize * kept.columns) == 0 {
                            *s = T::LOWEST;
                        }
                    }
                } else {
                    let added: Matrix<T> = matrix(run, mask.at, &mask.strides, &self.heads, head).from(i, j0);
                    for (j, s) in row[..sight].iter_mut().enumerate() {
                        *s = *s + *added.ptr.offset(j as isize * added.columns);
                    }
                }
            }
        }
    }

    /// Multiplies the values of a row by 0 where dropout applies, else by the factor of the call.
    pub(super) unsafe fn drop<T: Real>(
        &self,
        run: &Run,
        head: usize,
        i: usize,
        j0: usize,
        slot: &Slot<T>,
        rows: &mut [&mut [T]],
    ) {
        let Some(dropout) = &self.call.dropout else { return };
        let Some(length) = rows.first().map(|row| row.len()) else { return };
        let words = std::slice::from_raw_parts_mut(slot.words, length);
        let start = std::slice::from_raw_parts(run.ptr::<i32>(dropout.start), dropout.total.len());
        let (rank, mut rest, mut index) = (dropout.total.len(), head, 0u64);
        for dim in (0..rank).rev() {
            let own = match rank - dim {
                1 => j0,
                2 => i,
                _ => {
                    let size = self.heads[dim];
                    let own = rest % size;
                    rest /= size;
                    own
                }
            };
            index += (start[dim] as u64 + own as u64) * self.strides[dim] as u64;
        }
        fill(run.isa, *run.ptr::<[u32; 2]>(dropout.words), 0, index, words);
        let factor = T::from_f64(dropout.factor);
        for row in rows {
            for (x, word) in row.iter_mut().zip(words.iter()) {
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

pub(super) fn block<T>(ptr: *const T) -> Matrix<T> {
    Matrix { ptr, rows: COLUMNS as isize, columns: 1 }
}

pub(super) fn whole<T>(ptr: *mut T, columns: usize) -> Matrix<T> {
    Matrix { ptr: ptr.cast_const(), rows: columns as isize, columns: 1 }
}

/// Pieces of a dim, of at most `size`.
pub(super) fn pieces(from: usize, to: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (from..to).step_by(size).map(move |start| (start, to.min(start + size)))
}

by_isa! { fn scale<T: Float>(by: T, sight: usize, row: &mut [T]) => scale_body }
by_isa! { fn advance<T: Float>(row: &mut [T], top: &mut T, sum: &mut T) -> T => advance_body }
by_isa! { pub(super) fn weigh<T: Float>(row: &mut [T], lse: T) => weigh_body }
by_isa! { pub(super) fn change<T: Float>(weights: &[T], changes: &mut [T], delta: T, scale: T) => change_body }
by_isa! { fn times<T: Float>(row: &mut [T], by: T) => times_body }

/// Scales the visible scores of a row, and masks the others.
#[inline(always)]
unsafe fn scale_body<L: Level, T: Float>(by: T, sight: usize, row: &mut [T]) {
    let (seen, hidden) = row.split_at_mut(sight);
    for s in seen {
        *s = *s * by;
    }
    hidden.fill(T::LOWEST);
}

/// Turns scores into weights relative to the largest score so far; returns the factor for earlier weights.
#[inline(always)]
unsafe fn advance_body<L: Level, T: Float>(row: &mut [T], top: &mut T, sum: &mut T) -> T {
    let mut lanes = [*top; LANES];
    for chunk in row.chunks(LANES) {
        for (lane, s) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max_nan(*s);
        }
    }
    let high = lanes.iter().fold(T::LOWEST, |a, b| a.max_nan(*b));
    // A row without visible scores: every difference to its maximum would be NaN.
    let shift = if high == T::LOWEST { T::ZERO } else { high };
    let before = (*top - shift).exp();
    let mut sums = [T::ZERO; LANES];
    for chunk in row.chunks_mut(LANES) {
        for (lane, s) in sums.iter_mut().zip(chunk) {
            *s = (*s - shift).exp();
            *lane = *lane + *s;
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            sums[l] = sums[l] + sums[l + width];
        }
        width /= 2;
    }
    *sum = *sum * before + sums[0];
    *top = high;
    before
}

#[inline(always)]
unsafe fn weigh_body<L: Level, T: Float>(row: &mut [T], lse: T) {
    let shift = if lse == T::LOWEST { T::ZERO } else { lse };
    for s in row {
        *s = (*s - shift).exp();
    }
}

#[inline(always)]
unsafe fn change_body<L: Level, T: Float>(weights: &[T], changes: &mut [T], delta: T, scale: T) {
    for (c, w) in changes.iter_mut().zip(weights) {
        *c = *w * (*c - delta) * scale;
    }
}

#[inline(always)]
unsafe fn times_body<L: Level, T: Float>(row: &mut [T], by: T) {
    for x in row {
        *x = *x * by;
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
        let blocks = c.n.div_ceil(ROWS);
        let heads: usize = s.heads.iter().product();
        run.pool.run(heads * blocks, c.slots, |worker, task| {
            let (head, i0) = (task / blocks, task % blocks * ROWS);
            self.rows::<T>(run, head, (i0, c.n.min(i0 + ROWS)), &s.slot(run, worker));
        });
    }

    unsafe fn rows<T: Real>(&self, run: &Run, head: usize, (i0, i1): (usize, usize), slot: &Slot<T>) {
        let (s, c) = (&self.s, &self.s.call);
        let out = run.ptr::<T>(self.out).add((head * c.n + i0) * c.e);
        let values = c.value.matrix::<T>(run, &c.lead, head / c.r);
        let tops = std::slice::from_raw_parts_mut(slot.top, i1 - i0);
        let sums = std::slice::from_raw_parts_mut(slot.sum, i1 - i0);
        tops.fill(T::LOWEST);
        sums.fill(T::ZERO);
        for (j0, j1) in pieces(0, s.seen(i1), COLUMNS) {
            s.scores(run, head, (i0, i1), (j0, j1), slot.weights);
            for i in 0..i1 - i0 {
                let row = std::slice::from_raw_parts_mut(slot.weights.add(i * COLUMNS), j1 - j0);
                let before = advance(run.isa, row, &mut tops[i], &mut sums[i]);
                if j0 > 0 {
                    times(run.isa, std::slice::from_raw_parts_mut(out.add(i * c.e), c.e), before);
                }
                s.drop(run, head, i0 + i, j0, slot, &mut [row]);
            }
            let weights = block(slot.weights.cast_const());
            product(run.isa, i1 - i0, c.e, j1 - j0, weights, values.from(j0, 0), whole(out, c.e), j0 > 0);
        }
        let lse = run.ptr::<T>(self.lse).add(head * c.n + i0);
        for i in 0..i1 - i0 {
            let row = std::slice::from_raw_parts_mut(out.add(i * c.e), c.e);
            let nothing = sums[i] == T::ZERO;
            let total = if nothing { T::ONE } else { sums[i] };
            row.iter_mut().for_each(|x| *x = *x / total);
            *lse.add(i) = if nothing { T::LOWEST } else { total.log() + tops[i] };
        }
    }
}
