//! Scatter: rows of updates combined into a copy of a table at indices known only when it runs.

use crate::dtype::{for_bits, for_number, for_wrapping, DType, Element};
use crate::exec::{kernels, Kernel, Run};
use crate::kernels::fold::{Fold, Max, Min, Sum};
use crate::kernels::row_walk::{ranges_of, scratch_of, RowWalk};
use crate::program::{GatherJson, ScatterOp};
use crate::verify::{count, At, Checker};
use crate::{bail, Fault, Result};

kernels! {
    "scatter" Scatter::new;
}

struct Prod;
/// The last one.
struct Replace;

impl Fold for Prod {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::ONE
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.mul(b)
    }
}
impl Fold for Replace {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn fold<T: Element>(_: T, new: T) -> T {
        new
    }
}

pub struct Scatter {
    op: ScatterOp,
    dtype: DType,
    outer: usize,
    size: usize,
    count: usize,
    inner: usize,
    input: At,
    updates: At,
    indices: At,
    out: At,
    scratch: Option<At>,
}

impl Scatter {
    pub fn new(j: &GatherJson, mut checker: Checker) -> Result<Scatter> {
        let Some(op) = j.op else { bail!("op is missing") };
        count(&[j.outer, j.size, j.inner])?;
        count(&[j.outer, j.count, j.inner])?;
        if j.dtype == DType::Bool && matches!(op, ScatterOp::Sum | ScatterOp::Prod) {
            bail!("{:?} is not defined for bool", op);
        }
        if j.dtype.is_half() && op != ScatterOp::Replace {
            bail!("{:?} is not defined for {}", op, j.dtype.name());
        }
        let (Some(input), Some(updates)) = (j.input, j.updates) else { bail!("in or updates is missing") };
        checker.read_all("indices", j.indices, DType::I32, &[j.outer, j.count])?;
        // Only the table itself may be where the output is.
        if input != j.out {
            checker.read_all("in", input, j.dtype, &[j.outer, j.size, j.inner])?;
        }
        checker.read_all("updates", updates, j.dtype, &[j.outer, j.count, j.inner])?;
        checker.write_all("out", j.out, j.dtype, &[j.outer, j.size, j.inner])?;
        if op == ScatterOp::Sum {
            scratch_of(j, &mut checker)?;
        } else if j.scratch.is_some() {
            bail!("scratch is for sums");
        }
        checker.finish(false)?;
        Ok(Scatter {
            op,
            dtype: j.dtype,
            outer: j.outer,
            size: j.size,
            count: j.count,
            inner: j.inner,
            input,
            updates,
            indices: j.indices,
            out: j.out,
            scratch: j.scratch,
        })
    }
}

impl Kernel for Scatter {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe {
            let indices = std::slice::from_raw_parts(run.ptr::<i32>(self.indices), self.outer * self.count);
            if let Some(at) = indices.iter().position(|i| *i < 0 || *i as usize >= self.size) {
                return Err(Fault::Index { index: indices[at].into(), position: at, size: self.size }.into());
            }
            let dtype = self.dtype;
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
    /// What is not copied costs nothing: in place, the updates alone are the work.
    fn ranges(&self, in_place: bool) -> usize {
        ranges_of(if in_place { self.count.min(self.size) } else { self.size } * self.inner, self.size)
    }

    /// Where there is scratch it is for sums, the only ones that lose anything.
    unsafe fn typed<T: Element, F: Fold>(&self, run: &Run, indices: &[i32]) {
        let (input, out) = (run.ptr::<T>(self.input) as usize, run.ptr::<T>(self.out) as usize);
        let Scatter { outer, size, count, inner, .. } = *self;
        let walk = RowWalk { outer, size, count, inner, start: 0, ranges: self.ranges(input == out) };
        let lost = self.scratch.map(|at| run.ptr::<T>(at));
        let begin = |rows: &mut [T], offset: usize| {
            if input != out {
                rows.copy_from_slice(std::slice::from_raw_parts((input as *const T).add(offset), rows.len()));
            }
        };
        walk.combine::<T, F>(run, indices, run.ptr::<T>(self.updates), out as *mut T, lost, &begin);
    }
}
