//! The register tile under products and convolutions.
//!
//! The left operand is read by broadcast, so any strides do; its contracted index runs over segments, which lets a
//! convolution read a padded image in place. The right operand has contiguous columns. Every output element is the sum
//! of chains of multiply-adds in order of the contracted index, cut along the contracted index alone: the cuts of rows and columns never change bits.

use super::fold::{join, settle, Sum, CHAIN};
use crate::isa::{by_isa, Isa, Level};
use crate::scalar::Float;
use crate::simd::{Lanes, Simd, Vectors};
use crate::walk::Walk;

/// One call: `out[m, n] (+)= left[m, k] · right[k, n]` with k = segments × segment.
pub struct Block<'a, T> {
    pub m: usize,
    pub n: usize,
    pub left: *const T,
    pub left_row: isize,
    pub left_step: isize,
    /// The left operand lies in panels of consecutive rows, each `[k][rows of the panel]`.
    pub left_packed: bool,
    pub segments: &'a [isize],
    pub segment: usize,
    /// About how many products are added in registers before they go to `out`.
    pub chain: usize,
    pub right: *const T,
    pub right_row: isize,
    /// Distance between groups of `columns(isa)` columns.
    pub right_panel: isize,
    /// Row distance in the last, narrower group.
    pub right_last_row: isize,
    pub out: *mut T,
    pub out_row: isize,
    pub accumulate: bool,
    /// What is fetched into L2 meanwhile.
    pub ahead: [Ahead<T>; 2],
}

/// Rows of two cache lines each. No address is read, so that any may be named.
#[derive(Clone, Copy)]
pub struct Ahead<T> {
    pub ptr: *const T,
    pub row: isize,
    pub rows: usize,
}

impl<T> Ahead<T> {
    pub const NONE: Ahead<T> = Ahead { ptr: std::ptr::null(), row: 0, rows: 0 };
}

/// Some steps of the contracted index: whole segments, or a part of one.
pub struct Piece {
    /// The range of segments, and the first step in each.
    pub segments: std::ops::Range<usize>,
    pub from: usize,
    pub length: usize,
    /// The number of steps before this span.
    pub before: usize,
}

/// Cuts `count` segments of `length` steps into pieces of about `size` steps.
pub fn pieces(count: usize, length: usize, size: usize) -> impl Iterator<Item = Piece> {
    // A piece is several short segments, or a part of a long one.
    let together = ((size + length / 2) / length.max(1)).clamp(1, count.max(1));
    let parts = if together > 1 { 1 } else { ((length + size / 2) / size).max(1) };
    let part = length.div_ceil(parts).next_multiple_of(4);
    (0..count).step_by(together).flat_map(move |first| {
        (0..length.max(1)).step_by(part.max(1)).map(move |from| Piece {
            segments: first..count.min(first + together),
            from,
            length: part.min(length - from),
            before: first * length + from,
        })
    })
}

macro_rules! pick {
    ($isa:expr, $what:ident) => {
        match $isa.general() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => <<Self as Lanes<crate::isa::Avx512>>::S as Simd<Self>>::$what,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => <<Self as Lanes<crate::isa::Avx2>>::S as Simd<Self>>::$what,
            _ => <<Self as Lanes<crate::isa::Scalar>>::S as Simd<Self>>::$what,
        }
    };
}

/// Floats that have a register tile at every level.
pub trait Real: Vectors {
    /// # Safety
    /// All addresses that the block describes must be valid.
    unsafe fn block(isa: Isa, x: &Block<Self>) {
        block::<Self>(isa, x)
    }

    /// Columns of the register tile.
    fn columns(isa: Isa) -> usize {
        2 * pick!(isa, LANES)
    }

    fn rows(isa: Isa) -> usize {
        pick!(isa, ROWS)
    }
}

impl<T: Vectors> Real for T {}

by_isa! { fn block<T: Vectors>(x: &Block<T>) => leveled_body }

#[inline(always)]
unsafe fn leveled_body<L: Level, T: Lanes<L>>(x: &Block<T>) {
    block_body::<T::S, T>(x)
}

/// Steps whose sum is one value of a total, where the contracted index is longer: 2^12.
pub const SPAN: usize = 1 << 12;
/// Most elements of a register tile.
const TILE: usize = 14 * 32;

/// A block whose left side is not packed, with any number of steps: sums of spans go to totals that keep their rounding errors.
///
/// # Safety
/// All addresses that the block describes must be valid.
pub unsafe fn long_block<T: Real>(isa: Isa, x: &Block<T>) {
    if x.segment * x.segments.len() <= SPAN {
        return T::block(isa, x);
    }
    let (rows, width) = (T::rows(isa), T::columns(isa));
    let [mut sums, mut totals, mut lost] = [[T::ZERO; TILE]; 3];
    for (row, column) in (0..x.m).step_by(rows).flat_map(|r| (0..x.n).step_by(width).map(move |c| (r, c))) {
        let (m, n) = (rows.min(x.m - row), width.min(x.n - column));
        let right_row = if n == width { x.right_row } else { x.right_last_row };
        totals.fill(T::ZERO);
        lost.fill(T::ZERO);
        for piece in pieces(x.segments.len(), x.segment, SPAN) {
            let left = x.left.wrapping_offset(row as isize * x.left_row + piece.from as isize * x.left_step);
            let right = x.right.wrapping_offset((column / width) as isize * x.right_panel);
            let part = Block {
                m,
                n,
                left,
                segments: &x.segments[piece.segments],
                segment: piece.length,
                chain: CHAIN,
                right: right.wrapping_offset(piece.before as isize * right_row),
                right_row,
                right_last_row: right_row,
                out: sums.as_mut_ptr(),
                out_row: width as isize,
                accumulate: false,
                ..*x
            };
            T::block(isa, &part);
            join::<T, Sum>(&mut totals, &mut lost, &sums);
        }
        settle::<T, Sum>(&mut totals, &lost);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let to = x.out.offset((row + i) as isize * x.out_row).add(column + j);
            let value = totals[i * width + j];
            *to = if x.accumulate { *to + value } else { value };
        }
    }
}

#[inline(always)]
unsafe fn block_body<S: Simd<T>, T: Float>(x: &Block<T>) {
    if x.m == 0 {
        return;
    }
    let width = 2 * S::LANES;
    // Panels of equal height (within one) keep the last from being nearly empty.
    let panels = x.m.div_ceil(S::ROWS);
    let (height, taller) = (x.m / panels, x.m % panels);
    let k = x.segment * x.segments.len();
    let mut column = 0;
    while column < x.n {
        let columns = width.min(x.n - column);
        let mut tile = Walk {
            left: x.left,
            left_row: x.left_row,
            left_step: x.left_step,
            segments: x.segments,
            segment: x.segment,
            right: x.right.offset((column / width) as isize * x.right_panel),
            right_row: if columns == width { x.right_row } else { x.right_last_row },
            out: x.out,
            out_row: x.out_row,
            tail: columns,
            accumulate: x.accumulate,
            ahead: x.right,
            ahead_row: 0,
        };
        let mut row = 0;
        for panel in 0..panels {
            // The loop fetches a row every four steps.
            let mut first = panel * (k / 4);
            (tile.ahead, tile.ahead_row) = (x.right, 0);
            for ahead in x.ahead {
                if first < ahead.rows {
                    tile.ahead = ahead.ptr.wrapping_offset(first as isize * ahead.row);
                    tile.ahead_row = ahead.row;
                    break;
                }
                first -= ahead.rows;
            }
            let rows = height + usize::from(panel < taller);
            if x.left_packed {
                tile.left = x.left.add(row * k);
                tile.left_row = 1;
                tile.left_step = rows as isize;
            } else {
                tile.left = x.left.offset(row as isize * x.left_row);
            }
            tile.out = x.out.offset(row as isize * x.out_row).add(column);
            tile.tail = if columns > S::LANES { columns - S::LANES } else { columns };
            for piece in pieces(x.segments.len(), x.segment, x.chain) {
                let tile = Walk {
                    left: tile.left.wrapping_offset(piece.from as isize * tile.left_step),
                    right: tile.right.wrapping_offset(piece.before as isize * tile.right_row),
                    segments: &x.segments[piece.segments],
                    segment: piece.length,
                    accumulate: x.accumulate || piece.before > 0,
                    ..tile
                };
                if columns == width {
                    by_rows::<S, T, 2, true>(&tile, rows);
                } else if columns > S::LANES {
                    by_rows::<S, T, 2, false>(&tile, rows);
                } else {
                    by_rows::<S, T, 1, false>(&tile, rows);
                }
            }
            row += rows;
        }
        column += columns;
    }
}

macro_rules! rows_arms {
    ($s:ident, $t:ident, $v:ident, $full:ident, $tile:expr, $rows:expr, [$($n:literal)+]) => {
        match $rows {
            $($n if $n <= $s::ROWS => tile::<$s, $t, $n, $v, $full>($tile),)+
            _ => {}
        }
    };
}

#[inline(always)]
unsafe fn by_rows<S: Simd<T>, T: Float, const V: usize, const FULL: bool>(x: &Walk<T>, rows: usize) {
    rows_arms!(S, T, V, FULL, x, rows, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
}

#[inline(always)]
unsafe fn tile<S: Simd<T>, T: Float, const M: usize, const V: usize, const FULL: bool>(x: &Walk<T>) {
    if M > S::ROWS {
        return;
    }
    // A level's own loop walks along the steps, or along the rows.
    let done = match x {
        _ if x.segments.is_empty() => false,
        Walk { left_step: 1, .. } => S::straight::<M, V, FULL, true>(x),
        Walk { left_row: 1, .. } => S::straight::<M, V, FULL, false>(x),
        _ => false,
    };
    if !done {
        write::<S, T, M, V, FULL>(x, &sums::<S, T, M, V, FULL>(x));
    }
}

#[inline(always)]
unsafe fn sums<S: Simd<T>, T: Float, const M: usize, const V: usize, const FULL: bool>(x: &Walk<T>) -> [[S::V; V]; M] {
    let mut sum = [[S::zero(); V]; M];
    let mut right = x.right;
    let mut left = x.left;
    // One flat loop: with one loop per segment the compiler spills the sums.
    let mut segments = x.segments.iter();
    let mut rest = 0;
    for _ in 0..x.segment * x.segments.len() {
        if rest == 0 {
            left = x.left.wrapping_offset(segments.next().copied().unwrap_or(0));
            rest = x.segment;
        }
        rest -= 1;
        let mut r = [S::zero(); V];
        for (v, lanes) in r.iter_mut().enumerate() {
            let from = right.add(v * S::LANES);
            *lanes = if FULL || v + 1 < V { S::load(from) } else { S::load_some(from, x.tail) };
        }
        for (i, row) in sum.iter_mut().enumerate() {
            let l = S::splat(*left.offset(i as isize * x.left_row));
            for v in 0..V {
                row[v] = S::mul_add(l, r[v], row[v]);
            }
        }
        left = left.wrapping_offset(x.left_step);
        right = right.wrapping_offset(x.right_row);
    }
    sum
}

#[inline(always)]
unsafe fn write<S: Simd<T>, T: Float, const M: usize, const V: usize, const FULL: bool>(
    x: &Walk<T>,
    sum: &[[S::V; V]; M],
) {
    for (i, row) in sum.iter().enumerate() {
        let out = x.out.offset(i as isize * x.out_row);
        for (v, value) in row.iter().enumerate() {
            let to = out.add(v * S::LANES);
            let whole = FULL || v + 1 < V;
            let mut value = *value;
            if x.accumulate {
                let before = if whole { S::load(to) } else { S::load_some(to, x.tail) };
                value = S::add(before, value);
            }
            if whole {
                S::store(to, value);
            } else {
                S::store_some(to, x.tail, value);
            }
        }
    }
}
