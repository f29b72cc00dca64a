//! Matrix products: cuts by shape, one `product` per part.

use super::fold::{self, join, settle, Sum, CHAIN, LANES, RUN};
use super::micro::Real;
use super::product::{conflicting, kept, product, put, Matrix, ALL};
use super::symmetric::{is_symmetric, mirror};
use super::tally::totals;
use super::whole::{products, Sizes, Whole};
use crate::calls::DotJson;
use crate::dtype::DType;
use crate::isa::{by_isa, Isa, Level};
use crate::reader::kernels;
use crate::scalar::Float;
use crate::step::{Kernel, Run};
use crate::verify::At;
use crate::{bail, Result};

kernels! {
    dot = Dot::new;
}

/// Multiply-adds below which a part is not cut further: about 4 microseconds, where a helper that spins costs less than one.
pub(super) const GRAIN: usize = 1 << 18;
/// The same for a product with a vector, which reads memory: 256 KiB.
const STREAM: usize = 1 << 16;
/// Most pieces.
const PIECES: usize = 16;
/// Least length of a piece of the contracted dim that gets its own partial result.
const PIECE: usize = 4096;

pub struct Dot {
    call: DotJson,
    x: (At, [isize; 3]),
    y: (At, [isize; 3]),
    out: (At, [isize; 3]),
    /// Pieces of the contracted dim with partial results of their own. Only the shape decides.
    pieces: usize,
    extra: usize,
    /// Whether the right side is the transpose of the left one: what lies below the diagonal is copied.
    symmetric: bool,
}

/// One matrix of a batch.
fn matrix<T>(run: &Run, (at, s): (At, [isize; 3]), batch: usize) -> Matrix<T> {
    let ptr: *const T = run.ptr::<T>(at);
    Matrix { ptr: ptr.wrapping_offset(batch as isize * s[0]), rows: s[1], columns: s[2] }
}

impl Dot {
    pub fn new(call: DotJson) -> Result<Dot> {
        let DotJson { dtype, b, m, n, k2: k, .. } = call;
        if dtype.is_half() || dtype == DType::Bool {
            bail!("a product of {} is not supported", dtype.name());
        }
        if !dtype.is_float() && (call.epilogue.bias.is_some() || call.epilogue.relu) {
            bail!("a product of {} has no epilogue", dtype.name());
        }
        let long = dtype.is_float() && m * n <= 1 << 14 && k >= 2 * PIECE;
        let pieces = if long { (k / PIECE).min(PIECES) } else { 1 };
        // Partial results of all pieces of the contracted dim.
        let extra = if pieces > 1 { pieces * b * m * n * dtype.size() } else { 0 };
        // Three strides each, as many as the operands have dims.
        let [x, y, out] =
            [&call.x, &call.y, &call.out].map(|view| (view.at, [view.strides[0], view.strides[1], view.strides[2]]));
        let symmetric = is_symmetric(&call, [x, y, out]);
        Ok(Dot { x, y, out, pieces, extra, symmetric, call })
    }
}

impl Kernel for Dot {
    fn extra(&self) -> usize {
        self.extra
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.call.b == 0 || self.call.m == 0 || self.call.n == 0 {
            return Ok(());
        }
        unsafe {
            match self.call.dtype {
                DType::F32 => self.typed::<f32>(run),
                DType::F64 => self.typed::<f64>(run),
                DType::I64 | DType::U64 => self.whole::<u64>(run),
                DType::I32 | DType::U32 => self.whole::<u32>(run),
                _ => self.whole::<u8>(run),
            }
        }
        Ok(())
    }
}

impl Dot {
    unsafe fn whole<T: Whole>(&self, run: &Run) {
        let sizes = Sizes { m: self.call.m, k: self.call.k2, n: self.call.n };
        products::<T>(run, self.call.b, sizes, |batch| [self.x, self.y, self.out].map(|view| matrix(run, view, batch)));
    }

    unsafe fn typed<T: Real>(&self, run: &Run) {
        let matrix = |view: (At, [isize; 3]), batch: usize| matrix::<T>(run, view, batch);
        let ck = self.pieces;
        let (cm, cn) = self.cut::<T>(run.pool.threads());
        let parts = cm * cn * ck;
        let partial = run.extra as usize;
        run.pool.run(self.call.b * parts, usize::MAX, |_, task| {
            let (batch, part) = (task / parts, task % parts);
            let (i, j, p) = (part / (cn * ck), part / ck % cn, part % ck);
            let (i0, i1) = range(self.call.m, cm, i, 1);
            let (j0, j1) = range(self.call.n, cn, j, T::columns(run.isa));
            let (p0, p1) = range(self.call.k2, ck, p, 64);
            if self.symmetric && j1 <= i0 {
                return;
            }
            let x = matrix(self.x, batch).from(i0, p0);
            let y = matrix(self.y, batch).from(p0, j0);
            let out = if ck > 1 {
                let area = (batch * ck + p) * self.call.m * self.call.n;
                Matrix { ptr: (partial as *const T).add(area), rows: self.call.n as isize, columns: 1 }
            } else {
                matrix(self.out, batch)
            };
            let out = out.from(i0, j0);
            let skip = if self.symmetric { i0 as isize - j0 as isize } else { ALL };
            self.part(run, [i1 - i0, j1 - j0, p1 - p0], [x, y, out], skip);
            if ck == 1 {
                self.call.epilogue.apply::<T>(run, out, i1 - i0, j0, j1 - j0);
            }
        });
        if ck > 1 {
            for batch in 0..self.call.b {
                let out = matrix(self.out, batch);
                self.combine::<T>(partial as *mut T, batch, out);
                self.call.epilogue.apply::<T>(run, out, self.call.m, 0, self.call.n);
            }
        }
        if self.symmetric {
            (0..self.call.b).for_each(|batch| mirror(self.call.m, matrix(self.out, batch)));
        }
    }

    /// Parts of the rows and columns. They never change bits: each element has the same chain in all of them.
    fn cut<T>(&self, threads: usize) -> (usize, usize) {
        let (b, m, k, n) = (self.call.b, self.call.m, self.call.k2, self.call.n);
        // What comes after a product finds its part in the cache.
        let after = self.call.epilogue.bias.is_some() || self.call.epilogue.relu;
        let mut cut = if after { (m.div_ceil(512), n.div_ceil(1024)) } else { (1, 1) };
        if threads == 1 {
            return cut;
        }
        // The cost of packing an element: a copy, or a transposed copy.
        let left = match self.x.1 {
            [_, row, 1] => usize::from(conflicting::<T>(row)),
            _ => 2,
        };
        let right = if self.y.1[2] == 1 { 1 } else { 2 };
        if m == 1 || n == 1 {
            // One part each, so that memory is read in long streams.
            let parts = (m * n * k / STREAM).clamp(1, threads);
            return if m == 1 { (1, parts) } else { (parts, 1) };
        }
        let work = |c: (usize, usize)| m.div_ceil(c.0) * n.div_ceil(c.1) * k.div_ceil(self.pieces);
        // Half of a symmetric product's parts have little to do.
        let tasks = if self.symmetric { 4 } else { 2 } * threads;
        while b * cut.0 * cut.1 * self.pieces < tasks && work(cut) > GRAIN {
            let (rows, columns) = (m.div_ceil(cut.0), n.div_ceil(cut.1));
            // Another cut of the columns packs the left side once more, one of the rows the right side.
            let by_columns = cut.1 * m * left <= cut.0 * n * right;
            if columns >= 128 && (by_columns || rows < 64) {
                cut.1 *= 2;
            } else if rows >= 64 {
                cut.0 *= 2;
            } else {
                break;
            }
        }
        cut
    }

    /// A product with a vector has loops of its own: for the whole of it or not at all, so that cuts do not matter.
    unsafe fn part<T: Real>(&self, run: &Run, [m, n, k]: [usize; 3], [x, y, out]: [Matrix<T>; 3], skip: isize) {
        let vector = k > 8 && m * n > 0 && (self.call.m == 1 || self.call.n == 1);
        let turned = vector && self.call.n > 1;
        let (m, n, [x, y, out]) =
            if turned { (n, m, [y, x, out].map(Matrix::transposed)) } else { (m, n, [x, y, out]) };
        // Bound by reading the matrix, so it is read in its own order.
        if vector && x.columns == 1 && y.rows == 1 {
            return row_loop::<T>(run.isa, m, k, &x, &y, &out);
        }
        if vector && x.rows == 1 {
            return columns(run.isa, m, k, x, y, out);
        }
        if self.symmetric {
            return kept(run.isa, [m, n, k], [x, y, out], (false, skip));
        }
        product(run.isa, [m, n, k], [x, y, out], false);
    }

    /// Adds the pieces pairwise, in an order that only their number decides.
    unsafe fn combine<T: Real>(&self, partial: *mut T, batch: usize, out: Matrix<T>) {
        let area = self.call.m * self.call.n;
        let base = partial.add(batch * self.pieces * area);
        tree(base, self.pieces, area, area);
        put([self.call.m, self.call.n], out, false, |i, j| *base.add(i * self.call.n + j));
    }
}

/// Sums `count` areas into the first by a fixed binary tree.
pub(super) unsafe fn tree<T: Float>(base: *mut T, count: usize, area: usize, distance: usize) {
    let mut step = 1;
    while step < count {
        for i in (0..count - step).step_by(2 * step) {
            let to = std::slice::from_raw_parts_mut(base.add(i * distance), area);
            let from = std::slice::from_raw_parts(base.add((i + step) * distance), area);
            for (a, b) in to.iter_mut().zip(from) {
                *a = *a + *b;
            }
        }
        step *= 2;
    }
}

/// Part `i` of `parts` of a dim, at multiples of `grain`.
fn range(size: usize, parts: usize, i: usize, grain: usize) -> (usize, usize) {
    let grains = size.div_ceil(grain);
    let at = |i: usize| (grains * i / parts * grain).min(size);
    (at(i), at(i + 1))
}

by_isa! { fn row_loop<T: Float>(m: usize, k: usize, x: &Matrix<T>, y: &Matrix<T>, out: &Matrix<T>) => row_body }
by_isa! { fn add_columns<T: Float>(x: &Matrix<T>, y: &Matrix<T>, k: usize, sums: &mut [T]) => add_columns_body }

#[inline(always)]
unsafe fn row_body<L: Level, T: Float>(m: usize, k: usize, x: &Matrix<T>, y: &Matrix<T>, out: &Matrix<T>) {
    let vector = std::slice::from_raw_parts(y.ptr, k);
    for i in 0..m {
        let row = std::slice::from_raw_parts(x.at(i, 0), k);
        let mut runs = row.chunks(RUN).zip(vector.chunks(RUN));
        let mut totals = runs.next().map_or([T::ZERO; LANES], |(a, b)| run_lanes::<L, T>(a, b));
        if k > RUN {
            let mut lost = [T::ZERO; LANES];
            runs.for_each(|(a, b)| join::<T, Sum>(&mut totals, &mut lost, &run_lanes::<L, T>(a, b)));
            settle::<T, Sum>(&mut totals, &lost);
        }
        *out.at(i, 0).cast_mut() = fold::tree::<T, Sum, LANES>(&mut totals);
    }
}

#[inline(always)]
unsafe fn run_lanes<L: Level, T: Float>(row: &[T], vector: &[T]) -> [T; LANES] {
    let mut lanes = [T::ZERO; LANES];
    let (heads, tails) = (row.chunks_exact(LANES), vector.chunks_exact(LANES));
    let (last_a, last_b) = (heads.remainder(), tails.remainder());
    for (a, b) in heads.zip(tails) {
        for l in 0..LANES {
            lanes[l] = a[l].mul_add::<L>(b[l], lanes[l]);
        }
    }
    for (l, (a, b)) in last_a.iter().zip(last_b).enumerate() {
        lanes[l] = a.mul_add::<L>(*b, lanes[l]);
    }
    lanes
}

unsafe fn columns<T: Real>(isa: Isa, m: usize, k: usize, x: Matrix<T>, y: Matrix<T>, out: Matrix<T>) {
    // Long runs of the memory, so that the processor reads ahead; the sums stay in L1.
    const WIDTH: usize = 4096;
    for i in (0..m).step_by(WIDTH) {
        totals(isa, WIDTH.min(m - i), |tally| {
            for p in (0..k).step_by(CHAIN) {
                tally.sums.fill(T::ZERO);
                add_columns(isa, &x.from(i, p), &y.from(p, 0), CHAIN.min(k - p), tally.sums);
                tally.join();
            }
            tally.settle();
            put([tally.totals.len(), 1], out.from(i, 0), false, |j, _| tally.totals[j]);
        });
    }
}

#[inline(always)]
unsafe fn add_columns_body<L: Level, T: Float>(x: &Matrix<T>, y: &Matrix<T>, k: usize, sums: &mut [T]) {
    const TOGETHER: usize = 8;
    let whole = k - k % TOGETHER;
    for p in (0..whole).step_by(TOGETHER) {
        add_some::<L, T, TOGETHER>(x.from(0, p), y.from(p, 0), sums);
    }
    for p in whole..k {
        add_some::<L, T, 1>(x.from(0, p), y.from(p, 0), sums);
    }
}

/// Adds `N` columns, each times its factor.
#[inline(always)]
unsafe fn add_some<L: Level, T: Float, const N: usize>(x: Matrix<T>, y: Matrix<T>, sums: &mut [T]) {
    let scale: [T; N] = std::array::from_fn(|p| *y.at(p, 0));
    let (lines, rest) = sums.as_chunks_mut::<LANES>();
    let last = lines.len() * LANES;
    for (i, sums) in lines.iter_mut().enumerate() {
        let from: [&[T; LANES]; N] = std::array::from_fn(|p| &*x.at(i * LANES, p).cast());
        for (l, sum) in sums.iter_mut().enumerate() {
            for p in 0..N {
                *sum = from[p][l].mul_add::<L>(scale[p], *sum);
            }
        }
    }
    for (l, sum) in rest.iter_mut().enumerate() {
        for p in 0..N {
            *sum = (*x.at(last + l, p)).mul_add::<L>(scale[p], *sum);
        }
    }
}
