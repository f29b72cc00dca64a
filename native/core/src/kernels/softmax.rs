//! Cross-entropy of logits and integer labels, and its gradient.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::fold::{join, settle, tree, Sum, CHAIN};
use crate::dtype::{for_float, DType};
use crate::exec::{kernels, Kernel, Run};
use crate::isa::{by_isa, Level};
use crate::program::CrossEntropyJson;
use crate::scalar::Float;
use crate::verify::{At, Checker};
use crate::{bail, Fault, Result};

kernels! {
    "softmaxCrossEntropy" |call: &CrossEntropyJson, checker| CrossEntropy::new(call, false, checker);
    "softmaxCrossEntropyGrad" |call: &CrossEntropyJson, checker| CrossEntropy::new(call, true, checker);
}

pub struct CrossEntropy {
    dtype: DType,
    rows: usize,
    cols: usize,
    logits: At,
    labels: At,
    /// Present for the gradient.
    dy: Option<At>,
    out: At,
}

impl CrossEntropy {
    pub fn new(json: &CrossEntropyJson, gradient: bool, mut checker: Checker) -> Result<CrossEntropy> {
        let (rows, cols, dtype) = (json.rows, json.cols, json.dtype);
        if !dtype.is_float() {
            bail!("{} is not a float", dtype.name());
        }
        checker.read_all("logits", json.logits, dtype, &[rows, cols])?;
        checker.read_all("labels", json.labels, DType::I32, &[rows])?;
        let dy = if gradient { json.dy } else { None };
        match (gradient, dy) {
            (true, None) => bail!("dy is missing"),
            (true, Some(dy)) => {
                checker.read_all("dy", dy, dtype, &[rows])?;
                checker.write_all("out", json.out, dtype, &[rows, cols])?;
            }
            _ => checker.write_all("out", json.out, dtype, &[rows])?,
        }
        checker.finish(false)?;
        Ok(CrossEntropy { dtype, rows, cols, logits: json.logits, labels: json.labels, dy, out: json.out })
    }
}

impl Kernel for CrossEntropy {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        for_float!(self.dtype, T => unsafe { self.typed::<T>(run) })
    }
}

impl CrossEntropy {
    unsafe fn typed<T: Float>(&self, run: &Run) -> Result<()> {
        let labels = std::slice::from_raw_parts(run.ptr::<i32>(self.labels), self.rows);
        let wrong = AtomicUsize::new(usize::MAX);
        let per_task = ((1 << 14) / self.cols.max(1)).max(1);
        let (logits, out) = (run.ptr::<T>(self.logits) as usize, run.ptr::<T>(self.out) as usize);
        let dy = self.dy.map(|at| run.ptr::<T>(at) as usize);
        run.pool.run(self.rows.div_ceil(per_task), usize::MAX, |_, task| {
            for row in task * per_task..self.rows.min((task + 1) * per_task) {
                let label = labels[row];
                if label < 0 || label as usize >= self.cols {
                    wrong.fetch_min(row, Ordering::Relaxed);
                    continue;
                }
                let logits = std::slice::from_raw_parts((logits as *const T).add(row * self.cols), self.cols);
                match dy {
                    None => *(out as *mut T).add(row) = loss::<T>(run.isa, logits, label as usize),
                    Some(dy) => {
                        let to = std::slice::from_raw_parts_mut((out as *mut T).add(row * self.cols), self.cols);
                        gradient::<T>(run.isa, logits, label as usize, *(dy as *const T).add(row), to);
                    }
                }
            }
        });
        let row = wrong.load(Ordering::Relaxed);
        if row != usize::MAX {
            return Err(Fault::Label { index: labels[row].into(), position: row, size: self.cols }.into());
        }
        Ok(())
    }
}

by_isa! { fn loss<T: Float>(logits: &[T], label: usize) -> T => loss_body }
by_isa! { fn gradient<T: Float>(logits: &[T], label: usize, dy: T, out: &mut [T]) => gradient_body }

/// The largest logit and the sum of exponentials relative to it, in fixed lanes.
#[inline(always)]
fn normaliser<T: Float>(logits: &[T]) -> (T, T) {
    const LANES: usize = 16;
    let top = logits.iter().fold(T::LOWEST, |a, b| a.max_nan(*b));
    // An infinite maximum would make every difference NaN.
    let shift = if top == T::LOWEST { T::ZERO } else { top };
    let [mut totals, mut lost] = [[T::ZERO; LANES]; 2];
    for run in logits.chunks(CHAIN * LANES) {
        let mut lanes = [T::ZERO; LANES];
        let chunks = run.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for l in 0..LANES {
                lanes[l] = lanes[l] + (chunk[l] - shift).exp();
            }
        }
        for (l, x) in rest.iter().enumerate() {
            lanes[l] = lanes[l] + (*x - shift).exp();
        }
        join::<T, Sum>(&mut totals, &mut lost, &lanes);
    }
    settle::<T, Sum>(&mut totals, &lost);
    (shift, tree::<T, Sum, LANES>(&mut totals))
}

#[inline(always)]
unsafe fn loss_body<L: Level, T: Float>(logits: &[T], label: usize) -> T {
    let (top, sum) = normaliser(logits);
    (top - logits[label]) + sum.log()
}

#[inline(always)]
unsafe fn gradient_body<L: Level, T: Float>(logits: &[T], label: usize, dy: T, out: &mut [T]) {
    let (top, sum) = normaliser(logits);
    for (o, x) in out.iter_mut().zip(logits) {
        *o = (*x - top).exp() / sum;
    }
    out[label] = out[label] - T::ONE;
    for o in out.iter_mut() {
        *o = *o * dy;
    }
}
