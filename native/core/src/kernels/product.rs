//! One product on one thread: packs what is worth packing and calls the register tile over blocks of the
//! contracted dim. The blocks are of fixed size, so bits depend on nothing but the shape and the level.

use std::cell::RefCell;

use super::fold::CHAIN;
use super::micro::{Block, Real, SPAN};
use super::tally::totals;
use super::transpose::transpose;
use crate::isa::Isa;

/// Most steps of a block of the contracted dim: a group of right columns of this length fits L1.
pub const DEPTH: usize = 256;
/// Slivers of right columns that are packed together: with `DEPTH` rows a part of L2.
const GROUP: usize = 8;
/// Rows that are prefetched while a group is packed.
const AHEAD: isize = 4;

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
    static PACK: RefCell<[Vec<u64>; 3]> = const { RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

fn room<T>(buffer: &mut Vec<u64>, count: usize) -> *mut T {
    let words = (count * std::mem::size_of::<T>()).div_ceil(8) + 8;
    if buffer.len() < words {
        buffer.resize(words, 0);
    }
    let ptr = buffer.as_mut_ptr() as usize;
    ptr.next_multiple_of(64) as *mut T
}

/// `out = a · b`, or `out += a · b`; `out` may have any strides.
///
/// # Safety
/// The matrices must be valid for the sizes given, and `out` must not overlap `a` or `b`.
pub unsafe fn product<T: Real>(
    isa: Isa,
    m: usize,
    n: usize,
    k: usize,
    a: Matrix<T>,
    b: Matrix<T>,
    out: Matrix<T>,
    accumulate: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    if out.columns != 1 && out.rows == 1 && n > 1 {
        return product(isa, n, m, k, b.transposed(), a.transposed(), out.transposed(), accumulate);
    }
    if k > SPAN {
        return long(isa, [m, n, k], [a, b, out], accumulate);
    }
    short(isa, [m, n, k], [a, b, out], (accumulate, DEPTH));
}

/// Sums of spans of the contracted dim, in totals that keep their rounding errors.
unsafe fn long<T: Real>(isa: Isa, [m, n, k]: [usize; 3], [a, b, out]: [Matrix<T>; 3], accumulate: bool) {
    totals(isa, m * n, |tally| {
        let target = Matrix { ptr: tally.sums.as_ptr(), rows: n as isize, columns: 1 };
        for p in (0..k).step_by(SPAN) {
            short(isa, [m, n, SPAN.min(k - p)], [a.from(0, p), b.from(p, 0), target], (false, CHAIN));
            tally.join();
        }
        tally.settle();
        put([m, n], out, accumulate, |i, j| tally.totals[i * n + j]);
    });
}

/// Writes a value for each element of `out`, or adds it.
unsafe fn put<T: Real>([m, n]: [usize; 2], out: Matrix<T>, accumulate: bool, value: impl Fn(usize, usize) -> T) {
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let to = out.at(i, j).cast_mut();
        *to = if accumulate { *to + value(i, j) } else { value(i, j) };
    }
}

unsafe fn short<T: Real>(
    isa: Isa,
    [m, n, k]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (accumulate, chain): (bool, usize),
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
        let target = if direct {
            out
        } else {
            Matrix { ptr: room::<T>(whole, m * n) as *const T, rows: n as isize, columns: 1 }
        };
        // Blocks of equal length, so that none is short.
        let length = k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(4);
        for p in (0..k).step_by(length) {
            let depth = length.min(k - p);
            let add = p > 0 || (accumulate && direct);
            block(isa, [m, n, depth], [a.from(0, p), b.from(p, 0), target], (add, chain), [&mut *left, &mut *right]);
        }
        if !direct {
            put([m, n], out, accumulate, |i, j| *target.at(i, j));
        }
    });
}

unsafe fn block<T: Real>(
    isa: Isa,
    [m, n, depth]: [usize; 3],
    [a, b, out]: [Matrix<T>; 3],
    (add, chain): (bool, usize),
    [left, right]: [&mut Vec<u64>; 2],
) {
    let width = T::columns(isa);
    let mut x = Block {
        m,
        n,
        left: a.ptr,
        left_row: a.rows,
        left_step: a.columns,
        left_packed: false,
        segments: &[0],
        segment: depth,
        chain,
        right: b.ptr,
        right_row: b.rows,
        right_panel: width as isize,
        right_last_row: b.rows,
        out: out.ptr.cast_mut(),
        out_row: out.rows,
        accumulate: add,
    };
    pack_left(isa, &mut x, n > 2 * width, left);
    // Narrow right sides are read in place when rows are contiguous and few panels would reuse a copy.
    if (b.columns == 1 || n == 1) && m <= 4 * T::rows(isa) {
        return T::block(isa, &x);
    }
    // Rows without gaps are copied for several slivers at once, so that memory is read in long runs.
    let group = if b.columns == 1 { GROUP * width } else { width };
    let slivers = room::<T>(right, depth * group.min(n.next_multiple_of(width)));
    for first in (0..n).step_by(group) {
        let columns = group.min(n - first);
        pack_slivers(b.from(0, first), depth, columns, width, slivers);
        for column in (0..columns).step_by(width) {
            x.n = width.min(columns - column);
            x.right = slivers.add(column * depth);
            x.right_row = x.n as isize;
            x.right_last_row = x.n as isize;
            x.out = out.at(0, first + column).cast_mut();
            T::block(isa, &x);
        }
    }
}

/// Writes slivers of `width` columns one after another, each `[depth][its columns]`.
unsafe fn pack_slivers<T: Real>(from: Matrix<T>, depth: usize, columns: usize, width: usize, to: *mut T) {
    if columns <= width || from.columns != 1 {
        for column in (0..columns).step_by(width) {
            pack_right(from.from(0, column), depth, width.min(columns - column), to.add(column * depth));
        }
        return;
    }
    for p in 0..depth {
        for column in (0..columns).step_by(width) {
            let source = from.at(p, column);
            // The next rows lie pages away, where the processor does not look ahead.
            prefetch(source.wrapping_offset(AHEAD * from.rows));
            prefetch(source.wrapping_offset(AHEAD * from.rows).wrapping_add(width / 2));
            let size = width.min(columns - column);
            let target = to.add(column * depth + p * size);
            if size == width {
                copy_lines(source, target, width);
            } else {
                std::ptr::copy_nonoverlapping(source, target, size);
            }
        }
    }
}

/// Copies whole pieces of 64 bytes without a call.
#[inline(always)]
unsafe fn copy_lines<T>(from: *const T, to: *mut T, count: usize) {
    type Line = [u64; 8];
    for line in 0..count * std::mem::size_of::<T>() / 64 {
        to.cast::<Line>().add(line).write_unaligned(from.cast::<Line>().add(line).read_unaligned());
    }
}

#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Whether rows so far apart share a few places of the cache.
pub fn conflicting<T>(row: isize) -> bool {
    (row.unsigned_abs() * std::mem::size_of::<T>()).is_multiple_of(1024)
}

/// Copies the left operand where reading it in place would miss the cache.
unsafe fn pack_left<T: Real>(isa: Isa, x: &mut Block<T>, worth: bool, buffer: &mut Vec<u64>) {
    let (m, depth) = (x.m, x.segment);
    if x.left_step == 1 {
        if worth && conflicting::<T>(x.left_row) && m > 1 {
            let stride = depth + 16;
            let to = room::<T>(buffer, m * stride);
            for i in 0..m {
                std::ptr::copy_nonoverlapping(x.left.offset(i as isize * x.left_row), to.add(i * stride), depth);
            }
            x.left = to;
            x.left_row = stride as isize;
        }
        return;
    }
    if !worth && x.left_row == 1 {
        return;
    }
    let to = room::<T>(buffer, m * depth);
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
}

/// Writes `[depth, columns]` without gaps.
///
/// # Safety
/// Both sides must be valid for that size, and apart.
pub unsafe fn pack_right<T: Real>(from: Matrix<T>, depth: usize, columns: usize, to: *mut T) {
    if from.columns == 1 {
        for p in 0..depth {
            std::ptr::copy_nonoverlapping(from.at(p, 0), to.add(p * columns), columns);
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
