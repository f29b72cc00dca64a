//! Cross-entropy of logits and integer labels, and its gradient.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::fold::{join, settle, tree, Sum, CHAIN};
use crate::calls::CrossEntropyJson;
use crate::dtype::for_float;
use crate::isa::{by_isa, Level};
use crate::reader::kernels;
use crate::scalar::Float;
use crate::step::{Kernel, Run};
use crate::{bail, Fault, Result};

kernels! {
    softmaxCrossEntropy = CrossEntropy::new;
    softmaxCrossEntropyGrad = CrossEntropy::new;
}

/// With `dy` the kernel computes the gradient.
pub struct CrossEntropy(CrossEntropyJson);

impl CrossEntropy {
    pub fn new(call: CrossEntropyJson) -> Result<CrossEntropy> {
        if !call.dtype.is_float() {
            bail!("{} is not a float", call.dtype.name());
        }
        Ok(CrossEntropy(call))
    }
}

impl Kernel for CrossEntropy {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.0.rows == 0 {
            return Ok(());
        }
        for_float!(self.0.dtype, T => unsafe { self.typed::<T>(run) })
    }
}

impl CrossEntropy {
    unsafe fn typed<T: Float>(&self, run: &Run) -> Result<()> {
        let CrossEntropyJson { rows, cols, logits, labels, dy, out, .. } = self.0;
        let labels = std::slice::from_raw_parts(run.ptr::<i32>(labels), rows);
        let wrong = AtomicUsize::new(usize::MAX);
        let per_task = ((1 << 14) / cols.max(1)).max(1);
        let (logits, out) = (run.ptr::<T>(logits) as usize, run.ptr::<T>(out) as usize);
        let dy = dy.map(|at| run.ptr::<T>(at) as usize);
        run.pool.run(rows.div_ceil(per_task), usize::MAX, |_, task| {
            for row in task * per_task..rows.min((task + 1) * per_task) {
                let label = labels[row];
                if label < 0 || label as usize >= cols {
                    wrong.fetch_min(row, Ordering::Relaxed);
                    continue;
                }
                let logits = std::slice::from_raw_parts((logits as *const T).add(row * cols), cols);
                match dy {
                    None => *(out as *mut T).add(row) = loss::<T>(run.isa, logits, label as usize),
                    Some(dy) => {
                        let to = std::slice::from_raw_parts_mut((out as *mut T).add(row * cols), cols);
                        gradient::<T>(run.isa, logits, label as usize, *(dy as *const T).add(row), to);
                    }
                }
            }
        });
        let row = wrong.load(Ordering::Relaxed);
        if row != usize::MAX {
            return Err(Fault::Label { index: labels[row].into(), position: row, size: cols }.into());
        }
        Ok(())
    }
}

by_isa! { fn loss<T: Float>(logits: &[T], label: usize) -> T => loss_body }
by_isa! { fn gradient<T: Float>(logits: &[T], label: usize, dy: T, out: &mut [T]) => gradient_body }

/// The largest logit, and the sum of exponentials relative to it in fixed lanes. The exponentials go to `out`, if `KEEP`.
#[inline(always)]
fn normaliser<T: Float, const KEEP: bool>(logits: &[T], out: &mut [T]) -> (T, T) {
    const LANES: usize = 16;
    // NaN among logits makes the sum NaN.
    let mut tops = [T::LOWEST; 4 * LANES];
    for chunk in logits.chunks(4 * LANES) {
        for (top, x) in tops.iter_mut().zip(chunk) {
            *top = if *x > *top { *x } else { *top };
        }
    }
    let top = tops.iter().fold(T::LOWEST, |a, b| a.max_nan(*b));
    // An infinite maximum would make every difference NaN.
    let shift = if top == T::LOWEST { T::ZERO } else { top };
    let [mut totals, mut lost] = [[T::ZERO; LANES]; 2];
    for first in (0..logits.len()).step_by(CHAIN * LANES) {
        let mut lanes = [T::ZERO; LANES];
        for at in (first..logits.len().min(first + CHAIN * LANES)).step_by(LANES) {
            let mut x = [T::LOWEST; LANES];
            match logits[at..].first_chunk() {
                Some(whole) => x = *whole,
                None => x[..logits.len() - at].copy_from_slice(&logits[at..]),
            }
            for l in 0..LANES {
                x[l] = (x[l] - shift).decay();
                lanes[l] = lanes[l] + x[l];
            }
            match out[if KEEP { at } else { 0 }..].first_chunk_mut() {
                _ if !KEEP => {}
                Some(whole) => *whole = x,
                None => out[at..].copy_from_slice(&x[..logits.len() - at]),
            }
        }
        join::<T, Sum>(&mut totals, &mut lost, &lanes);
    }
    settle::<T, Sum>(&mut totals, &lost);
    (shift, tree::<T, Sum, LANES>(&mut totals))
}

#[inline(always)]
unsafe fn loss_body<L: Level, T: Float>(logits: &[T], label: usize) -> T {
    let (top, sum) = normaliser::<T, false>(logits, &mut []);
    (top - logits[label]) + sum.log()
}

#[inline(always)]
unsafe fn gradient_body<L: Level, T: Float>(logits: &[T], label: usize, dy: T, out: &mut [T]) {
    let (_, sum) = normaliser::<T, true>(logits, out);
    let (own, factor) = ((out[label] / sum - T::ONE) * dy, dy / sum);
    out.iter_mut().for_each(|o| *o = *o * factor);
    out[label] = own;
}
