//! Convolutions of dilated images, as transposed convolutions and gradients of strided ones are: each pixel is multiplied by all
//! taps, which are the lanes, and what comes out is added where it belongs. Nothing is multiplied by the zeros between pixels,
//! and one result channel fills vectors as well as many.

use super::fold::CHAIN;
use super::micro::{long_block, Ahead, Block, Real};
use super::product::DEPTH;
use crate::calls::ConvSizes;
use crate::dtype::Element;
use crate::isa::{by_isa, Level};
use crate::step::Run;

/// Weights packed by one task.
const PACKED: usize = 1 << 15;

/// Whether this kernel runs a convolution, if there are `room` elements for the products of a row of pixels.
pub(super) fn spreads(s: &ConvSizes, room: usize) -> bool {
    let window = [s.kd, s.kh, s.kw];
    // So many products are added to a result one after another.
    let added = (0..3).map(|a| window[a].div_ceil(s.input_dilation[a])).product::<usize>();
    let dilated = s.strides == [1, 1, 1] && s.input_dilation != [1, 1, 1];
    dilated && s.c * columns(s) > 0 && added <= CHAIN && s.w.saturating_mul(columns(s)) <= room
}

/// Taps and result channels of a group.
fn columns(s: &ConvSizes) -> usize {
    s.kd * s.kh * s.kw * s.o
}

/// For each group, panels of columns, each `[c][columns of the panel]`. The last tap comes first: results of a pixel then have
/// their order in the output.
pub(super) unsafe fn pack<T: Real>(run: &Run, s: &ConvSizes, weight: *const T, strides: &[isize; 6], to: *mut T) {
    let (width, all) = (T::columns(run.isa), columns(s));
    let [by_group, by_z, by_y, by_x, by_c, by_o] = *strides;
    let panels = all.div_ceil(width);
    let (weight, to) = (weight as usize, to as usize);
    let total = s.g * panels;
    let per_task = if total * width * s.c > PACKED { 1 } else { total };
    run.pool.run(total.div_ceil(per_task), usize::MAX, |_, task| {
        for at in task * per_task..total.min((task + 1) * per_task) {
            let (group, panel) = (at / panels, at % panels);
            let count = width.min(all - panel * width);
            let to = (to as *mut T).add(group * all * s.c + panel * width * s.c);
            for column in 0..count {
                let (tap, o) = ((panel * width + column) / s.o, (panel * width + column) % s.o);
                let [z, y, x] = [s.kd - 1 - tap / (s.kh * s.kw), s.kh - 1 - tap / s.kw % s.kh, s.kw - 1 - tap % s.kw];
                let from = (weight as *const T)
                    .wrapping_offset(group as isize * by_group + z as isize * by_z + y as isize * by_y)
                    .wrapping_offset(x as isize * by_x + o as isize * by_o);
                (0..s.c).for_each(|c| *to.add(c * count + column) = *from.wrapping_offset(c as isize * by_c));
            }
        }
    });
}

/// Group of an image: its pixels lie `g·c` apart, those of the output `g·o`.
pub(super) unsafe fn image<T: Real>(run: &Run, s: &ConvSizes, from: *const T, packed: *const T, to: [*mut T; 2]) {
    let [slot, out] = to;
    let (width, all, step) = (T::columns(run.isa), columns(s), s.g * s.o);
    for pixel in 0..s.od * s.oh * s.ow {
        std::slice::from_raw_parts_mut(out.add(pixel * step), s.o).fill(T::ZERO);
    }
    for row in 0..s.d * s.h {
        let products = Block {
            m: s.w,
            n: all,
            left: from.add(row * s.w * s.g * s.c),
            left_row: (s.g * s.c) as isize,
            left_step: 1,
            left_packed: false,
            segments: &[0],
            segment: s.c,
            chain: DEPTH,
            right: packed,
            right_row: width as isize,
            right_panel: (s.c * width) as isize,
            right_last_row: (all % width) as isize,
            out: slot,
            out_row: all as isize,
            accumulate: false,
            ahead: [Ahead::NONE; 2],
        };
        long_block(run.isa, &products);
        let (z, y) = (row / s.h, row % s.h);
        for taps in 0..s.kd * s.kh {
            let place = (place(s, 0, z, taps / s.kh, s.kd, s.od), place(s, 1, y, taps % s.kh, s.kh, s.oh));
            if let (Some(z), Some(y)) = place {
                add_row::<T>(run.isa, s, slot.add(taps * s.kw * s.o), out.add((z * s.oh + y) * s.ow * step));
            }
        }
    }
}

/// Where the products of a pixel with a tap, counted from the last one, belong along an axis.
#[inline(always)]
fn first_place(s: &ConvSizes, axis: usize, pixel: usize, window: usize) -> i64 {
    let reach = (window.saturating_sub(1) * s.kernel_dilation[axis]) as i64;
    (pixel * s.input_dilation[axis]) as i64 + s.padding[axis][0] - reach
}

fn place(s: &ConvSizes, axis: usize, pixel: usize, tap: usize, window: usize, size: usize) -> Option<usize> {
    let at = first_place(s, axis, pixel, window) + (tap * s.kernel_dilation[axis]) as i64;
    usize::try_from(at).ok().filter(|at| *at < size)
}

by_isa! { fn add_row<T: Real>(s: &ConvSizes, products: *const T, out: *mut T) => add_row_body, wide if false }

/// Adds the products of a row of pixels with a row of taps to a row of the output.
#[inline(always)]
unsafe fn add_row_body<L: Level, T: Real>(s: &ConvSizes, products: *const T, out: *mut T) {
    let gap = s.kernel_dilation[2] as i64;
    // Results of neighbouring taps that are neighbours are added as one.
    let (runs, run) = if gap == 1 && s.g == 1 { (1, s.kw as i64) } else { (s.kw as i64, 1) };
    for x in 0..s.w {
        let from = products.add(x * columns(s));
        let first = first_place(s, 2, x, s.kw);
        for i in 0..runs {
            let start = first + i * gap;
            let (skipped, end) = ((-start).max(0), run.min(s.ow as i64 - start));
            if skipped >= end {
                continue;
            }
            let count = (end - skipped) as usize * s.o;
            let to = std::slice::from_raw_parts_mut(out.add((start + skipped) as usize * s.g * s.o), count);
            let from = std::slice::from_raw_parts(from.add((i + skipped) as usize * s.o), count);
            to.iter_mut().zip(from).for_each(|(to, x)| *to = Element::add(*to, *x));
        }
    }
}
