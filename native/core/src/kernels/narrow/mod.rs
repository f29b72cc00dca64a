//! Products of narrow numbers with wider sums: bf16 in f32, 8-bit integers in i32. Processors with AMX multiply tiles, those with
//! AVX-512's bf16 and VNNI multiply pairs and quads of numbers in vectors, all others go through f32. The sums of integers are exact.
//! The sum of a product of bf16 depends on the shape and the instruction set alone.

use heddle_half::Bf16;

use crate::calls::NarrowDotJson;
use crate::dtype::DType;
use crate::kernels::product::Matrix;
use crate::step::{Kernel, Run};
use crate::{bail, Result};

#[cfg(target_arch = "x86_64")]
pub(super) mod amx;
pub(crate) mod detect;
pub(super) mod finish;
pub(super) mod operands;
#[cfg(target_arch = "x86_64")]
pub(super) mod pack;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(target_arch = "x86_64")]
mod vector;
mod widened;

use finish::{write, Epilogue, Outcome, Sums};
use operands::{with_room, Lines, Pair, Part};

/// Multiply-adds below which a part is not cut further: about 10 microseconds with tiles.
const GRAIN: usize = 1 << 23;
/// Parts that a product of enough work is cut into where several threads share it.
const PARTS: usize = 16;
/// Most columns of a part, and most rows of one whose sums are kept in memory between blocks of the contracted dim.
const WIDTH: usize = 512;

pub struct NarrowDot {
    pub call: NarrowDotJson,
    pub pair: Pair,
}

impl NarrowDot {
    pub fn new(call: NarrowDotJson) -> Result<NarrowDot> {
        let integer = |dtype: DType| matches!(dtype, DType::I8 | DType::U8);
        let signed = [call.x.dtype, call.y.dtype].map(|dtype| dtype == DType::I8);
        let pair = match (call.x.dtype, call.y.dtype, call.dtype) {
            (DType::Bf16, DType::Bf16, DType::Bf16 | DType::F32) => Pair::Bf16,
            (x, y, DType::I32) if integer(x) && integer(y) => Pair::Bytes { signed },
            (x, y, out) => bail!("a product of {} and {} in {} is not supported", x.name(), y.name(), out.name()),
        };
        Ok(NarrowDot { call, pair })
    }
}

impl Kernel for NarrowDot {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe {
            match self.call.dtype {
                DType::F32 => self.typed::<f32>(run),
                DType::I32 => self.typed::<i32>(run),
                _ => self.typed::<Bf16>(run),
            }
        }
        Ok(())
    }
}

impl NarrowDot {
    unsafe fn typed<O: Outcome>(&self, run: &Run) {
        let NarrowDotJson { b, m, n, k2: k, ref x, ref y, ref out, ref epilogue, .. } = self.call;
        let (rows, columns) = self.cut(run.pool.threads());
        let size = x.dtype.size();
        run.pool.run(b * rows * columns, usize::MAX, |_, task| {
            let (batch, row, column) = (task / (rows * columns), task / columns % rows, task % columns);
            let ([i, i1], [j, j1]) = (range(m, rows, row), range(n, columns, column));
            let lines = |at, strides: &[isize], [across, along]: [usize; 2]| {
                let from = run.ptr::<u8>(at).wrapping_offset(batch as isize * strides[0] * size as isize);
                Lines { from, size, across: strides[across], along: strides[along] }
            };
            let results =
                Matrix { ptr: run.ptr::<O>(out.at).cast_const(), rows: out.strides[1], columns: out.strides[2] };
            let of_batch = Matrix { ptr: results.ptr.wrapping_offset(batch as isize * out.strides[0]), ..results };
            let part = Part {
                isa: run.isa,
                pair: self.pair,
                m: i1 - i,
                n: j1 - j,
                k,
                x: lines(x.at, &x.strides, [1, 2]).at(i, 0),
                y: lines(y.at, &y.strides, [2, 1]).at(j, 0),
                out: of_batch.from(i, j),
                epilogue: Epilogue {
                    bias: epilogue.bias.map(|at| run.ptr::<O>(at).add(j).cast_const()),
                    relu: epilogue.relu,
                },
            };
            multiply(&part);
        });
    }

    /// Parts of the rows and columns. They never change bits: the sum of an element is the same in all of them.
    fn cut(&self, threads: usize) -> (usize, usize) {
        let (b, m, k, n) = (self.call.b, self.call.m, self.call.k2, self.call.n);
        let mut cut = (m.div_ceil(WIDTH), n.div_ceil(WIDTH));
        let work = |cut: (usize, usize)| m.div_ceil(cut.0) * n.div_ceil(cut.1) * k;
        while threads > 1 && b * cut.0 * cut.1 > 0 && b * cut.0 * cut.1 < PARTS && work(cut) > GRAIN {
            let (rows, columns) = (m.div_ceil(cut.0), n.div_ceil(cut.1));
            if rows >= 64 && rows >= columns {
                cut.0 *= 2;
            } else if columns >= 64 {
                cut.1 *= 2;
            } else {
                break;
            }
        }
        cut
    }
}

/// Part `i` of `parts` of a dim, at multiples of 32.
fn range(size: usize, parts: usize, i: usize) -> [usize; 2] {
    let grains = size.div_ceil(32);
    [i, i + 1].map(|i| (grains * i / parts * 32).min(size))
}

unsafe fn multiply<O: Outcome>(part: &Part<O>) {
    let Part { isa, pair, m, n, k, .. } = *part;
    if m == 0 || n == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(unit) = tiles::Unit::of(isa, pair).filter(|_| k > 0) {
        return part.tiled(unit);
    }
    let (sums, room) = (m * n, widened::words(m, n, k));
    with_room(4 * (sums + room), |memory| {
        let totals = Sums { from: memory.cast(), width: n, rows: m, columns: n };
        std::slice::from_raw_parts_mut(totals.from, sums).fill(0);
        widened::sums::<O>(isa, pair, [part.x, part.y], k, totals, totals.from.add(sums).cast());
        write(isa, totals, part.out, part.epilogue);
    });
}
