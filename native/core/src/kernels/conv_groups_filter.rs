//! The gradient of a convolution of many groups by its weight: sums along rows of images, in chunks of the batch.

use std::ops::Range;

use super::conv_groups::{axes, check, Axis};
use super::dot::tree;
use super::product::DEPTH;
use super::tally::totals;
use crate::calls::ConvFilterJson;
use crate::dtype::for_float;
use crate::isa::{by_isa, Level};
use crate::reader::kernels;
use crate::scalar::Float;
use crate::simd::{Lanes, Simd, Vectors};
use crate::step::{Kernel, Run};
use crate::Result;

kernels! {
    convGroupsFilter = ConvGroupsFilter::new;
}

/// Products of one row of an image and one of cotangents, summed along it for some lanes, channel by channel.
struct Sums<T> {
    /// Elements of the image and the cotangents, and their distances along the row.
    count: usize,
    image: *const T,
    by_image: usize,
    dy: *const T,
    by_dy: usize,
    sum: *mut T,
    lanes: usize,
}

by_isa! { fn multiply<T: Vectors>(x: &Sums<T>) => multiply_body }

#[inline(always)]
unsafe fn multiply_body<L: Level, T: Lanes<L>>(x: &Sums<T>) {
    let width = T::S::LANES;
    let mut lane = 0;
    while lane + 4 * width <= x.lanes {
        sums::<T::S, T, 4, true>(x, lane, width);
        lane += 4 * width;
    }
    while lane < x.lanes {
        let tail = width.min(x.lanes - lane);
        if tail == width {
            sums::<T::S, T, 1, true>(x, lane, tail);
        } else {
            sums::<T::S, T, 1, false>(x, lane, tail);
        }
        lane += tail;
    }
}

#[inline(always)]
unsafe fn sums<S: Simd<T>, T: Float, const V: usize, const FULL: bool>(x: &Sums<T>, lane: usize, tail: usize) {
    let load = |from: *const T| if FULL { S::load(from) } else { S::load_some(from, tail) };
    let mut sum = [S::zero(); V];
    for (v, value) in sum.iter_mut().enumerate() {
        *value = load(x.sum.add(lane + v * S::LANES));
    }
    for at in 0..x.count {
        let (image, dy) = (x.image.add(at * x.by_image + lane), x.dy.add(at * x.by_dy + lane));
        for (v, value) in sum.iter_mut().enumerate() {
            *value = S::mul_add(load(image.add(v * S::LANES)), load(dy.add(v * S::LANES)), *value);
        }
    }
    for (v, value) in sum.iter().enumerate() {
        let to = x.sum.add(lane + v * S::LANES);
        if FULL {
            S::store(to, *value);
        } else {
            S::store_some(to, tail, *value);
        }
    }
}

pub struct ConvGroupsFilter {
    axes: [Axis; 3],
    chunks: usize,
    /// Bytes of one chunk's partial sums.
    area: usize,
    call: ConvFilterJson,
}

impl ConvGroupsFilter {
    pub fn new(call: ConvFilterJson) -> Result<ConvGroupsFilter> {
        let s = &call.sizes;
        check(s)?;
        let (chunks, area) = (s.chunks().get("chunks")?, s.weights().get("weight")?);
        Ok(ConvGroupsFilter { axes: axes(s)?, chunks, area, call })
    }
}

impl Kernel for ConvGroupsFilter {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.call.sizes.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl ConvGroupsFilter {
    unsafe fn typed<T: Vectors>(&self, run: &Run) {
        let s = &self.call.sizes;
        let out: *mut T = run.ptr(self.call.out);
        let weights = s.kd * s.kh * s.kw * s.c * s.o * s.g;
        if s.n * s.od * s.oh * s.ow == 0 || weights == 0 {
            return std::slice::from_raw_parts_mut(out, weights).fill(T::ZERO);
        }
        let distance = self.area / std::mem::size_of::<T>();
        let sums = run.ptr::<T>(self.call.scratch) as usize;
        run.pool.run(self.chunks, usize::MAX, |_, chunk| {
            let sum = (sums as *mut T).add(chunk * distance);
            let images = s.n * chunk / self.chunks..s.n * (chunk + 1) / self.chunks;
            totals(run.isa, weights, |tally| {
                let rows = (DEPTH / s.ow).max(1);
                let parts = (0..s.od * s.oh).step_by(rows).flat_map(|y| (0..s.ow).step_by(DEPTH).map(move |x| (y, x)));
                for (i, (y, x)) in images.flat_map(|i| parts.clone().map(move |part| (i, part))) {
                    tally.sums.fill(T::ZERO);
                    self.image(run, i, y..(s.od * s.oh).min(y + rows), x, tally.sums.as_mut_ptr());
                    tally.join();
                }
                tally.settle();
                std::ptr::copy_nonoverlapping(tally.totals.as_ptr(), sum, weights);
            });
        });
        tree(sums as *mut T, self.chunks, weights, distance);
        std::ptr::copy_nonoverlapping(sums as *const T, out, weights);
    }

    /// Some rows of an image, of each tap's products along them the `DEPTH` from `first` on.
    unsafe fn image<T: Vectors>(&self, run: &Run, i: usize, rows: Range<usize>, first: usize, sum: *mut T) {
        let s = &self.call.sizes;
        let (weight_row, taps) = (s.c * s.o * s.g, &self.axes[2].runs);
        let image = run.ptr::<T>(self.call.x).add(i * s.d * s.h * s.w * s.c * s.g).cast_const();
        for at in rows {
            let dy = run.ptr::<T>(self.call.dy).add((i * s.od * s.oh + at) * s.ow * s.o * s.g).cast_const();
            let (z, y) = (self.axes[0].of(at / s.oh), self.axes[1].of(at % s.oh));
            for (weight, from) in z.iter().flat_map(|z| y.iter().map(move |y| (z.0 + y.0, z.1 + y.1))) {
                for (tap, (to, along, count)) in taps.iter().enumerate() {
                    for (c, o) in (0..s.c).flat_map(|c| (0..s.o).map(move |o| (c, o))) {
                        let (by_image, by_dy) = (self.axes[2].step, self.axes[2].period * s.o * s.g);
                        let call = Sums {
                            count: count.saturating_sub(first).min(DEPTH),
                            image: image.wrapping_add(from + along + c * s.g + first * by_image),
                            by_image,
                            dy: dy.wrapping_add(to + o * s.g + first * by_dy),
                            by_dy,
                            sum: sum.add(weight + tap * weight_row + (c * s.o + o) * s.g),
                            lanes: s.g,
                        };
                        multiply::<T>(run.isa, &call);
                    }
                }
            }
        }
    }
}
