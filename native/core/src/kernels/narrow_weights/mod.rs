//! Products of bytes with a right side whose columns follow each other in memory, as the weights of linear layers do: it is read where it
//! lies, once, by all threads. One row is multiplied in vectors, more rows by tiles whose left side are the weights. All sums are exact.

use super::narrow::NarrowDot;
use crate::calls::NarrowDotJson;
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::Result;

#[cfg(target_arch = "x86_64")]
pub(super) mod choice;
#[cfg(target_arch = "x86_64")]
pub(super) mod product;
#[cfg(target_arch = "x86_64")]
pub(super) mod tiles;
#[cfg(target_arch = "x86_64")]
mod vector;

kernels! {
    narrowDot = Dot::new;
}

/// A product of narrow numbers.
struct Dot(NarrowDot);

impl Dot {
    fn new(call: NarrowDotJson) -> Result<Dot> {
        NarrowDot::new(call).map(Dot)
    }
}

impl Kernel for Dot {
    fn run(&self, run: &Run, step: usize) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = choice::way(&self.0, run.isa) {
            let NarrowDotJson { b, .. } = self.0.call;
            (0..b).for_each(|batch| unsafe { way(run, &product::Product::of(&self.0.call, self.0.pair, run, batch)) });
            return Ok(());
        }
        self.0.run(run, step)
    }
}
