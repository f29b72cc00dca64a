//! Factorisations of matrices, one matrix of a batch per task. f32 is computed in f64 and rounded once.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::calls::{FactorJson, FactorKind};
use crate::dtype::DType;
use crate::isa::Isa;
use crate::kernels::lu::lu;
use crate::kernels::qr::{qr, qr_work};
use crate::kernels::room::Room;
use crate::kernels::spectral::{singular, symmetric_eigen};
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::verify::{count, At};
use crate::{bail, Fault, Result};

kernels! {
    factor = Factor::new;
}

pub struct Factor {
    call: FactorJson,
    inputs: Vec<(At, usize)>,
    outputs: Vec<(At, usize)>,
    room: Room,
}

/// Elements of the inputs and outputs of one matrix.
fn sides(json: &FactorJson) -> (Vec<usize>, Vec<usize>) {
    let (m, n) = (json.m, json.n);
    let k = m.min(n);
    match json.what {
        FactorKind::Cholesky => (vec![m * m], vec![m * m]),
        FactorKind::TriangularSolve => (vec![m * m, m * n], vec![m * n]),
        FactorKind::Lu => (vec![m * m], vec![m * m, m, 1]),
        FactorKind::Qr => (vec![m * n], vec![m * k, k * n, 1]),
        FactorKind::Svd => (vec![m * n], vec![m * k, k, k * n]),
        FactorKind::Eigh => (vec![m * m], vec![m, m * m]),
    }
}

/// The dtype of a result: i32 for the row order of `lu`, else that of the call.
fn result(kind: FactorKind, output: usize, dtype: DType) -> DType {
    if kind == FactorKind::Lu && output == 1 {
        DType::I32
    } else {
        dtype
    }
}

impl Factor {
    pub fn new(call: FactorJson) -> Result<Factor> {
        count(&[call.m, call.m.max(call.n)])?;
        if !call.dtype.is_float() {
            bail!("{:?} of {} is not supported", call.what, call.dtype.name());
        }
        let (inputs, outputs) = sides(&call);
        let room = Room::new::<f64>(call.batch, inputs.iter().sum::<usize>() + work(&call, &outputs))?;
        let with = |ats: &[At], sizes: Vec<usize>| ats.iter().copied().zip(sizes).collect();
        Ok(Factor { inputs: with(&call.inputs, inputs), outputs: with(&call.outputs, outputs), room, call })
    }
}

impl Kernel for Factor {
    fn extra(&self) -> usize {
        self.room.bytes()
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let wrong = AtomicUsize::new(usize::MAX);
        run.pool.run(self.call.batch, self.room.workers, |worker, index| {
            let mut memory = Memory(unsafe { &mut *self.room.of(run, 0, worker) });
            if !unsafe { self.factor(run, index, &mut memory) } {
                wrong.fetch_min(index, Ordering::Relaxed);
            }
        });
        let matrix = wrong.into_inner();
        if matrix == usize::MAX {
            return Ok(());
        }
        Err(match self.call.what {
            FactorKind::Cholesky => Fault::NotPositiveDefinite { matrix },
            FactorKind::TriangularSolve => Fault::Singular { matrix, pivot: self.zero(run, matrix).unwrap_or(0) },
            _ => Fault::NotConverging { matrix },
        }
        .into())
    }
}

impl Factor {
    /// Where the diagonal of a triangle has its first zero.
    fn zero(&self, run: &Run, index: usize) -> Option<usize> {
        let (at, size) = self.inputs[0];
        let place = |i: usize| index * size + i * self.call.m + i;
        (0..self.call.m).find(|i| match self.call.dtype {
            DType::F64 => unsafe { *run.ptr::<f64>(at).add(place(*i)) == 0.0 },
            _ => unsafe { *run.ptr::<f32>(at).add(place(*i)) == 0.0 },
        })
    }

    unsafe fn read(&self, run: &Run, (at, size): (At, usize), index: usize, to: &mut [f64]) {
        match self.call.dtype {
            DType::F64 => {
                to.copy_from_slice(std::slice::from_raw_parts(run.ptr::<f64>(at).add(index * size), size));
            }
            _ => {
                let from = std::slice::from_raw_parts(run.ptr::<f32>(at).add(index * size), size);
                to.iter_mut().zip(from).for_each(|(to, x)| *to = f64::from(*x));
            }
        }
    }

    unsafe fn write(&self, run: &Run, output: usize, index: usize, values: &[f64]) {
        let (at, size) = self.outputs[output];
        match result(self.call.what, output, self.call.dtype) {
            DType::I32 => {
                let to = std::slice::from_raw_parts_mut(run.ptr::<i32>(at).add(index * size), size);
                to.iter_mut().zip(values).for_each(|(to, value)| *to = *value as i32);
            }
            DType::F64 => std::ptr::copy_nonoverlapping(values.as_ptr(), run.ptr::<f64>(at).add(index * size), size),
            _ => {
                let to = std::slice::from_raw_parts_mut(run.ptr::<f32>(at).add(index * size), size);
                to.iter_mut().zip(values).for_each(|(to, value)| *to = *value as f32);
            }
        }
    }

    /// Factors one matrix; returns whether the factorisation exists.
    unsafe fn factor(&self, run: &Run, index: usize, memory: &mut Memory) -> bool {
        let (m, n) = (self.call.m, self.call.n);
        let first = memory.take(self.inputs[0].1);
        self.read(run, self.inputs[0], index, first);
        // Iterative decompositions allocate their memory.
        let found = match self.call.what {
            FactorKind::Cholesky => {
                let done = cholesky(first, m, memory.take(m));
                self.write(run, 0, index, first);
                return done;
            }
            FactorKind::TriangularSolve => {
                let x = memory.take(m * n);
                self.read(run, self.inputs[1], index, x);
                let done = self.solve(first, x);
                self.write(run, 0, index, x);
                return done;
            }
            FactorKind::Lu => {
                let order = memory.take(m);
                let sign = lu(first, m, order);
                self.write(run, 0, index, first);
                self.write(run, 1, index, order);
                self.write(run, 2, index, &[sign]);
                return true;
            }
            FactorKind::Qr => {
                let (q, r) = (memory.take(m * m.min(n)), memory.take(m.min(n) * n));
                let sign = qr(first, (m, n), q, r, memory.take(qr_work(m, n)));
                self.write(run, 0, index, q);
                self.write(run, 1, index, r);
                self.write(run, 2, index, &[sign]);
                return true;
            }
            FactorKind::Svd => svd(run.isa, first, m, n),
            FactorKind::Eigh => eigh(run.isa, first, m),
        };
        let Some(found) = found else { return false };
        found.iter().enumerate().for_each(|(i, values)| self.write(run, i, index, values));
        true
    }

    /// Substitution, row after row of the right-hand sides.
    fn solve(&self, a: &[f64], x: &mut [f64]) -> bool {
        let (m, n) = (self.call.m, self.call.n);
        let at =
            |row: usize, column: usize| if self.call.transpose { a[column * m + row] } else { a[row * m + column] };
        let forward = self.call.lower != self.call.transpose;
        for step in 0..m {
            let row = if forward { step } else { m - 1 - step };
            let others = if forward { 0..row } else { row + 1..m };
            let (before, rest) = x.split_at_mut(row * n);
            let (mine, after) = rest.split_at_mut(n);
            for other in others {
                let factor = at(row, other);
                let from = if forward { &before[other * n..] } else { &after[(other - row - 1) * n..] };
                mine.iter_mut().zip(from).for_each(|(x, y)| *x -= factor * y);
            }
            if !self.call.unit {
                let pivot = at(row, row);
                if pivot == 0.0 {
                    return false;
                }
                mine.iter_mut().for_each(|x| *x /= pivot);
            }
        }
        true
    }
}

/// Pieces of a worker's memory, one after another.
struct Memory<'a>(&'a mut [f64]);

impl<'a> Memory<'a> {
    fn take(&mut self, count: usize) -> &'a mut [f64] {
        let (piece, rest) = std::mem::take(&mut self.0).split_at_mut(count);
        self.0 = rest;
        piece
    }
}

/// The count of numbers that a factorisation needs besides its inputs.
fn work(json: &FactorJson, outputs: &[usize]) -> usize {
    let (m, n) = (json.m, json.n);
    match json.what {
        FactorKind::Cholesky | FactorKind::Lu => m,
        FactorKind::TriangularSolve => outputs[0],
        FactorKind::Qr => outputs[0] + outputs[1] + qr_work(m, n),
        FactorKind::Svd | FactorKind::Eigh => 0,
    }
}

/// Factors column after column and subtracts each from the rows below; returns whether the matrix is positive definite.
fn cholesky(a: &mut [f64], n: usize, column: &mut [f64]) -> bool {
    for k in 0..n {
        let pivot = a[k * n + k];
        // NaN stays NaN, as in other functions.
        if pivot <= 0.0 {
            return false;
        }
        let root = pivot.sqrt();
        a[k * n + k] = root;
        a[k * n + k + 1..(k + 1) * n].fill(0.0);
        let column = &mut column[..n - k - 1];
        column.iter_mut().enumerate().for_each(|(i, x)| *x = a[(k + 1 + i) * n + k] / root);
        for (i, factor) in column.iter().enumerate() {
            let row = &mut a[(k + 1 + i) * n..(k + 2 + i) * n];
            row[k] = *factor;
            row[k + 1..k + 2 + i].iter_mut().zip(&*column).for_each(|(x, y)| *x -= factor * y);
        }
    }
    true
}

/// The results for a matrix with numbers that are not finite.
fn undefined(sizes: &[usize]) -> Vec<Vec<f64>> {
    sizes.iter().map(|size| vec![f64::NAN; *size]).collect()
}

/// -1 where the first component that is no less than 0.3 of the largest in size is negative, else 1.
fn direction(components: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = components.clone().fold(0.0, |a: f64, x| a.max(x.abs()));
    let first = components.into_iter().find(|x| x.abs() >= 0.3 * largest);
    if first.is_some_and(|x| x < 0.0) {
        -1.0
    } else {
        1.0
    }
}

fn eigh(isa: Isa, a: &[f64], n: usize) -> Option<Vec<Vec<f64>>> {
    if n == 0 {
        return Some(vec![Vec::new(), Vec::new()]);
    }
    // Only the lower triangle is read.
    if (0..n).any(|i| a[i * n..=i * n + i].iter().any(|x| !x.is_finite())) {
        return Some(undefined(&[n, n * n]));
    }
    let found = symmetric_eigen(isa, a, n)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| found.values[*i].total_cmp(&found.values[*j]));
    let values = order.iter().map(|i| found.values[*i]).collect();
    let mut vectors = vec![0.0; n * n];
    for (to, from) in order.iter().enumerate() {
        let vector = &found.vectors[from * n..(from + 1) * n];
        let sign = direction(vector.iter().copied());
        (0..n).for_each(|i| vectors[i * n + to] = sign * vector[i]);
    }
    Some(vec![values, vectors])
}

fn svd(isa: Isa, a: &[f64], m: usize, n: usize) -> Option<Vec<Vec<f64>>> {
    let k = m.min(n);
    if k == 0 {
        return Some(undefined(&[0, 0, 0]));
    }
    if a.iter().any(|x| !x.is_finite()) {
        return Some(undefined(&[m * k, k, k * n]));
    }
    let found = singular(isa, a, m, n)?;
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|i, j| found.values[*j].total_cmp(&found.values[*i]));
    let (mut u, mut vt) = (vec![0.0; m * k], vec![0.0; k * n]);
    for (to, from) in order.iter().enumerate() {
        let (left, right) = (&found.left[from * m..(from + 1) * m], &found.right[from * n..(from + 1) * n]);
        let sign = direction(left.iter().copied());
        (0..m).for_each(|i| u[i * k + to] = sign * left[i]);
        (0..n).for_each(|j| vt[to * n + j] = sign * right[j]);
    }
    Some(vec![u, order.iter().map(|i| found.values[*i]).collect(), vt])
}
