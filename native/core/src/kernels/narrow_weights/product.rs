//! One product of bytes, and its parts.

use std::ops::Range;

use crate::calls::NarrowDotJson;
use crate::kernels::narrow::finish::Epilogue;
use crate::kernels::narrow::operands::{Lines, Pair};
use crate::kernels::product::Matrix;
use crate::step::Run;

/// Bytes of weights of a part: a few microseconds of reading.
pub const PART: usize = 1 << 17;

/// One product of bytes in i32.
#[derive(Clone, Copy)]
pub struct Product {
    pub signed: [bool; 2],
    /// Rows, columns, and numbers that are contracted.
    pub sizes: [usize; 3],
    pub x: Lines,
    pub weights: Lines,
    pub out: Matrix<i32>,
    pub epilogue: Epilogue<i32>,
}

unsafe impl Send for Product {}
unsafe impl Sync for Product {}

impl Product {
    pub unsafe fn of(call: &NarrowDotJson, pair: Pair, run: &Run, batch: usize) -> Product {
        let NarrowDotJson { m, n, k2: k, ref x, ref y, ref out, ref epilogue, .. } = *call;
        let lines = |at, by: isize, across| {
            let from = run.ptr::<u8>(at).wrapping_offset(batch as isize * by).cast_const();
            Lines { from, size: 1, across, along: 1 }
        };
        let to = run.ptr::<i32>(out.at).wrapping_offset(batch as isize * out.strides[0]).cast_const();
        let signed = if let Pair::Bytes { signed } = pair { signed } else { [false; 2] };
        Product {
            signed,
            sizes: [m, n, k],
            x: lines(x.at, x.strides[0], x.strides[1]),
            weights: lines(y.at, y.strides[0], y.strides[2]),
            out: Matrix { ptr: to, rows: out.strides[1], columns: out.strides[2] },
            epilogue: Epilogue { bias: epilogue.bias.map(|at| run.ptr::<i32>(at).cast_const()), relu: epilogue.relu },
        }
    }
}

/// Calls `f` with parts of the columns, at multiples of `grain`, of about so many bytes of weights.
pub fn parts(run: &Run, [_, n, k]: [usize; 3], grain: usize, f: impl Fn(Range<usize>) + Sync) {
    let grains = n.div_ceil(grain);
    let count = (n * k / PART).clamp(1, grains.max(1));
    let at = |part: usize| (grains * part / count * grain).min(n);
    run.pool.run(count, usize::MAX, |_, part| f(at(part)..at(part + 1)));
}
