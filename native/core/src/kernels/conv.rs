//! Convolutions without unrolled columns: images are padded once into scratch that stays in cache, and the register
//! tile walks them in place, a segment of the kernel at a time.

use super::dot::tree;
use super::epilogue::Epilogue;
use super::micro::{Block, Real};
use super::product::{pack_right, Matrix};
use crate::dtype::for_float;
use crate::exec::Run;
use crate::program::{ConvFilterJson, ConvJson, ConvSizes};
use crate::verify::{count, At, Checker};
use crate::{bail, Result};

const CHUNKS: usize = 8;

/// How an image is read: in place, padded into a slot, or as unrolled columns in a slot.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reading {
    InPlace,
    Padded,
    Columns,
}

struct Geometry {
    s: ConvSizes,
    reading: Reading,
    /// Size of what is read: rows and columns of pixels.
    height: usize,
    width: usize,
    /// Offsets of the kernel's contiguous runs in an image as read, and the length of a run.
    segments: Vec<isize>,
    segment: usize,
    /// Bytes of one slot.
    slot: usize,
}

fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

impl Geometry {
    fn new(s: &ConvSizes) -> Result<Geometry> {
        if !s.dtype.is_float() {
            bail!("a convolution of {} is not supported", s.dtype.name());
        }
        let zero = [s.strides, s.input_dilation, s.kernel_dilation].iter().any(|p| p.contains(&0));
        if zero || s.slots == 0 {
            bail!("strides, dilations and slots must be positive");
        }
        let large = |v: usize| v > 1 << 24;
        let sizes = [s.n, s.h, s.w, s.c, s.kh, s.kw, s.o, s.oh, s.ow, s.slots];
        let steps = [s.strides, s.input_dilation, s.kernel_dilation].concat();
        if sizes.iter().chain(&steps).any(|v| large(*v)) || s.padding.iter().flatten().any(|p| p.abs() > 1 << 24) {
            bail!("sizes of a convolution must be below 2^24");
        }
        count(&[s.n, s.oh, s.ow, s.kh, s.kw, s.c, s.o, 8])?;
        let height = extent(s.oh, s.strides[0], s.kh, s.kernel_dilation[0]);
        let width = extent(s.ow, s.strides[1], s.kw, s.kernel_dilation[1]);
        let unpadded = s.padding[0][0] == 0 && s.padding[1][0] == 0 && height <= s.h && width <= s.w;
        let columns = s.oh * s.ow * s.kh * s.kw * s.c;
        let reading = if unpadded && s.input_dilation == [1, 1] {
            Reading::InPlace
        } else if height.saturating_mul(width).saturating_mul(s.c) <= columns {
            Reading::Padded
        } else {
            Reading::Columns
        };
        let row = if reading == Reading::InPlace { s.w } else { width } * s.c;
        let mut segments = Vec::new();
        let segment = if s.kernel_dilation[1] == 1 { s.kw * s.c } else { s.c };
        for y in 0..s.kh {
            let start = (y * s.kernel_dilation[0] * row) as isize;
            if s.kernel_dilation[1] == 1 {
                segments.push(start);
            } else {
                segments.extend((0..s.kw).map(|x| start + (x * s.kernel_dilation[1] * s.c) as isize));
            }
        }
        let slot = rounded(columns * s.dtype.size());
        Ok(Geometry { s: s.clone(), reading, height, width, segments, segment, slot })
    }

    fn taps(&self) -> usize {
        self.s.kh * self.s.kw * self.s.c
    }

    fn pixels(&self) -> usize {
        self.s.oh * self.s.ow
    }

    /// Elements between rows of pixels as read.
    fn row(&self) -> usize {
        self.s.c * if self.reading == Reading::InPlace { self.s.w } else { self.width }
    }

    /// Makes image `i` readable; `slot` is this worker's scratch.
    unsafe fn image<T: Real>(&self, x: *const T, i: usize, slot: *mut T) -> *const T {
        let s = &self.s;
        let image = x.add(i * s.h * s.w * s.c);
        match self.reading {
            Reading::InPlace => image,
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

    /// The pixel of the image under padded coordinate `at`, if any.
    fn source(at: usize, before: i64, dilation: usize, size: usize) -> Option<usize> {
        let at = at as i64 - before;
        let real = at >= 0 && at % dilation as i64 == 0 && at / (dilation as i64) < size as i64;
        real.then_some(at as usize / dilation)
    }

    unsafe fn pad<T: Real>(&self, image: *const T, to: *mut T) {
        let s = &self.s;
        let row = self.width * s.c;
        for y in 0..self.height {
            let line = std::slice::from_raw_parts_mut(to.add(y * row), row);
            let Some(from) = Geometry::source(y, s.padding[0][0], s.input_dilation[0], s.h) else {
                line.fill(T::ZERO);
                continue;
            };
            let from = image.add(from * s.w * s.c);
            if s.input_dilation[1] == 1 {
                // Zeros, a run of pixels, zeros.
                let start = s.padding[1][0].clamp(0, self.width as i64) as usize;
                let skip = (-s.padding[1][0]).clamp(0, s.w as i64) as usize;
                let pixels = (s.w - skip).min(self.width - start);
                line[..start * s.c].fill(T::ZERO);
                std::ptr::copy_nonoverlapping(from.add(skip * s.c), line[start * s.c..].as_mut_ptr(), pixels * s.c);
                line[(start + pixels) * s.c..].fill(T::ZERO);
                continue;
            }
            line.fill(T::ZERO);
            for x in 0..self.width {
                if let Some(pixel) = Geometry::source(x, s.padding[1][0], s.input_dilation[1], s.w) {
                    std::ptr::copy_nonoverlapping(from.add(pixel * s.c), line[x * s.c..].as_mut_ptr(), s.c);
                }
            }
        }
    }

    unsafe fn unroll<T: Real>(&self, image: *const T, to: *mut T) {
        let s = &self.s;
        let mut to = to;
        for (oy, ox, y, x) in (0..self.pixels() * s.kh * s.kw).map(|i| {
            let (pixel, tap) = (i / (s.kh * s.kw), i % (s.kh * s.kw));
            (pixel / s.ow, pixel % s.ow, tap / s.kw, tap % s.kw)
        }) {
            let at_y = oy * s.strides[0] + y * s.kernel_dilation[0];
            let at_x = ox * s.strides[1] + x * s.kernel_dilation[1];
            let from_y = Geometry::source(at_y, s.padding[0][0], s.input_dilation[0], s.h);
            let from_x = Geometry::source(at_x, s.padding[1][0], s.input_dilation[1], s.w);
            match (from_y, from_x) {
                (Some(y), Some(x)) => std::ptr::copy_nonoverlapping(image.add((y * s.w + x) * s.c), to, s.c),
                _ => std::slice::from_raw_parts_mut(to, s.c).fill(T::ZERO),
            }
            to = to.add(s.c);
        }
    }
}

fn extent(out: usize, stride: usize, kernel: usize, dilation: usize) -> usize {
    out.saturating_sub(1) * stride + kernel.saturating_sub(1) * dilation + 1
}

pub struct Conv {
    g: Geometry,
    x: At,
    weight: At,
    weight_strides: [isize; 4],
    out: At,
    scratch: At,
    epilogue: Epilogue,
}

impl Conv {
    pub fn new(json: &ConvJson, mut checker: Checker) -> Result<Conv> {
        let g = Geometry::new(&json.sizes)?;
        let s = &g.s;
        let kernel = [s.kh, s.kw, s.c, s.o];
        checker.read_all("x", json.x, s.dtype, &[s.n, s.h, s.w, s.c])?;
        checker.read("weight", json.weight.at, s.dtype, &kernel, &json.weight.strides)?;
        checker.write_all("out", json.out, s.dtype, &[s.n, s.oh, s.ow, s.o])?;
        let weights = rounded(g.taps() * s.o * s.dtype.size());
        checker.scratch("scratch", json.scratch, weights + s.slots * g.slot)?;
        let epilogue = Epilogue::new(&json.epilogue, s.dtype, s.o, &mut checker)?;
        checker.finish(false)?;
        let Ok(weight_strides) = json.weight.strides.as_slice().try_into() else {
            bail!("weight: four strides are needed")
        };
        Ok(Conv {
            x: json.x,
            weight: json.weight.at,
            weight_strides,
            out: json.out,
            scratch: json.scratch,
            epilogue,
            g,
        })
    }

    pub fn run(&self, run: &Run) -> Result<()> {
        let s = &self.g.s;
        if s.n * self.g.pixels() * s.o == 0 {
            return Ok(());
        }
        for_float!(s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }

    unsafe fn typed<T: Real>(&self, run: &Run) {
        let (g, s) = (&self.g, &self.g.s);
        let packed: *mut T = run.ptr(self.scratch);
        self.pack(run, packed);
        let weights = rounded(g.taps() * s.o * s.dtype.size());
        let slots = packed.cast::<u8>().wrapping_add(weights) as usize;
        let (packed, x, out) = (packed as usize, run.ptr::<T>(self.x) as usize, run.ptr::<T>(self.out) as usize);
        let run_image = |worker: usize, i: usize| {
            let slot = (slots + worker * g.slot) as *mut T;
            let image = g.image(x as *const T, i, slot);
            let out = (out as *mut T).add(i * g.pixels() * s.o);
            self.product(run, image, packed as *const T, out);
            let made = Matrix { ptr: out.cast_const(), rows: s.o as isize, columns: 1 };
            self.epilogue.apply(run, made, g.pixels(), 0, s.o);
        };
        // Small images go several to a task.
        let work = g.pixels() * g.taps() * s.o;
        let group = ((1 << 19) / work.max(1)).clamp(1, s.n);
        run.pool.run(s.n.div_ceil(group), s.slots, |worker, task| {
            (task * group..s.n.min((task + 1) * group)).for_each(|i| run_image(worker, i));
        });
    }

    /// Groups of columns one after another, each `[taps][columns of the group]`.
    unsafe fn pack<T: Real>(&self, run: &Run, to: *mut T) {
        let (g, s) = (&self.g, &self.g.s);
        let weight = run.ptr::<T>(self.weight) as usize;
        let [by_y, by_x, by_c, by_o] = self.weight_strides;
        let width = T::columns(run.isa);
        let to = to as usize;
        run.pool.run(if g.taps() * s.o > 1 << 15 { s.kh } else { 1 }, usize::MAX, |_, part| {
            let to = to as *mut T;
            let rows = if g.taps() * s.o > 1 << 15 { part..part + 1 } else { 0..s.kh };
            for (y, x) in rows.flat_map(|y| (0..s.kw).map(move |x| (y, x))) {
                let from = (weight as *const T).wrapping_offset(y as isize * by_y + x as isize * by_x);
                for o in (0..s.o).step_by(width) {
                    let columns = width.min(s.o - o);
                    let target = to.add(o * g.taps() + (y * s.kw + x) * s.c * columns);
                    let matrix = Matrix { ptr: from.wrapping_offset(o as isize * by_o), rows: by_c, columns: by_o };
                    pack_right(matrix, s.c, columns, target);
                }
            }
        });
    }

    unsafe fn product<T: Real>(&self, run: &Run, image: *const T, packed: *const T, out: *mut T) {
        let (g, s) = (&self.g, &self.g.s);
        let width = T::columns(run.isa);
        let mut x = Block {
            m: s.ow,
            n: s.o,
            left: image,
            left_row: (s.strides[1] * s.c) as isize,
            left_step: 1,
            left_packed: false,
            segments: &g.segments,
            segment: g.segment,
            right: packed,
            right_row: width as isize,
            right_panel: (g.taps() * width) as isize,
            right_last_row: (s.o % width) as isize,
            out,
            out_row: s.o as isize,
            accumulate: false,
        };
        if g.reading == Reading::Columns {
            x.m = g.pixels();
            x.left_row = g.taps() as isize;
            x.segments = &[0];
            x.segment = g.taps();
            return T::block(run.isa, &x);
        }
        let flat = s.strides[0] * g.row() == s.ow * s.strides[1] * s.c;
        if flat {
            // Rows of pixels follow each other evenly (1x1 kernels): the image is one long row.
            x.m = g.pixels();
            return T::block(run.isa, &x);
        }
        // One group of columns at a time keeps its weights close.
        for o in (0..s.o).step_by(width) {
            x.n = width.min(s.o - o);
            x.right = packed.add(o * g.taps());
            x.right_row = x.n as isize;
            x.right_last_row = x.n as isize;
            for y in 0..s.oh {
                x.left = image.add(y * s.strides[0] * g.row());
                x.out = out.add(y * s.ow * s.o + o);
                T::block(run.isa, &x);
            }
        }
    }
}

pub struct ConvFilter {
    g: Geometry,
    chunks: usize,
    /// Bytes of one chunk's partial sums.
    area: usize,
    /// Offsets of the rows of output pixels in an image as read.
    rows: Vec<isize>,
    x: At,
    dy: At,
    out: At,
    scratch: At,
}

impl ConvFilter {
    pub fn new(json: &ConvFilterJson, mut checker: Checker) -> Result<ConvFilter> {
        let g = Geometry::new(&json.sizes)?;
        let s = &g.s;
        checker.read_all("x", json.x, s.dtype, &[s.n, s.h, s.w, s.c])?;
        checker.read_all("dy", json.dy, s.dtype, &[s.n, s.oh, s.ow, s.o])?;
        checker.write_all("out", json.out, s.dtype, &[s.kh, s.kw, s.c, s.o])?;
        let chunks = s.n.min(CHUNKS);
        let area = rounded(g.taps() * s.o * s.dtype.size());
        checker.scratch("scratch", json.scratch, chunks * area + s.slots * g.slot)?;
        checker.finish(false)?;
        let rows = (0..s.oh).map(|y| (y * s.strides[0] * g.row()) as isize).collect();
        Ok(ConvFilter { x: json.x, dy: json.dy, out: json.out, scratch: json.scratch, chunks, area, rows, g })
    }

    pub fn run(&self, run: &Run) -> Result<()> {
        for_float!(self.g.s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }

    unsafe fn typed<T: Real>(&self, run: &Run) {
        let (g, s) = (&self.g, &self.g.s);
        let out: *mut T = run.ptr(self.out);
        let taps = g.taps() * s.o;
        if s.n * g.pixels() == 0 || taps == 0 {
            return std::slice::from_raw_parts_mut(out, taps).fill(T::ZERO);
        }
        let sums = run.ptr::<u8>(self.scratch) as usize;
        let slots = sums + self.chunks * self.area;
        let (x, dy) = (run.ptr::<T>(self.x) as usize, run.ptr::<T>(self.dy) as usize);
        run.pool.run(self.chunks, s.slots, |worker, chunk| {
            let sum = (sums + chunk * self.area) as *mut T;
            let slot = (slots + worker * g.slot) as *mut T;
            let (first, last) = (s.n * chunk / self.chunks, s.n * (chunk + 1) / self.chunks);
            for i in first..last {
                let image = g.image(x as *const T, i, slot);
                let dy = (dy as *const T).add(i * g.pixels() * s.o);
                self.product(run, image, dy, sum, i > first);
            }
        });
        tree(sums as *mut T, self.chunks, taps, self.area / std::mem::size_of::<T>());
        std::ptr::copy_nonoverlapping(sums as *const T, out, taps);
    }

    unsafe fn product<T: Real>(&self, run: &Run, image: *const T, dy: *const T, sum: *mut T, accumulate: bool) {
        let (g, s) = (&self.g, &self.g.s);
        let width = T::columns(run.isa);
        let mut x = Block {
            m: g.segment,
            n: s.o,
            left: image,
            left_row: 1,
            left_step: (s.strides[1] * s.c) as isize,
            left_packed: false,
            segments: &self.rows,
            segment: s.ow,
            right: dy,
            right_row: s.o as isize,
            right_panel: width as isize,
            right_last_row: s.o as isize,
            out: sum,
            out_row: s.o as isize,
            accumulate,
        };
        if g.reading == Reading::Columns {
            x.m = g.taps();
            x.left_step = g.taps() as isize;
            x.segments = &[0];
            x.segment = g.pixels();
            return T::block(run.isa, &x);
        }
        for o in (0..s.o).step_by(width) {
            x.n = width.min(s.o - o);
            x.right = dy.add(o);
            for (i, offset) in g.segments.iter().enumerate() {
                x.left = image.offset(*offset);
                x.out = sum.add(i * g.segment * s.o + o);
                T::block(run.isa, &x);
            }
        }
    }
}
