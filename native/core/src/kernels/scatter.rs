//! Scatter: rows of updates combined into a copy of a table at indices known only when it runs.

use crate::calls::{GatherJson, ScatterOp};
use crate::dtype::{for_bits, for_number, for_wrapping, DType, Element};
use crate::kernels::fold::{Fold, Max, Min, Prod, Replace, Sum};
use crate::kernels::row_walk::{check_scratch, ranges_of, RowWalk};
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::verify::{required, At};
use crate::{bail, Fault, Result};

kernels! {
    scatter = Scatter::new;
}

pub struct Scatter {
    op: ScatterOp,
    input: At,
    updates: At,
    call: GatherJson,
}

impl Scatter {
    pub fn new(call: GatherJson) -> Result<Scatter> {
        let (op, dtype) = (required("op", call.op)?, call.dtype);
        if dtype == DType::Bool && matches!(op, ScatterOp::Sum | ScatterOp::Prod) {
            bail!("{op:?} is not defined for bool");
        }
        if dtype.is_half() && op != ScatterOp::Replace {
            bail!("{op:?} is not defined for {}", dtype.name());
        }
        if op == ScatterOp::Sum {
            check_scratch(&call)?;
        } else if call.scratch.is_some() {
            bail!("only sums may have `scratch`");
        }
        Ok(Scatter { op, input: required("in", call.input)?, updates: required("updates", call.updates)?, call })
    }
}

impl Kernel for Scatter {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe {
            let indices =
                std::slice::from_raw_parts(run.ptr::<i32>(self.call.indices), self.call.outer * self.call.count);
            if let Some(at) = indices.iter().position(|i| *i < 0 || *i as usize >= self.call.size) {
                return Err(Fault::Index { index: indices[at].into(), position: at, size: self.call.size }.into());
            }
            let dtype = self.call.dtype;
            match self.op {
                ScatterOp::Sum => for_wrapping!(dtype, T => self.typed::<T, Sum>(run, indices)),
                ScatterOp::Prod => for_wrapping!(dtype, T => self.typed::<T, Prod>(run, indices)),
                ScatterOp::Max => for_number!(dtype, T => self.typed::<T, Max>(run, indices)),
                ScatterOp::Min => for_number!(dtype, T => self.typed::<T, Min>(run, indices)),
                ScatterOp::Replace if dtype.is_half() => self.typed::<u16, Replace>(run, indices),
                ScatterOp::Replace => for_bits!(dtype, T => self.typed::<T, Replace>(run, indices)),
            }
        }
        Ok(())
    }
}

impl Scatter {
    /// The number of ranges. In place nothing is copied, so the updates alone are the work.
    fn ranges(&self, in_place: bool) -> usize {
        ranges_of(
            if in_place { self.call.count.min(self.call.size) } else { self.call.size } * self.call.inner,
            self.call.size,
        )
    }

    /// Only sums have scratch: other folds have no rounding errors to keep.
    unsafe fn typed<T: Element, F: Fold>(&self, run: &Run, indices: &[i32]) {
        let (input, out) = (run.ptr::<T>(self.input) as usize, run.ptr::<T>(self.call.out) as usize);
        let GatherJson { outer, size, count, inner, .. } = self.call;
        let walk = RowWalk { outer, size, count, inner, start: 0, ranges: self.ranges(input == out) };
        let lost = self.call.scratch.map(|at| run.ptr::<T>(at));
        let begin = |rows: &mut [T], offset: usize| {
            if input != out {
                rows.copy_from_slice(std::slice::from_raw_parts((input as *const T).add(offset), rows.len()));
            }
        };
        walk.combine::<T, F>(run, indices, run.ptr::<T>(self.updates), out as *mut T, lost, &begin);
    }
}
