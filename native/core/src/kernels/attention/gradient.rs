//! The gradient of attention: each task writes what no other does. Where there are groups for all workers, a task has a group,
//! and computes every block once. Else tasks are rows of keys and values first, then rows of queries, with the same bits.

use super::forward::{multiply, pieces, whole, Each, Part, Shape, Slot, KEYS, QUERIES};
use crate::calls::{AttentionGradJson, StridedJson};
use crate::dtype::for_float;
use crate::isa::{by_isa, Level};
use crate::kernels::micro::Real;
use crate::kernels::product::pack_right;
use crate::scalar::Float;
use crate::step::{Kernel, Run};
use crate::verify::At;
use crate::Result;

pub struct AttentionGrad {
    s: Shape,
    lse: At,
    delta: At,
    dy: StridedJson,
    dq: At,
    dk: At,
    dv: At,
}

impl AttentionGrad {
    pub fn new(call: AttentionGradJson) -> Result<AttentionGrad> {
        let AttentionGradJson { shared, lse, delta, dy, dq, dk, dv } = call;
        Ok(AttentionGrad { s: Shape::new(shared)?, lse, delta, dy, dq, dk, dv })
    }
}

impl Kernel for AttentionGrad {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe { self.s.check(run)? };
        for_float!(self.s.call.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl AttentionGrad {
    unsafe fn typed<T: Real>(&self, run: &Run) {
        let (s, c) = (&self.s, &self.s.call);
        let (groups, heads) = (c.lead.iter().product::<usize>(), s.heads.iter().product::<usize>());
        let (columns, rows) = (c.m.div_ceil(KEYS), c.n.div_ceil(QUERIES));
        // Of a block's seven products in two walks, one walk needs five.
        let single = groups.div_ceil(c.slots).saturating_mul(c.slots) * 5 <= groups * 7;
        let parts = if single { 1 } else { columns };
        run.pool.run(groups * parts, c.slots, |worker, task| {
            let own = if single { 0..columns } else { task % parts..task % parts + 1 };
            for j0 in own.map(|column| column * KEYS) {
                self.keys::<T>(run, task / parts, (j0, c.m.min(j0 + KEYS)), single, &s.slot(run, worker));
            }
        });
        if single {
            return;
        }
        run.pool.run(heads * rows, c.slots, |worker, task| {
            let (head, i0) = (task / rows, task % rows * QUERIES);
            let (rows, slot) = ((i0, c.n.min(i0 + QUERIES)), s.slot::<T>(run, worker));
            self.pack(run, head, rows, &slot);
            for columns in pieces(0, s.seen(rows.1), KEYS) {
                self.block(run, (head, rows, columns), &slot);
                self.queries(run, (head, rows, columns), &slot);
            }
        });
    }

    unsafe fn pack<T: Real>(&self, run: &Run, head: usize, rows: (usize, usize), slot: &Slot<T>) {
        self.s.pack(run, head, rows, slot);
        let dy = self.dy.matrix::<T>(run, &self.s.heads, head).from(rows.0, 0);
        pack_right(dy.transposed(), self.s.call.e, rows.1 - rows.0, slot.dy);
    }

    /// Weights as they are kept, and the cotangents of scores before they are scaled.
    unsafe fn block<T: Real>(&self, run: &Run, part: Part, slot: &Slot<T>) {
        let (s, c, (head, rows, columns)) = (&self.s, &self.s.call, part);
        let (first, count, keys) = (head * c.n + rows.0, rows.1 - rows.0, columns.1 - columns.0);
        s.scores(run, part, slot);
        let values = c.value.matrix::<T>(run, &c.lead, head / c.r).from(columns.0, 0);
        multiply(run.isa, [keys, count, c.e], [values, whole(slot.dy, count), whole(slot.changes, QUERIES)], false);
        s.drop(run, part, slot, slot.changes);
        let [mut lse, mut delta] = [[T::ZERO; QUERIES]; 2];
        lse.as_mut_ptr().copy_from_nonoverlapping(run.ptr::<T>(self.lse).add(first), count);
        delta.as_mut_ptr().copy_from_nonoverlapping(run.ptr::<T>(self.delta).add(first), count);
        let weights = std::slice::from_raw_parts_mut(slot.weights.cast(), keys);
        let changes = std::slice::from_raw_parts_mut(slot.changes.cast(), keys);
        change(run.isa, weights, changes, &lse, &delta, T::from_f64(c.scale));
        s.drop(run, part, slot, slot.weights);
    }

    /// The gradients of keys and values; of queries too, if this is the `single` walk.
    unsafe fn keys<T: Real>(&self, run: &Run, group: usize, (j0, j1): (usize, usize), single: bool, slot: &Slot<T>) {
        let (s, c) = (&self.s, &self.s.call);
        let dk = whole(run.ptr::<T>(self.dk).add((group * c.m + j0) * c.d), c.d);
        let dv = whole(run.ptr::<T>(self.dv).add((group * c.m + j0) * c.e), c.e);
        std::slice::from_raw_parts_mut(dk.ptr.cast_mut(), (j1 - j0) * c.d).fill(T::ZERO);
        std::slice::from_raw_parts_mut(dv.ptr.cast_mut(), (j1 - j0) * c.e).fill(T::ZERO);
        // Queries before the first key see none of them.
        let first = if c.causal { j0 / QUERIES * QUERIES } else { 0 };
        for head in group * c.r..(group + 1) * c.r {
            for rows in pieces(first, c.n, QUERIES) {
                let part = (head, rows, (j0, j1.min(s.seen(rows.1))));
                self.pack(run, head, rows, slot);
                self.block(run, part, slot);
                let q = c.query.matrix::<T>(run, &s.heads, head).from(rows.0, 0);
                let dy = self.dy.matrix::<T>(run, &s.heads, head).from(rows.0, 0);
                let (keys, count) = (part.2 .1 - j0, rows.1 - rows.0);
                multiply(run.isa, [keys, c.e, count], [whole(slot.weights, QUERIES), dy, dv], true);
                multiply(run.isa, [keys, c.d, count], [whole(slot.changes, QUERIES), q, dk], true);
                if single {
                    self.queries(run, part, slot);
                }
            }
        }
    }

    /// Adds a block's part of the gradient of its queries.
    unsafe fn queries<T: Real>(&self, run: &Run, (head, (i0, i1), (j0, j1)): Part, slot: &Slot<T>) {
        let c = &self.s.call;
        let dq = whole(run.ptr::<T>(self.dq).add((head * c.n + i0) * c.d), c.d);
        let k = c.key.matrix::<T>(run, &c.lead, head / c.r).from(j0, 0);
        let changes = whole(slot.changes, QUERIES).transposed();
        multiply(run.isa, [i1 - i0, c.d, j1 - j0], [changes, k, dq], j0 > 0);
    }
}

by_isa! { fn change<T: Float>(weights: &mut [Each<T>], changes: &mut [Each<T>], lse: &Each<T>, delta: &Each<T>, scale: T) => change_body }

/// Turns scores into weights, and the cotangents of weights into those of scores.
#[inline(always)]
unsafe fn change_body<L: Level, T: Float>(
    weights: &mut [Each<T>],
    changes: &mut [Each<T>],
    lse: &Each<T>,
    delta: &Each<T>,
    scale: T,
) {
    let shift = lse.map(|lse| if lse == T::LOWEST { T::ZERO } else { lse });
    for (weights, changes) in weights.iter_mut().zip(changes) {
        for l in 0..QUERIES {
            weights[l] = (weights[l] - shift[l]).decay();
            changes[l] = weights[l] * (changes[l] - delta[l]) * scale;
        }
    }
}
