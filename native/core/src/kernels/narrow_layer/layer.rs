//! A layer, and the kernels of its steps.

use std::sync::Arc;

use super::rect::{better, Fold, Rect};
use crate::kernels::narrow::NarrowDot;
use crate::kernels::narrow_weights::choice::by_tiles;
use crate::kernels::narrow_weights::product::Product;
use crate::kernels::narrow_weights::tiles::{packed, part, Rows, DEPTH, STEP};
use crate::step::{Kernel, Run};
use crate::Result;

/// The steps of a layer.
pub(super) struct Layer {
    pub dot: NarrowDot,
    /// Quantises 16 rows and so many steps of 64 numbers; without it the rows are bytes in memory.
    pub before: Option<(usize, Rect)>,
    /// What follows, by the columns that it takes at once, widest first.
    pub after: Vec<(usize, Rect)>,
}

/// A step of a layer: its kernel runs where the layer does not run as one. The last step runs the layer.
pub(super) struct Part {
    pub layer: Arc<Layer>,
    pub kernel: Box<dyn Kernel>,
    pub last: bool,
}

impl Kernel for Part {
    fn run(&self, run: &Run, step: usize) -> Result<()> {
        if !by_tiles(&self.layer.dot, run.isa) {
            return self.kernel.run(run, step);
        }
        if self.last {
            unsafe { self.layer.run(run) };
        }
        Ok(())
    }

    fn extra(&self) -> usize {
        self.kernel.extra()
    }
}

impl Layer {
    unsafe fn run(&self, run: &Run) {
        let p = Product::of(&self.dot.call, self.dot.pair, run, 0);
        let [m, n, _] = p.sizes;
        // Wide parts finish few folds of rows; each thread should have two parts at least.
        let enough = |(width, _): &&(usize, Rect)| n / width >= 2 * run.pool.threads() || run.pool.threads() == 1;
        let Some((width, after)) = self.after.iter().find(enough).or(self.after.last()) else { return };
        let parts = n / width;
        let quantised = self.before.as_ref().map(|(steps, rect)| {
            move |half: usize, step: usize, room: *mut u8| unsafe {
                rect.run(run, [16 * half, step * STEP], |place| (place == rect.own).then_some(room));
                (room.cast_const(), steps * STEP)
            }
        });
        let rows = quantised.as_ref().map(|rows| rows as Rows);
        let depth = self.before.as_ref().map_or(DEPTH, |(steps, _)| *steps);
        packed(run, &p, (depth, rows), after.folds.len() * parts * m, |ready| {
            let found = |fold: usize, part: usize| ready.numbers().add((fold * parts + part) * m);
            run.pool.run(parts, usize::MAX, |_, i| unsafe {
                let turn = |sums: *mut u8| {
                    after.run(run, [0, i * width], |place| match after.folds.iter().position(|f| f.place == place) {
                        Some(fold) => Some(found(fold, i).cast()),
                        None => (place == after.own).then_some(sums),
                    });
                };
                part(run, &p, i * width..(i + 1) * width, ready, Some(&turn));
            });
            for (fold, Fold { larger, at, stride, .. }) in after.folds.iter().enumerate() {
                let best = std::slice::from_raw_parts_mut(found(fold, 0), m);
                for i in 1..parts {
                    better(run.isa, best, std::slice::from_raw_parts(found(fold, i), m), *larger);
                }
                let to = run.ptr::<f32>(*at);
                best.iter().enumerate().for_each(|(row, value)| *to.offset(row as isize * stride) = *value);
            }
        });
    }
}
