//! The gradient of attention: each task writes what no other does, rows of keys and values first, then rows of queries.

use super::forward::{block, change, pieces, weigh, whole, Shape, Slot, COLUMNS, ROWS};
use crate::calls::{AttentionGradJson, StridedJson};
use crate::dtype::for_float;
use crate::kernels::micro::Real;
use crate::kernels::product::product;
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
        let (columns, rows) = (c.m.div_ceil(COLUMNS), c.n.div_ceil(ROWS));
        run.pool.run(groups * columns, c.slots, |worker, task| {
            let (group, j0) = (task / columns, task % columns * COLUMNS);
            self.keys::<T>(run, group, (j0, c.m.min(j0 + COLUMNS)), &s.slot(run, worker));
        });
        run.pool.run(heads * rows, c.slots, |worker, task| {
            let (head, i0) = (task / rows, task % rows * ROWS);
            self.queries::<T>(run, head, (i0, c.n.min(i0 + ROWS)), &s.slot(run, worker));
        });
    }

    /// Weights as they are kept, and the cotangents of scores before they are scaled.
    unsafe fn block<T: Real>(
        &self,
        run: &Run,
        head: usize,
        rows: (usize, usize),
        columns: (usize, usize),
        slot: &Slot<T>,
    ) {
        let (s, c) = (&self.s, &self.s.call);
        let ((i0, i1), (j0, j1)) = (rows, columns);
        s.scores(run, head, rows, columns, slot.weights);
        let dy = self.dy.matrix::<T>(run, &s.heads, head).from(i0, 0);
        let values = c.value.matrix::<T>(run, &c.lead, head / c.r).from(j0, 0);
        product(run.isa, i1 - i0, j1 - j0, c.e, dy, values.transposed(), block(slot.changes), false);
        for i in 0..i1 - i0 {
            let at = head * c.n + i0 + i;
            let (lse, delta) = (*run.ptr::<T>(self.lse).add(at), *run.ptr::<T>(self.delta).add(at));
            let weights = std::slice::from_raw_parts_mut(slot.weights.add(i * COLUMNS), j1 - j0);
            let changes = std::slice::from_raw_parts_mut(slot.changes.add(i * COLUMNS), j1 - j0);
            weigh(run.isa, weights, lse);
            s.drop(run, head, i0 + i, j0, slot, &mut [changes]);
            change(run.isa, weights, changes, delta, T::from_f64(c.scale));
            s.drop(run, head, i0 + i, j0, slot, &mut [weights]);
        }
    }

    unsafe fn keys<T: Real>(&self, run: &Run, group: usize, (j0, j1): (usize, usize), slot: &Slot<T>) {
        let (s, c) = (&self.s, &self.s.call);
        let dk = whole(run.ptr::<T>(self.dk).add((group * c.m + j0) * c.d), c.d);
        let dv = whole(run.ptr::<T>(self.dv).add((group * c.m + j0) * c.e), c.e);
        std::slice::from_raw_parts_mut(dk.ptr.cast_mut(), (j1 - j0) * c.d).fill(T::ZERO);
        std::slice::from_raw_parts_mut(dv.ptr.cast_mut(), (j1 - j0) * c.e).fill(T::ZERO);
        // Rows before the first key see none of them.
        let first = if c.causal { j0 / ROWS * ROWS } else { 0 };
        for head in group * c.r..(group + 1) * c.r {
            for (i0, i1) in pieces(first, c.n, ROWS) {
                self.block(run, head, (i0, i1), (j0, j1), slot);
                let q = c.query.matrix::<T>(run, &s.heads, head).from(i0, 0);
                let dy = self.dy.matrix::<T>(run, &s.heads, head).from(i0, 0);
                let (weights, changes) = (block(slot.weights.cast_const()), block(slot.changes.cast_const()));
                product(run.isa, j1 - j0, c.e, i1 - i0, weights.transposed(), dy, dv, true);
                product(run.isa, j1 - j0, c.d, i1 - i0, changes.transposed(), q, dk, true);
            }
        }
    }

    unsafe fn queries<T: Real>(&self, run: &Run, head: usize, (i0, i1): (usize, usize), slot: &Slot<T>) {
        let (s, c) = (&self.s, &self.s.call);
        let dq = whole(run.ptr::<T>(self.dq).add((head * c.n + i0) * c.d), c.d);
        for (j0, j1) in pieces(0, s.seen(i1), COLUMNS) {
            self.block(run, head, (i0, i1), (j0, j1), slot);
            let k = c.key.matrix::<T>(run, &c.lead, head / c.r).from(j0, 0);
            product(run.isa, i1 - i0, c.d, j1 - j0, block(slot.changes.cast_const()), k, dq, j0 > 0);
        }
    }
}
