//! Products of integers. They wrap, so that sums in any order have the same bits and cuts are free; signed and unsigned
//! ones of a width are the same.

use std::cell::RefCell;

use super::product::Matrix;
use crate::isa::{by_isa, Level};
use crate::step::Run;

/// Length of a block of the contracted dim.
const DEPTH: usize = 256;
/// Lines of right columns that are packed together: with `DEPTH` rows a part of L2.
const LINES: usize = 8;
/// Steps of the contracted dim that are added at once, so that a sum goes through memory once for all of them.
const STEPS: usize = 4;
/// Rows of the result that a task makes with one packing, and that are held in registers at a time.
const ROWS: usize = 128;
const TILE: usize = 4;

/// An integer, and as many of them as a cache line holds.
pub trait Whole: Copy + Send + Sync + 'static {
    type Line: Copy;
    const ZERO: Self;
    const WIDTH: usize;
    const NOTHING: Self::Line;
    /// `line + scale * by` for each of the pairs.
    fn add_products<const N: usize>(line: &mut Self::Line, scales: [Self; N], by: &[Self::Line; N]);
    fn add(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn values(line: &Self::Line) -> &[Self];
    fn values_mut(line: &mut Self::Line) -> &mut [Self];
}

macro_rules! whole {
    ($t:ty, $width:literal) => {
        impl Whole for $t {
            type Line = [$t; $width];
            const ZERO: $t = 0;
            const WIDTH: usize = $width;
            const NOTHING: [$t; $width] = [0; $width];
            #[inline(always)]
            fn add_products<const N: usize>(line: &mut Self::Line, scales: [$t; N], by: &[Self::Line; N]) {
                for (i, sum) in line.iter_mut().enumerate() {
                    for (scale, values) in scales.iter().zip(by) {
                        *sum = sum.wrapping_add(scale.wrapping_mul(values[i]));
                    }
                }
            }
            #[inline(always)]
            fn add(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn values(line: &Self::Line) -> &[$t] {
                line
            }
            #[inline(always)]
            fn values_mut(line: &mut Self::Line) -> &mut [$t] {
                line
            }
        }
    };
}

whole!(u8, 64);
whole!(u32, 16);
whole!(u64, 8);

thread_local! {
    // Grows to the largest block seen and stays, like the memory of `product`.
    static PACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Rows, contracted dim and columns of a product.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

impl Sizes {
    /// Tasks of `product`.
    fn cut<T: Whole>(self) -> (usize, usize) {
        (self.m.div_ceil(ROWS), self.n.div_ceil(LINES * T::WIDTH))
    }
}

/// `out = x · y` for each of `batches` triples of matrices.
///
/// # Safety
/// The matrices must be valid for the sizes given, and `out` must not overlap the others.
pub unsafe fn products<T: Whole>(
    run: &Run,
    batches: usize,
    sizes: Sizes,
    matrices: impl Fn(usize) -> [Matrix<T>; 3] + Sync,
) {
    // A line of columns should not be mostly empty.
    let turned = sizes.n < T::WIDTH && sizes.m > sizes.n;
    let sizes = if turned { Sizes { m: sizes.n, n: sizes.m, ..sizes } } else { sizes };
    let (rows, columns) = sizes.cut::<T>();
    run.pool.run(batches * rows * columns, usize::MAX, |_, task| {
        let [x, y, out] = matrices(task / (rows * columns));
        let [x, y, out] = if turned { [y.transposed(), x.transposed(), out.transposed()] } else { [x, y, out] };
        let (i, j) = (task / columns % rows * ROWS, task % columns * LINES * T::WIDTH);
        let part = Sizes { m: ROWS.min(sizes.m - i), k: sizes.k, n: (LINES * T::WIDTH).min(sizes.n - j) };
        if sizes.m == 1 && sizes.k > 0 && x.columns == 1 && y.rows == 1 {
            return rows_times::<T>(run.isa, part, &x, &y.from(0, j), &out.from(0, j));
        }
        PACK.with(|pack| {
            let mut pack = pack.borrow_mut();
            let words = DEPTH.min(sizes.k) * LINES * 8 + 8;
            if pack.len() < words {
                pack.resize(words, 0);
            }
            let lines = (pack.as_mut_ptr() as usize).next_multiple_of(64) as *mut T::Line;
            product::<T>(run.isa, part, &x.from(i, 0), &y.from(0, j), &out.from(i, j), lines);
        });
    });
}

by_isa! { fn rows_times<T: Whole>(sizes: Sizes, x: &Matrix<T>, y: &Matrix<T>, out: &Matrix<T>) => rows_times_body }

/// A vector times columns without gaps, which are read where they lie.
#[inline(always)]
unsafe fn rows_times_body<L: Level, T: Whole>(sizes: Sizes, x: &Matrix<T>, y: &Matrix<T>, out: &Matrix<T>) {
    let vector = std::slice::from_raw_parts(x.ptr, sizes.k);
    for j in 0..sizes.n {
        let column = std::slice::from_raw_parts(y.at(0, j), sizes.k);
        *out.at(0, j).cast_mut() = vector.iter().zip(column).fold(T::ZERO, |sum, (a, b)| sum.add(a.times(*b)));
    }
}

by_isa! {
    fn product<T: Whole>(sizes: Sizes, x: &Matrix<T>, y: &Matrix<T>, out: &Matrix<T>, lines: *mut T::Line) => product_body
}

#[inline(always)]
unsafe fn product_body<L: Level, T: Whole>(
    Sizes { m, k, n }: Sizes,
    x: &Matrix<T>,
    y: &Matrix<T>,
    out: &Matrix<T>,
    lines: *mut T::Line,
) {
    if k == 0 {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            *out.at(i, j).cast_mut() = T::ZERO;
        }
    }
    for p in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - p);
        pack::<T>(depth, n, y.from(p, 0), lines);
        for column in (0..n).step_by(T::WIDTH) {
            let panel = std::slice::from_raw_parts(lines.add(column / T::WIDTH * depth), depth);
            let width = T::WIDTH.min(n - column);
            for i in (0..m).step_by(TILE) {
                let (left, to) = (x.from(i, p), out.from(i, column));
                match m - i {
                    1 => tile::<T, 1>(left, panel, to, width, p > 0),
                    2 => tile::<T, 2>(left, panel, to, width, p > 0),
                    3 => tile::<T, 3>(left, panel, to, width, p > 0),
                    _ => tile::<T, TILE>(left, panel, to, width, p > 0),
                }
            }
        }
    }
}

/// Columns as panels of lines, each `[depth]`; the last one is filled up with zeros.
#[inline(always)]
unsafe fn pack<T: Whole>(depth: usize, n: usize, from: Matrix<T>, lines: *mut T::Line) {
    for (panel, column) in (0..n).step_by(T::WIDTH).enumerate() {
        let width = T::WIDTH.min(n - column);
        for p in 0..depth {
            let row = from.from(p, column);
            if row.columns == 1 && width == T::WIDTH {
                lines.add(panel * depth + p).write(row.ptr.cast::<T::Line>().read_unaligned());
                continue;
            }
            let mut line = T::NOTHING;
            for (j, value) in T::values_mut(&mut line)[..width].iter_mut().enumerate() {
                *value = *row.at(0, j);
            }
            lines.add(panel * depth + p).write(line);
        }
    }
}

/// `R` rows of one line of columns.
#[inline(always)]
unsafe fn tile<T: Whole, const R: usize>(x: Matrix<T>, panel: &[T::Line], out: Matrix<T>, width: usize, add: bool) {
    let mut sums = [T::NOTHING; R];
    let (steps, rest) = panel.as_chunks::<STEPS>();
    for (step, lines) in steps.iter().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            T::add_products(sum, std::array::from_fn(|q| *x.at(i, step * STEPS + q)), lines);
        }
    }
    for (q, line) in rest.iter().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            T::add_products(sum, [*x.at(i, panel.len() - rest.len() + q)], std::array::from_ref(line));
        }
    }
    for (i, sum) in sums.iter().enumerate() {
        for (j, value) in T::values(sum)[..width].iter().enumerate() {
            let to = out.at(i, j).cast_mut();
            *to = if add { (*to).add(*value) } else { *value };
        }
    }
}
