//! Scatter: rows of updates combined into a copy of a table at indices known only when it runs.

use serde::Deserialize;

use crate::dtype::{for_dtype, DType, Element};
use crate::exec::Run;
use crate::kernels::row_walk::{ranges_of, scratch_of, RowWalk};
use crate::program::GatherJson;
use crate::verify::{count, At, Checker};
use crate::{bail, bail_value, Result};

/// What becomes of a held element and an update; updates of one row come in order of position.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScatterOp {
    Sum,
    Prod,
    Max,
    Min,
    Replace,
}

#[derive(Deserialize)]
pub struct ScatterJson {
    pub op: ScatterOp,
    #[serde(flatten)]
    pub sizes: GatherJson,
}

/// Numbers that multiply; integers wrap.
trait Multiply: Element {
    fn mul(self, other: Self) -> Self;
}

macro_rules! multiply {
    ($($t:ty, |$a:ident, $b:ident| $product:expr;)+) => {
        $(impl Multiply for $t {
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $product
            }
        })+
    };
}

multiply! {
    f32, |a, b| a * b;
    f64, |a, b| a * b;
    i32, |a, b| a.wrapping_mul(b);
    u32, |a, b| a.wrapping_mul(b);
    i8, |a, b| a.wrapping_mul(b);
    i64, |a, b| a.wrapping_mul(b);
    u64, |a, b| a.wrapping_mul(b);
    u16, |a, b| a.wrapping_mul(b);
    u8, |a, b| a.wrapping_mul(b);
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
    pub fn new(json: &ScatterJson, mut checker: Checker) -> Result<Scatter> {
        let j = &json.sizes;
        count(&[j.outer, j.size, j.inner])?;
        count(&[j.outer, j.count, j.inner])?;
        if j.dtype == DType::Bool && matches!(json.op, ScatterOp::Sum | ScatterOp::Prod) {
            bail!("{:?} is not defined for bool", json.op);
        }
        if j.dtype.is_half() && json.op != ScatterOp::Replace {
            bail!("{:?} is not defined for {}", json.op, j.dtype.name());
        }
        let (Some(input), Some(updates)) = (j.input, j.updates) else { bail!("in or updates is missing") };
        checker.read_all("indices", j.indices, DType::I32, &[j.outer, j.count])?;
        // Only the table itself may be where the output is.
        if input != j.out {
            checker.read_all("in", input, j.dtype, &[j.outer, j.size, j.inner])?;
        }
        checker.read_all("updates", updates, j.dtype, &[j.outer, j.count, j.inner])?;
        checker.write_all("out", j.out, j.dtype, &[j.outer, j.size, j.inner])?;
        if json.op == ScatterOp::Sum {
            scratch_of(j, &mut checker)?;
        } else if j.scratch.is_some() {
            bail!("scratch is for sums");
        }
        checker.finish(false)?;
        Ok(Scatter {
            op: json.op,
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

    pub fn run(&self, run: &Run) -> Result<()> {
        unsafe {
            let indices = std::slice::from_raw_parts(run.ptr::<i32>(self.indices), self.outer * self.count);
            if let Some(at) = indices.iter().position(|i| *i < 0 || *i as usize >= self.size) {
                bail_value!("index {} at position {at} is outside [0, {})", indices[at], self.size)
            }
            for_dtype!(self.dtype, T => match self.op {
                ScatterOp::Sum => self.typed::<T>(run, indices, Element::add),
                ScatterOp::Prod => self.typed::<T>(run, indices, Multiply::mul),
                ScatterOp::Max => self.typed::<T>(run, indices, Element::max_nan),
                ScatterOp::Min => self.typed::<T>(run, indices, Element::min_nan),
                ScatterOp::Replace => self.typed::<T>(run, indices, |_, new| new),
            });
        }
        Ok(())
    }

    /// What is not copied costs nothing: in place, the updates alone are the work.
    fn ranges(&self, in_place: bool) -> usize {
        ranges_of(if in_place { self.count.min(self.size) } else { self.size } * self.inner, self.size)
    }

    /// Where there is scratch it is for sums, the only ones that lose anything.
    unsafe fn typed<T: Element>(&self, run: &Run, indices: &[i32], combined: impl Fn(T, T) -> T + Sync) {
        let (input, out) = (run.ptr::<T>(self.input) as usize, run.ptr::<T>(self.out) as usize);
        let Scatter { outer, size, count, inner, .. } = *self;
        let walk = RowWalk { outer, size, count, inner, start: 0, ranges: self.ranges(input == out) };
        let lost = self.scratch.map(|at| run.ptr::<T>(at));
        let begin = |rows: &mut [T], offset: usize| {
            if input != out {
                rows.copy_from_slice(std::slice::from_raw_parts((input as *const T).add(offset), rows.len()));
            }
        };
        walk.combine(run, indices, run.ptr::<T>(self.updates), out as *mut T, lost, begin, combined);
    }
}
