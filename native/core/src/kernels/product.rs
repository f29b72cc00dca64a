//! One product on one thread: packs what is worth packing and calls the register tile over blocks of the
//! contracted dim. The blocks are of fixed size, so bits depend on nothing but the shape and the level.

use std::cell::RefCell;

use super::fold::CHAIN;
use super::micro::{Ahead, Block, Real, SPAN};
use super::tally::totals;
use super::transpose::transpose;
use crate::buffer::Pages;
use crate::isa::Isa;

/// Most steps of a block of the contracted dim: a group of right columns of this length fits L1.
pub const DEPTH: usize = 256;
/// Most rows of the left side that pass together, unless there are few: with `DEPTH` steps a small part of L2.
const ROWS: usize = 14 * 7;
/// Most columns of the right side that stay packed while all rows pass.
const COLUMNS: usize = 2048;

pub struct Matrix<T> {
    pub ptr: *const T,
    pub rows: isize,
    pub columns: isize,
}

// A derived `Clone` would require `T: Clone`.
impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Matrix<T> {}

unsafe impl<T> Send for Matrix<T> {}
unsafe impl<T> Sync for Matrix<T> {}

impl<T> Matrix<T> {
    pub fn at(self, row: usize, column: usize) -> *const T {
        self.ptr.wrapping_offset(row as isize * self.rows + column as isize * self.columns)
    }

    pub fn from(self, row: usize, column: usize) -> Matrix<T> {
        Matrix { ptr: self.at(row, column), ..self }
    }

    pub fn transposed(self) -> Matrix<T> {
        Matrix { ptr: self.ptr, rows: self.columns, columns: self.rows }
    }
}

thread_local! {
    // Grows to the largest block seen and stays: no allocation after the first step.
    static PACK: RefCell<[Pages; 3]> = const { RefCell::new([Pages::NONE; 3]) };
}

/// `out = a · b`, or `out += a · b`; `out` may have any strides.
///
/// # Safety
/// The matrices must be valid for the sizes given, and `out` must not overlap `a` or `b`.
pub unsafe fn product<T: Real>(isa: Isa, [m, n, k]: [usize; 3], [a, b, out]: [Matrix<T>; 3], accumulate: bool) {
    if out.columns != 1 && out.rows == 1 && n > 1 {
        return product(isa, [n, m, k], [b, a, out].map(Matrix::transposed), accumulate);
    }
    kept(isa, [m, n, k], [a, b, out], (accumulate, ALL));
}

/// The skip that leaves nothing out.
pub const ALL: isize = isize::MIN / 2;

/// A product without the tiles whose columns all end before the row plus `skip`; `out` has contiguous rows unless `skip` is `ALL`.
///
/// # Safety
/// As `product`.
pub unsafe fn kept<T: Real>(
    isa: Isa,
    [m, n, k]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (accumulate, skip): (bool, isize),
) {
    if m == 0 || n == 0 {
        return;
    }
    if k > SPAN {
        return long(isa, [m, n, k], [a, b, out], (accumulate, skip));
    }
    short(isa, [m, n, k], [a, b, out], (accumulate, DEPTH, skip));
}

/// Sums of spans of the contracted dim, in totals that keep their rounding errors.
unsafe fn long<T: Real>(
    isa: Isa,
    [m, n, k]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (accumulate, skip): (bool, isize),
) {
    totals(isa, m * n, |tally| {
        let target = Matrix { ptr: tally.sums.as_ptr(), rows: n as isize, columns: 1 };
        for p in (0..k).step_by(SPAN) {
            short(isa, [m, n, SPAN.min(k - p)], [a.from(0, p), b.from(p, 0), target], (false, CHAIN, skip));
            tally.join();
        }
        tally.settle();
        put([m, n], out, accumulate, |i, j| tally.totals[i * n + j]);
    });
}

/// Writes a value for each element of `out`, or adds it.
///
/// # Safety
/// `out` must be valid for that size.
pub unsafe fn put<T: Real>([m, n]: [usize; 2], out: Matrix<T>, accumulate: bool, value: impl Fn(usize, usize) -> T) {
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let to = out.at(i, j).cast_mut();
        *to = if accumulate { *to + value(i, j) } else { value(i, j) };
    }
}

unsafe fn short<T: Real>(
    isa: Isa,
    [m, n, k]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (accumulate, chain, skip): (bool, usize, isize),
) {
    if k == 0 {
        if !accumulate {
            put([m, n], out, false, |_, _| T::ZERO);
        }
        return;
    }
    PACK.with(|pack| {
        let [left, right, whole] = &mut *pack.borrow_mut();
        let direct = out.columns == 1 || n == 1;
        let target = if direct { out } else { Matrix { ptr: whole.room(m * n), rows: n as isize, columns: 1 } };
        // Blocks of equal length, so that none is short.
        let length = k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(4);
        for (j, p) in (0..n).step_by(COLUMNS).flat_map(|j| (0..k).step_by(length).map(move |p| (j, p))) {
            let size = [m, COLUMNS.min(n - j), length.min(k - p)];
            let add = p > 0 || (accumulate && direct);
            let sides = [a.from(0, p), b.from(p, j), target.from(0, j)];
            block(isa, size, sides, (add, chain, skip - j as isize), [&mut *left, &mut *right]);
        }
        if !direct {
            put([m, n], out, accumulate, |i, j| *target.at(i, j));
        }
    });
}

/// The block of a product whose sides are read in place.
pub fn in_place<T: Real>(
    isa: Isa,
    [m, n, k]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (accumulate, chain): (bool, usize),
) -> Block<'static, T> {
    Block {
        m,
        n,
        left: a.ptr,
        left_row: a.rows,
        left_step: a.columns,
        left_packed: false,
        segments: &[0],
        segment: k,
        chain,
        right: b.ptr,
        right_row: b.rows,
        right_panel: T::columns(isa) as isize,
        right_last_row: b.rows,
        out: out.ptr.cast_mut(),
        out_row: out.rows,
        accumulate,
        ahead: [Ahead::NONE; 2],
    }
}

unsafe fn block<T: Real>(
    isa: Isa,
    [m, n, depth]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (add, chain, skip): (bool, usize, isize),
    [left, right]: [&mut Pages; 2],
) {
    let width = T::columns(isa);
    let whole = in_place(isa, [m, n, depth], [a, b, out], (add, chain));
    let worth = n > 2 * width;
    // Narrow right sides are read in place when rows are contiguous and few panels would reuse a copy.
    if (b.columns == 1 || n == 1) && m <= 4 * T::rows(isa) {
        return T::block(isa, &pack_left(isa, whole, worth, left));
    }
    // Fewer rows together leave more tiles out.
    let (most, rows) = if skip > ALL / 2 { (ROWS / 2, ROWS / 2) } else { (3 * ROWS, ROWS) };
    let rows = if m > most { m.div_ceil(m.div_ceil(rows)) } else { m };
    // Where all rows pass at once, one sliver after another has the same place, which stays in L1.
    let length = if rows < m { depth } else { 0 };
    let end = n.next_multiple_of(width);
    let slivers = right.room::<T>(depth * width + length * n);
    for row in (0..m).step_by(rows) {
        let part = Block { m: rows.min(m - row), left: a.at(row, 0), ..whole };
        let mut x = pack_left(isa, part, worth, left);
        let next = if row + rows < m { a.from(row + rows, 0) } else { a.from(0, depth) };
        let packed = Matrix { ptr: slivers.cast_const(), rows: width as isize, columns: depth as isize };
        let source = if row > 0 { packed } else { b };
        for column in (0..n).step_by(width) {
            if (column + width) as isize <= row as isize + skip {
                continue;
            }
            let to = slivers.add(column * length);
            x.n = width.min(n - column);
            if row == 0 {
                pack_right(b.from(0, column), depth, x.n, to);
            }
            x.right = to;
            x.right_row = x.n as isize;
            x.right_last_row = x.n as isize;
            x.out = out.at(row, column).cast_mut();
            // The next right columns, and in the last slivers a part each of the rows that pass next.
            let (sliver, part) = (depth * usize::from(column + width < n), rows * usize::from(column + depth >= end));
            x.ahead = [
                Ahead { ptr: source.at(0, column + width), row: source.rows, rows: sliver },
                Ahead { ptr: next.at(0, (column + depth).saturating_sub(end)), row: a.rows, rows: part },
            ];
            T::block(isa, &x);
        }
    }
}

/// Copies a row; whole pieces of 64 bytes without a call.
#[inline(always)]
unsafe fn copy_row<T>(from: *const T, to: *mut T, count: usize) {
    type Line = [u64; 8];
    let bytes = count * std::mem::size_of::<T>();
    if !bytes.is_multiple_of(64) {
        return std::ptr::copy_nonoverlapping(from, to, count);
    }
    for line in 0..bytes / 64 {
        to.cast::<Line>().add(line).write_unaligned(from.cast::<Line>().add(line).read_unaligned());
    }
}

/// Whether rows so far apart share a few places of the cache.
pub fn conflicting<T>(row: isize) -> bool {
    (row.unsigned_abs() * std::mem::size_of::<T>()).is_multiple_of(2048)
}

/// Copies the left operand where reading it in place would miss the cache.
unsafe fn pack_left<'a, T: Real>(isa: Isa, mut x: Block<'a, T>, worth: bool, buffer: &mut Pages) -> Block<'a, T> {
    let (m, depth) = (x.m, x.segment);
    if x.left_step == 1 {
        if worth && conflicting::<T>(x.left_row) && m > 1 {
            let stride = depth + 16;
            let to = buffer.room::<T>(m * stride);
            for i in 0..m {
                std::ptr::copy_nonoverlapping(x.left.offset(i as isize * x.left_row), to.add(i * stride), depth);
            }
            x.left = to;
            x.left_row = stride as isize;
        }
        return x;
    }
    if !worth && x.left_row == 1 {
        return x;
    }
    let to = buffer.room::<T>(m * depth);
    let panels = m.div_ceil(T::rows(isa));
    let (height, taller) = (m / panels, m % panels);
    let mut row = 0;
    for panel in 0..panels {
        let rows = height + usize::from(panel < taller);
        let from = x.left.wrapping_offset(row as isize * x.left_row);
        pack_right(Matrix { ptr: from, rows: x.left_step, columns: x.left_row }, depth, rows, to.add(row * depth));
        row += rows;
    }
    x.left = to;
    x.left_packed = true;
    x
}

/// Writes `[depth, columns]` without gaps.
///
/// # Safety
/// Both sides must be valid for that size, and apart.
pub unsafe fn pack_right<T: Real>(from: Matrix<T>, depth: usize, columns: usize, to: *mut T) {
    if from.columns == 1 {
        for p in 0..depth {
            copy_row(from.at(p, 0), to.add(p * columns), columns);
        }
        return;
    }
    if from.rows == 1 {
        return transpose(from.ptr, from.columns, depth, columns, to, columns as isize);
    }
    // Eight rows at a time: each column then gives one run of a cache line.
    for p in (0..depth).step_by(8) {
        let rows = 8.min(depth - p);
        for j in 0..columns {
            let source = from.at(p, j);
            let target = to.add(p * columns + j);
            for q in 0..rows {
                *target.add(q * columns) = *source.offset(q as isize * from.rows);
            }
        }
    }
}
