//! Convolutions without an im2col matrix: images are padded once into scratch that stays in cache, and the register tile
//! reads them in place, one segment of the kernel at a time.

use std::ops::Range;

use super::conv_spread::{self, spreads};
use super::dot::{tree, GRAIN};
use super::micro::{long_block, Ahead, Block, Real, SPAN};
use super::product::{pack_right, Matrix, DEPTH};
use super::tally::totals;
use crate::calls::{ConvFilterJson, ConvJson, ConvSizes, EpilogueJson, StridedJson};
use crate::dtype::{for_float, Element};
use crate::step::{Kernel, Run};
use crate::verify::{count, At};
use crate::{bail, Result};

/// How an image is read: in place, padded into a slot, as im2col columns in a slot, or pixel by pixel with the products in
/// the slot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Reading {
    InPlace,
    Padded,
    Columns,
    Spread,
}

pub(super) struct Geometry {
    pub s: ConvSizes,
    pub reading: Reading,
    /// The size of the padded image: planes, rows and columns of pixels.
    pub extent: [usize; 3],
    /// Elements between pixels, rows and planes as read.
    pub pixel: usize,
    row: usize,
    plane: usize,
    /// Offsets of the kernel's contiguous runs in an image as read, and the length of a run.
    pub segments: Vec<isize>,
    pub segment: usize,
    /// Bytes of the packed weight, and of one slot.
    weights: usize,
    slot: usize,
}

/// Checks the sizes that all convolution kernels share.
pub fn check_sizes(s: &ConvSizes) -> Result<()> {
    if !s.dtype.is_float() {
        bail!("a convolution of {} is not supported", s.dtype.name());
    }
    let zero = [s.strides, s.input_dilation, s.kernel_dilation].iter().any(|p| p.contains(&0));
    if zero || s.slots == 0 || s.g == 0 {
        bail!("strides, dilations, groups and slots must be positive");
    }
    let large = |v: usize| v > 1 << 24;
    let sizes = [s.n, s.g, s.d, s.h, s.w, s.c, s.kd, s.kh, s.kw, s.o, s.od, s.oh, s.ow, s.slots];
    let steps = [s.strides, s.input_dilation, s.kernel_dilation].concat();
    if sizes.iter().chain(&steps).any(|v| large(*v)) || s.padding.iter().flatten().any(|p| p.abs() > 1 << 24) {
        bail!("sizes of a convolution must be below 2^24");
    }
    count(&[s.n, s.g, s.od, s.oh, s.ow, s.kd, s.kh, s.kw, s.c, s.o, 8])?;
    count(&[s.n, s.g, s.d, s.h, s.w, s.c, 8])?;
    // Every tap and every row of outputs takes an offset in a table.
    if count(&[s.kd, s.kh, s.kw])? > 1 << 24 || count(&[s.od, s.oh])? > 1 << 26 {
        bail!("windows of {} x {} x {} taps on {} x {} rows are too many", s.kd, s.kh, s.kw, s.od, s.oh);
    }
    Ok(())
}

impl Geometry {
    pub fn new(s: ConvSizes, filter: bool) -> Result<Geometry> {
        check_sizes(&s)?;
        let (window, output) = ([s.kd, s.kh, s.kw], [s.od, s.oh, s.ow]);
        let extent: [usize; 3] =
            std::array::from_fn(|a| reach(output[a], s.strides[a], window[a], s.kernel_dilation[a]));
        let fits = |a: usize, size: usize| s.padding[a][0] == 0 && extent[a] <= size;
        let unpadded = fits(0, s.d) && fits(1, s.h) && fits(2, s.w);
        let columns = output.iter().chain(&window).fold(s.c, |size, dim| size.saturating_mul(*dim));
        let volume = extent.iter().fold(s.c, |size, dim| size.saturating_mul(*dim));
        let reading = if unpadded && s.input_dilation == [1, 1, 1] {
            Reading::InPlace
        } else if !filter && spreads(&s, volume.min(columns)) {
            Reading::Spread
        } else if volume <= columns {
            Reading::Padded
        } else {
            Reading::Columns
        };
        let in_place = reading == Reading::InPlace;
        let pixel = if in_place { s.g * s.c } else { s.c };
        let row = pixel * if in_place { s.w } else { extent[2] };
        let plane = row * if in_place { s.h } else { extent[1] };
        let mut segments = Vec::new();
        // Taps of a row lie side by side where they are neighbours in the image, and there are no other groups between.
        let joined = s.kernel_dilation[2] == 1 && pixel == s.c;
        let segment = if joined { s.kw * s.c } else { s.c };
        for (z, y) in (0..s.kd).flat_map(|z| (0..s.kh).map(move |y| (z, y))) {
            let start = (z * s.kernel_dilation[0] * plane + y * s.kernel_dilation[1] * row) as isize;
            if joined {
                segments.push(start);
            } else {
                segments.extend((0..s.kw).map(|x| start + (x * s.kernel_dilation[2] * pixel) as isize));
            }
        }
        let (weights, slot) = (s.weights().get("weight")?, s.slot().get("slot")?);
        Ok(Geometry { s, reading, extent, pixel, row, plane, segments, segment, weights, slot })
    }

    pub fn taps(&self) -> usize {
        self.s.kd * self.s.kh * self.s.kw * self.s.c
    }

    pub fn pixels(&self) -> usize {
        self.s.od * self.s.oh * self.s.ow
    }

    /// Offsets of the rows of output pixels in an image as read.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        let s = &self.s;
        (0..s.od * s.oh).map(|at| at / s.oh * s.strides[0] * self.plane + at % s.oh * s.strides[1] * self.row)
    }

    /// Prepares group `group` of image `i` for reading; `slot` is the scratch of this worker.
    pub unsafe fn image<T: Element>(&self, x: *const T, i: usize, group: usize, slot: *mut T) -> *const T {
        let s = &self.s;
        let image = x.add(i * s.d * s.h * s.w * s.g * s.c + group * s.c);
        match self.reading {
            Reading::InPlace | Reading::Spread => image,
            Reading::Padded => {
                self.pad(image, slot);
                slot
            }
            Reading::Columns => {
                self.unroll(image, slot);
                slot
            }
        }
    }

    /// The pixel of the image under padded coordinate `at` along an axis, if any.
    fn source(&self, axis: usize, at: usize) -> Option<usize> {
        let s = &self.s;
        let (size, dilation) = ([s.d, s.h, s.w][axis], s.input_dilation[axis]);
        let at = at as i64 - s.padding[axis][0];
        let real = at >= 0 && at % dilation as i64 == 0 && at / (dilation as i64) < size as i64;
        real.then_some(at as usize / dilation)
    }

    pub unsafe fn pad<T: Element>(&self, image: *const T, to: *mut T) {
        let s = &self.s;
        let step = s.g * s.c;
        let [_, height, width] = self.extent;
        for at in 0..self.extent[0] * height {
            let line = std::slice::from_raw_parts_mut(to.add(at * self.row), self.row);
            let (Some(z), Some(y)) = (self.source(0, at / height), self.source(1, at % height)) else {
                line.fill(T::ZERO);
                continue;
            };
            let from = image.add((z * s.h + y) * s.w * step);
            if s.input_dilation[2] == 1 {
                // Zeros, a run of pixels, zeros.
                let start = s.padding[2][0].clamp(0, width as i64) as usize;
                let skip = (-s.padding[2][0]).clamp(0, s.w as i64) as usize;
                let pixels = (s.w - skip).min(width - start);
                line[..start * s.c].fill(T::ZERO);
                copy_pixels(from.add(skip * step), step, line[start * s.c..].as_mut_ptr(), s.c, pixels);
                line[(start + pixels) * s.c..].fill(T::ZERO);
                continue;
            }
            line.fill(T::ZERO);
            for x in 0..width {
                if let Some(pixel) = self.source(2, x) {
                    std::ptr::copy_nonoverlapping(from.add(pixel * step), line[x * s.c..].as_mut_ptr(), s.c);
                }
            }
        }
    }

    unsafe fn unroll<T: Element>(&self, image: *const T, to: *mut T) {
        let s = &self.s;
        let (step, taps) = (s.g * s.c, s.kd * s.kh * s.kw);
        let mut to = to;
        for i in 0..self.pixels() * taps {
            let (pixel, tap) = (i / taps, i % taps);
            let place = [pixel / (s.oh * s.ow), pixel / s.ow % s.oh, pixel % s.ow];
            let tap = [tap / (s.kh * s.kw), tap / s.kw % s.kh, tap % s.kw];
            let at = |a: usize| self.source(a, place[a] * s.strides[a] + tap[a] * s.kernel_dilation[a]);
            match (at(0), at(1), at(2)) {
                (Some(z), Some(y), Some(x)) => {
                    std::ptr::copy_nonoverlapping(image.add(((z * s.h + y) * s.w + x) * step), to, s.c);
                }
                _ => std::slice::from_raw_parts_mut(to, s.c).fill(T::ZERO),
            }
            to = to.add(s.c);
        }
    }
}

/// Copies pixels of `c` elements that lie `step` apart side by side.
unsafe fn copy_pixels<T: Copy>(from: *const T, step: usize, to: *mut T, c: usize, pixels: usize) {
    if step == c {
        return std::ptr::copy_nonoverlapping(from, to, pixels * c);
    }
    for x in 0..pixels {
        std::ptr::copy_nonoverlapping(from.add(x * step), to.add(x * c), c);
    }
}

fn reach(out: usize, stride: usize, kernel: usize, dilation: usize) -> usize {
    out.saturating_sub(1) * stride + kernel.saturating_sub(1) * dilation + 1
}

pub struct Conv {
    g: Geometry,
    x: At,
    weight: At,
    weight_strides: [isize; 6],
    out: At,
    scratch: At,
    epilogue: EpilogueJson,
}

impl Conv {
    pub fn new(call: ConvJson) -> Result<Conv> {
        let ConvJson { sizes, epilogue, x, weight: StridedJson { at: weight, strides }, out, scratch } = call;
        let Ok(weight_strides) = strides.as_slice().try_into() else { bail!("weight: six strides are needed") };
        Ok(Conv { g: Geometry::new(sizes, false)?, x, weight, weight_strides, out, scratch, epilogue })
    }
}

impl Kernel for Conv {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let s = &self.g.s;
        if s.n * self.g.pixels() * s.o == 0 {
            return Ok(());
        }
        for_float!(s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl Conv {
    unsafe fn typed<T: Real>(&self, run: &Run) {
        let (g, s) = (&self.g, &self.g.s);
        let packed: *mut T = run.ptr(self.scratch);
        match g.reading {
            Reading::Spread => conv_spread::pack(run, s, run.ptr::<T>(self.weight), &self.weight_strides, packed),
            _ => self.pack(run, packed),
        }
        let slots = packed.cast::<u8>().wrapping_add(g.weights) as usize;
        let (packed, x, out) = (packed as usize, run.ptr::<T>(self.x) as usize, run.ptr::<T>(self.out) as usize);
        let slot = |worker: usize| (slots + worker * g.slot) as *mut T;
        // Some rows of a group of an image that is ready to be read.
        let rows = |at: usize, image: *const T, slot: *mut T, rows: Range<usize>| {
            let (i, group) = (at / s.g, at % s.g);
            let out = (out as *mut T).add(i * g.pixels() * s.g * s.o + group * s.o);
            let packed = (packed as *const T).add(group * g.taps() * s.o);
            let result = Matrix { ptr: out.cast_const(), rows: (s.g * s.o) as isize, columns: 1 };
            let (first, count) = (rows.start * s.ow, rows.len() * s.ow);
            match g.reading {
                Reading::Spread => conv_spread::image(run, s, image, packed, [slot, out]),
                _ => self.product(run, image, packed, out, rows),
            }
            self.epilogue.apply(run, result.from(first, 0), count, group * s.o, s.o);
        };
        let image = |at: usize, slot: *mut T| g.image(x as *const T, at / s.g, at % s.g, slot);
        let (work, images, all) = (g.pixels() * g.taps() * s.o, s.n * s.g, s.od * s.oh);
        if images < run.pool.threads() && g.reading != Reading::Spread {
            // Too few images for the threads, which share the rows of each.
            let parts = (work / GRAIN).clamp(1, all.min(2 * run.pool.threads()));
            for at in 0..images {
                let ready = image(at, slot(0)) as usize;
                run.pool.run(parts, usize::MAX, |_, part| {
                    rows(at, ready as *const T, slot(0), all * part / parts..all * (part + 1) / parts);
                });
            }
            return;
        }
        // A task takes several small images.
        let group = ((1 << 19) / work.max(1)).clamp(1, images);
        run.pool.run(images.div_ceil(group), s.slots, |worker, task| {
            for at in task * group..images.min((task + 1) * group) {
                rows(at, image(at, slot(worker)), slot(worker), 0..all);
            }
        });
    }

    /// For each group of the convolution, groups of columns one after another, each `[taps][columns of the group]`.
    unsafe fn pack<T: Real>(&self, run: &Run, to: *mut T) {
        let (g, s) = (&self.g, &self.g.s);
        let weight = run.ptr::<T>(self.weight) as usize;
        let [by_group, by_z, by_y, by_x, by_c, by_o] = self.weight_strides;
        let width = T::columns(run.isa);
        let to = to as usize;
        let rows = s.g * s.kd * s.kh;
        let alone = rows * s.kw * s.c * s.o > 1 << 15;
        run.pool.run(if alone { rows } else { 1 }, usize::MAX, |_, part| {
            let rows = if alone { part..part + 1 } else { 0..rows };
            for (at, x) in rows.flat_map(|at| (0..s.kw).map(move |x| (at, x))) {
                let (group, row) = (at / (s.kd * s.kh), at % (s.kd * s.kh));
                let (z, y) = (row / s.kh, row % s.kh);
                let from = (weight as *const T)
                    .wrapping_offset(group as isize * by_group + z as isize * by_z)
                    .wrapping_offset(y as isize * by_y + x as isize * by_x);
                let to = (to as *mut T).add(group * g.taps() * s.o);
                for o in (0..s.o).step_by(width) {
                    let columns = width.min(s.o - o);
                    let target = to.add(o * g.taps() + (row * s.kw + x) * s.c * columns);
                    let matrix = Matrix { ptr: from.wrapping_offset(o as isize * by_o), rows: by_c, columns: by_o };
                    pack_right(matrix, s.c, columns, target);
                }
            }
        });
    }

    /// Some rows of output pixels.
    unsafe fn product<T: Real>(&self, run: &Run, image: *const T, packed: *const T, out: *mut T, rows: Range<usize>) {
        let (g, s) = (&self.g, &self.g.s);
        let first = rows.start * s.ow;
        let width = T::columns(run.isa);
        let out_pixel = s.g * s.o;
        let mut x = Block {
            m: s.ow,
            n: s.o,
            left: image,
            left_row: (s.strides[2] * g.pixel) as isize,
            left_step: 1,
            left_packed: false,
            segments: &g.segments,
            segment: g.segment,
            chain: DEPTH,
            right: packed,
            right_row: width as isize,
            right_panel: (g.taps() * width) as isize,
            right_last_row: (s.o % width) as isize,
            out,
            out_row: out_pixel as isize,
            accumulate: false,
            ahead: [Ahead::NONE; 2],
        };
        let step = s.strides[2] * g.pixel;
        let flat = s.strides[1] * g.row == s.ow * step && (s.od == 1 || s.strides[0] * g.plane == s.oh * s.ow * step);
        if flat || g.reading == Reading::Columns {
            // Rows of pixels follow each other evenly (1x1 kernels): the image is one long row.
            x.m = rows.len() * s.ow;
            if g.reading == Reading::Columns {
                x.left_row = g.taps() as isize;
                x.segments = &[0];
                x.segment = g.taps();
            }
            x.left = image.offset(first as isize * x.left_row);
            x.out = out.add(first * out_pixel);
            return long_block(run.isa, &x);
        }
        // One group of columns at a time keeps its weights close.
        for o in (0..s.o).step_by(width) {
            x.n = width.min(s.o - o);
            x.right = packed.add(o * g.taps());
            x.right_row = x.n as isize;
            x.right_last_row = x.n as isize;
            for (y, row) in g.rows().enumerate().take(rows.end).skip(rows.start) {
                x.left = image.add(row);
                x.out = out.add(y * s.ow * out_pixel + o);
                long_block(run.isa, &x);
            }
        }
    }
}

pub struct ConvFilter {
    pub(super) g: Geometry,
    pub(super) chunks: usize,
    /// Offsets of the rows of output pixels in an image as read.
    rows: Vec<isize>,
    x: At,
    dy: At,
    out: At,
    scratch: At,
}

impl ConvFilter {
    pub fn new(call: ConvFilterJson) -> Result<ConvFilter> {
        let ConvFilterJson { sizes, x, dy, out, scratch } = call;
        let g = Geometry::new(sizes, true)?;
        let rows = g.rows().map(|row| row as isize).collect();
        Ok(ConvFilter { x, dy, out, scratch, chunks: g.s.chunks().get("chunks")?, rows, g })
    }
}

impl Kernel for ConvFilter {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.g.s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

/// Calls a function with a worker's image as read and its cotangents, by the numbers of worker, image and group.
pub(super) type Each<'a, T> = &'a (dyn Fn([usize; 3], &mut dyn FnMut(*const T, *const T)) + Sync);

impl ConvFilter {
    unsafe fn typed<T: Real>(&self, run: &Run) {
        let (g, s) = (&self.g, &self.g.s);
        let sums = run.ptr::<u8>(self.scratch) as usize;
        let slots = sums + self.chunks * g.weights;
        let (x, dy) = (run.ptr::<T>(self.x) as usize, run.ptr::<T>(self.dy) as usize);
        self.sum(run, sums as *mut T, run.ptr(self.out), &|[worker, i, group], f| {
            let dy = (dy as *const T).add(i * g.pixels() * s.g * s.o + group * s.o);
            f(g.image(x as *const T, i, group, (slots + worker * g.slot) as *mut T), dy);
        });
    }

    /// The gradient in `out`; `sums` has room for those of the chunks.
    pub(super) unsafe fn sum<T: Real>(&self, run: &Run, sums: *mut T, out: *mut T, each: Each<T>) {
        let (g, s) = (&self.g, &self.g.s);
        let (taps, all) = (g.taps() * s.o, s.g * g.taps() * s.o);
        if s.n * g.pixels() == 0 || taps == 0 {
            return std::slice::from_raw_parts_mut(out, all).fill(T::ZERO);
        }
        let from = sums as usize;
        run.pool.run(self.chunks * s.g, s.slots, |worker, task| {
            let (chunk, group) = (task / s.g, task % s.g);
            let sum = ((from + chunk * g.weights) as *mut T).add(group * taps);
            let (first, last) = (s.n * chunk / self.chunks, s.n * (chunk + 1) / self.chunks);
            let add = |i: usize, to: *mut T, accumulate: bool| {
                each([worker, i, group], &mut |image, dy| self.product(run, image, dy, to, accumulate));
            };
            let together = (4 * SPAN / g.pixels()).max(1);
            if last - first <= together {
                return (first..last).for_each(|i| add(i, sum, i > first));
            }
            totals(run.isa, taps, |tally| {
                for start in (first..last).step_by(together) {
                    (start..last.min(start + together)).for_each(|i| add(i, tally.sums.as_mut_ptr(), i > start));
                    tally.join();
                }
                tally.settle();
                std::ptr::copy_nonoverlapping(tally.totals.as_ptr(), sum, taps);
            });
        });
        tree(sums, self.chunks, all, g.weights / std::mem::size_of::<T>());
        std::ptr::copy(sums, out, all);
    }

    unsafe fn product<T: Real>(&self, run: &Run, image: *const T, dy: *const T, sum: *mut T, accumulate: bool) {
        let (g, s) = (&self.g, &self.g.s);
        let width = T::columns(run.isa);
        let dy_pixel = (s.g * s.o) as isize;
        let mut x = Block {
            m: g.segment,
            n: s.o,
            left: image,
            left_row: 1,
            left_step: (s.strides[2] * g.pixel) as isize,
            left_packed: false,
            segments: &self.rows,
            segment: s.ow,
            chain: DEPTH,
            right: dy,
            right_row: dy_pixel,
            right_panel: width as isize,
            right_last_row: dy_pixel,
            out: sum,
            out_row: s.o as isize,
            accumulate,
            ahead: [Ahead::NONE; 2],
        };
        if g.reading == Reading::Columns {
            x.m = g.taps();
            x.left_step = g.taps() as isize;
            x.segments = &[0];
            x.segment = g.pixels();
            return long_block(run.isa, &x);
        }
        for o in (0..s.o).step_by(width) {
            x.n = width.min(s.o - o);
            x.right = dy.add(o);
            for (i, offset) in g.segments.iter().enumerate() {
                x.left = image.offset(*offset);
                x.out = sum.add(i * g.segment * s.o + o);
                long_block(run.isa, &x);
            }
        }
    }
}
