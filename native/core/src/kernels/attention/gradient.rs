//! The gradient of attention: each task writes what no other does, rows of keys and values first, then rows of queries.

use super::{block, change, pieces, weigh, whole, Heads, Shape, Slot, COLUMNS, ROWS};
use crate::dtype::for_float;
use crate::exec::{Kernel, Run};
use crate::kernels::micro::Real;
use crate::kernels::product::product;
use crate::program::AttentionGradJson;
use crate::verify::{At, Checker};
use crate::Result;

pub struct AttentionGrad {
    s: Shape,
    lse: At,
    delta: At,
    dy: Heads,
    dq: At,
    dk: At,
    dv: At,
}

impl AttentionGrad {
    pub fn new(json: &AttentionGradJson, mut checker: Checker) -> Result<AttentionGrad> {
        let s = Shape::new(&json.shared, &mut checker)?;
        let lse = json.lse;
        let shaped = |lead: &[usize], rest: &[usize]| [lead, rest].concat();
        checker.read_all("lse", lse, s.dtype, &shaped(&s.heads, &[s.n]))?;
        checker.read_all("delta", json.delta, s.dtype, &shaped(&s.heads, &[s.n]))?;
        checker.read("dy", json.dy.at, s.dtype, &shaped(&s.heads, &[s.n, s.e]), &json.dy.strides)?;
        checker.write_all("dq", json.dq, s.dtype, &shaped(&s.heads, &[s.n, s.d]))?;
        checker.write_all("dk", json.dk, s.dtype, &shaped(&s.groups, &[s.m, s.d]))?;
        checker.write_all("dv", json.dv, s.dtype, &shaped(&s.groups, &[s.m, s.e]))?;
        checker.finish(false)?;
        Ok(AttentionGrad { s, lse, delta: json.delta, dy: Heads::new(&json.dy), dq: json.dq, dk: json.dk, dv: json.dv })
    }
}

impl Kernel for AttentionGrad {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe { self.s.check(run)? };
        for_float!(self.s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl AttentionGrad {
    unsafe fn typed<T: Real>(&self, run: &Run) {
        let s = &self.s;
        let (groups, heads) = (s.groups.iter().product::<usize>(), s.heads.iter().product::<usize>());
        let (columns, rows) = (s.m.div_ceil(COLUMNS), s.n.div_ceil(ROWS));
        run.pool.run(groups * columns, s.slots, |worker, task| {
            let (group, j0) = (task / columns, task % columns * COLUMNS);
            self.keys::<T>(run, group, (j0, s.m.min(j0 + COLUMNS)), &s.slot(run, worker));
        });
        run.pool.run(heads * rows, s.slots, |worker, task| {
            let (head, i0) = (task / rows, task % rows * ROWS);
            self.queries::<T>(run, head, (i0, s.n.min(i0 + ROWS)), &s.slot(run, worker));
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
        let s = &self.s;
        let ((i0, i1), (j0, j1)) = (rows, columns);
        s.scores(run, head, rows, columns, slot.weights);
        let dy = self.dy.matrix::<T>(run, &s.heads, head).from(i0, 0);
        let values = s.value.matrix::<T>(run, &s.groups, head / s.r).from(j0, 0);
        product(run.isa, i1 - i0, j1 - j0, s.e, dy, values.transposed(), block(slot.changes), false);
        for i in 0..i1 - i0 {
            let at = head * s.n + i0 + i;
            let (lse, delta) = (*run.ptr::<T>(self.lse).add(at), *run.ptr::<T>(self.delta).add(at));
            let weights = std::slice::from_raw_parts_mut(slot.weights.add(i * COLUMNS), j1 - j0);
            let changes = std::slice::from_raw_parts_mut(slot.changes.add(i * COLUMNS), j1 - j0);
            weigh(run.isa, weights, lse);
            s.drop(run, head, i0 + i, j0, slot, &mut [changes]);
            change(run.isa, weights, changes, delta, T::from_f64(s.scale));
            s.drop(run, head, i0 + i, j0, slot, &mut [weights]);
        }
    }

    unsafe fn keys<T: Real>(&self, run: &Run, group: usize, (j0, j1): (usize, usize), slot: &Slot<T>) {
        let s = &self.s;
        let dk = whole(run.ptr::<T>(self.dk).add((group * s.m + j0) * s.d), s.d);
        let dv = whole(run.ptr::<T>(self.dv).add((group * s.m + j0) * s.e), s.e);
        std::slice::from_raw_parts_mut(dk.ptr.cast_mut(), (j1 - j0) * s.d).fill(T::ZERO);
        std::slice::from_raw_parts_mut(dv.ptr.cast_mut(), (j1 - j0) * s.e).fill(T::ZERO);
        // Rows before the first key see none of them.
        let first = if s.causal { j0 / ROWS * ROWS } else { 0 };
        for head in group * s.r..(group + 1) * s.r {
            for (i0, i1) in pieces(first, s.n, ROWS) {
                self.block(run, head, (i0, i1), (j0, j1), slot);
                let q = s.query.matrix::<T>(run, &s.heads, head).from(i0, 0);
                let dy = self.dy.matrix::<T>(run, &s.heads, head).from(i0, 0);
                let (weights, changes) = (block(slot.weights.cast_const()), block(slot.changes.cast_const()));
                product(run.isa, j1 - j0, s.e, i1 - i0, weights.transposed(), dy, dv, true);
                product(run.isa, j1 - j0, s.d, i1 - i0, changes.transposed(), q, dk, true);
            }
        }
    }

    unsafe fn queries<T: Real>(&self, run: &Run, head: usize, (i0, i1): (usize, usize), slot: &Slot<T>) {
        let s = &self.s;
        let dq = whole(run.ptr::<T>(self.dq).add((head * s.n + i0) * s.d), s.d);
        for (j0, j1) in pieces(0, s.seen(i1), COLUMNS) {
            self.block(run, head, (i0, i1), (j0, j1), slot);
            let k = s.key.matrix::<T>(run, &s.groups, head / s.r).from(j0, 0);
            product(run.isa, i1 - i0, s.d, j1 - j0, block(slot.changes.cast_const()), k, dq, j0 > 0);
        }
    }
}
