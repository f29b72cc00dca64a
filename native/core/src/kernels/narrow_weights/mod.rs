//! Products of bytes with a right side whose columns follow each other in memory, as the weights of linear layers do: it is read where it
//! lies, once, by all threads. One row is multiplied in vectors, more rows by tiles whose left side are the weights. All sums are exact.

use super::narrow::operands::Pair;
use super::narrow::NarrowDot;
use crate::calls::NarrowDotJson;
use crate::isa::Isa;
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::Result;

mod product;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(target_arch = "x86_64")]
mod vector;

use product::Product;

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
        if let Some(way) = way(&self.0, run.isa) {
            let NarrowDotJson { b, .. } = self.0.call;
            (0..b).for_each(|batch| unsafe { way(run, &Product::of(&self.0.call, self.0.pair, run, batch)) });
            return Ok(());
        }
        self.0.run(run, step)
    }
}

type Way = unsafe fn(&Run, &Product);

/// What multiplies, if anything here does.
fn way(dot: &NarrowDot, isa: Isa) -> Option<Way> {
    let NarrowDotJson { m, n, k2: k, ref x, ref y, .. } = dot.call;
    let along = y.strides[1] == 1 && x.strides[2] == 1 && matches!(dot.pair, Pair::Bytes { .. });
    if !along || k == 0 {
        return None;
    }
    match m {
        1 if isa >= Isa::Vnni => Some(vector::run),
        2.. if isa >= Isa::Amx && n > 0 => Some(tiles::run),
        _ => None,
    }
}
