//! Convolutions of many groups of few channels (depthwise ones have one each): the groups are the lanes of vectors.
//!
//! Images are read where they lie. Which taps meet the image, and where, is known per axis when a program is loaded, so
//! padding and gaps between elements cost nothing. Every result is made of chains of multiply-adds in order of taps and channels.

use std::ops::Range;

use super::conv::check_sizes;
use super::dot::tree;
use super::epilogue::Epilogue;
use super::product::{Matrix, DEPTH};
use super::tally::totals;
use crate::dtype::for_float;
use crate::exec::{kernels, Kernel, Run};
use crate::isa::{by_isa, Isa};
use crate::program::{ConvFilterJson, ConvJson, ConvSizes};
use crate::scalar::Float;
use crate::simd::Simd;
use crate::verify::{contiguous, At, Checker};
use crate::{bail, Result};

kernels! {
    "convGroups" ConvGroups::new;
    "convGroupsFilter" ConvGroupsFilter::new;
}

const CHUNKS: usize = 8;
/// Outputs that are made together, so that a weight is loaded once for all of them.
const TOGETHER: usize = 4;
/// Multiply-adds of one task.
const TASK: usize = 1 << 17;
/// Most pairs of outputs and taps along an axis.
const MOST: usize = 1 << 22;

/// The taps that an output position meets along one axis, as offsets into the weights and into an image.
struct Axis {
    /// Where the pairs of each position begin, and the end.
    starts: Vec<usize>,
    pairs: Vec<(usize, usize)>,
    /// Positions this far apart meet the same taps, `step` elements of the image further on.
    period: usize,
    step: usize,
    /// Of each position, whether the next `TOGETHER - 1` of its period meet the same taps.
    alike: Vec<bool>,
    /// For each tap: offset into the outputs and into an image of the first pair, how many there are.
    runs: Vec<(usize, usize, usize)>,
}

struct Along {
    size: usize,
    window: usize,
    out: usize,
    stride: usize,
    before: i64,
    input_dilation: usize,
    kernel_dilation: usize,
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

impl Axis {
    /// Distances between taps in the weights, elements of an image, and outputs.
    fn new(a: &Along, by_tap: usize, by_element: usize, by_out: usize) -> Result<Axis> {
        if a.out.saturating_mul(a.window) > MOST {
            bail!("{} outputs of {} taps are too many for one axis of this kernel", a.out, a.window);
        }
        let source = |out: usize, tap: usize| {
            let at = (out * a.stride + tap * a.kernel_dilation) as i64 - a.before;
            let step = a.input_dilation as i64;
            (at >= 0 && at % step == 0 && at / step < a.size as i64).then_some((at / step) as usize)
        };
        let (mut starts, mut pairs) = (vec![0], Vec::new());
        for out in 0..a.out {
            pairs
                .extend((0..a.window).filter_map(|tap| source(out, tap).map(|from| (tap * by_tap, from * by_element))));
            starts.push(pairs.len());
        }
        let period = a.input_dilation / gcd(a.input_dilation, a.stride);
        let step = a.stride * period / a.input_dilation * by_element;
        let of = |out: usize| &pairs[starts[out]..starts[out + 1]];
        let moved = |out: usize, by: usize| {
            let (here, there) = (of(out), of(out + by * period));
            here.len() == there.len() && here.iter().zip(there).all(|(x, y)| x.0 == y.0 && x.1 + by * step == y.1)
        };
        let alike = (0..a.out)
            .map(|out| out + (TOGETHER - 1) * period < a.out && (1..TOGETHER).all(|by| moved(out, by)))
            .collect();
        let runs = (0..a.window)
            .map(|tap| {
                let first = (0..a.out).find_map(|out| source(out, tap).map(|from| (out, from)));
                let count = (0..a.out).filter(|out| source(*out, tap).is_some()).count();
                first.map_or((0, 0, 0), |(out, from)| (out * by_out, from * by_element, count))
            })
            .collect();
        Ok(Axis { starts, pairs, period, step, alike, runs })
    }

    fn of(&self, out: usize) -> &[(usize, usize)] {
        &self.pairs[self.starts[out]..self.starts[out + 1]]
    }
}

/// Axes over an image `[d, h, w, c, g]`, weights `[kd, kh, kw, c, o, g]` and results `[od, oh, ow, o, g]`.
fn axes(s: &ConvSizes) -> Result<[Axis; 3]> {
    let (size, window, out) = ([s.d, s.h, s.w], [s.kd, s.kh, s.kw], [s.od, s.oh, s.ow]);
    let along = |a: usize| Along {
        size: size[a],
        window: window[a],
        out: out[a],
        stride: s.strides[a],
        before: s.padding[a][0],
        input_dilation: s.input_dilation[a],
        kernel_dilation: s.kernel_dilation[a],
    };
    let inner = |sizes: [usize; 3], a: usize, last: usize| sizes[a + 1..].iter().product::<usize>() * last;
    let make = |a: usize| {
        Axis::new(&along(a), inner(window, a, s.c * s.o * s.g), inner(size, a, s.c * s.g), inner(out, a, s.o * s.g))
    };
    Ok([make(0)?, make(1)?, make(2)?])
}

fn check(s: &ConvSizes) -> Result<()> {
    check_sizes(s)?;
    let limits: [&[usize]; 3] =
        [&[s.d, s.h, s.w, s.c, s.g, 8], &[s.kd, s.kh, s.kw, s.c, s.o, s.g, 8], &[s.od, s.oh, s.ow, s.o, s.g, 8]];
    for sizes in limits {
        if sizes.iter().fold(1usize, |all, one| all.saturating_mul(*one)) > 1 << 46 {
            bail!("a convolution of sizes {sizes:?} is too large");
        }
    }
    Ok(())
}

/// One row of results for one output channel: what all of it shares.
struct Row<'a, T> {
    z: &'a [(usize, usize)],
    y: &'a [(usize, usize)],
    axis: &'a Axis,
    /// Input channels, and distances of channels and groups of outputs.
    c: usize,
    o: usize,
    g: usize,
    image: *const T,
    weight: *const T,
    out: *mut T,
    /// Outputs in the row.
    ow: usize,
}

/// Floats that this kernel is compiled for.
trait Grouped: Float {
    unsafe fn row(isa: Isa, row: &Row<Self>);
    unsafe fn multiply(isa: Isa, sums: &Sums<Self>);
}

macro_rules! grouped {
    ($t:ty, $row:ident, $row_body:ident, $sums:ident, $sums_body:ident) => {
        by_isa! { fn $row(row: &Row<$t>) => $row_body }
        by_isa! { fn $sums(sums: &Sums<$t>) => $sums_body }
        #[inline(always)]
        unsafe fn $row_body<S: Simd<$t>>(row: &Row<$t>) {
            row_body::<S, $t>(row)
        }
        #[inline(always)]
        unsafe fn $sums_body<S: Simd<$t>>(sums: &Sums<$t>) {
            sums_body::<S, $t>(sums)
        }
        impl Grouped for $t {
            unsafe fn row(isa: Isa, row: &Row<$t>) {
                $row(isa, row)
            }
            unsafe fn multiply(isa: Isa, sums: &Sums<$t>) {
                $sums(isa, sums)
            }
        }
    };
}

grouped!(f32, row_f32, row_body_f32, sums_f32, sums_body_f32);
grouped!(f64, row_f64, row_body_f64, sums_f64, sums_body_f64);

#[inline(always)]
unsafe fn row_body<S: Simd<T>, T: Float>(row: &Row<T>) {
    for first in 0..row.axis.period.min(row.ow) {
        let mut out = first;
        while out < row.ow {
            if row.axis.alike[out] {
                lanes::<S, T, TOGETHER>(row, out);
                out += TOGETHER * row.axis.period;
            } else {
                lanes::<S, T, 1>(row, out);
                out += row.axis.period;
            }
        }
    }
}

#[inline(always)]
unsafe fn lanes<S: Simd<T>, T: Float, const P: usize>(row: &Row<T>, out: usize) {
    let mut lane = 0;
    while lane + 2 * S::LANES <= row.g {
        outputs::<S, T, P, 2, true>(row, out, lane, S::LANES);
        lane += 2 * S::LANES;
    }
    while lane < row.g {
        let tail = S::LANES.min(row.g - lane);
        if tail == S::LANES {
            outputs::<S, T, P, 1, true>(row, out, lane, tail);
        } else {
            outputs::<S, T, P, 1, false>(row, out, lane, tail);
        }
        lane += tail;
    }
}

/// Adds sums to totals, and begins them again.
#[inline(always)]
unsafe fn add<S: Simd<T>, T: Float, const P: usize, const V: usize>(
    totals: &mut [[S::V; V]; P],
    sums: &mut [[S::V; V]; P],
) {
    for (total, sum) in totals.iter_mut().flatten().zip(sums.iter_mut().flatten()) {
        *total = S::add(*total, *sum);
        *sum = S::zero();
    }
}

/// `P` outputs of `V` vectors of groups.
#[inline(always)]
unsafe fn outputs<S: Simd<T>, T: Float, const P: usize, const V: usize, const FULL: bool>(
    row: &Row<T>,
    out: usize,
    lane: usize,
    tail: usize,
) {
    let load = |from: *const T| if FULL { S::load(from) } else { S::load_some(from, tail) };
    let mut sum = [[S::zero(); V]; P];
    let (mut total, mut steps) = (sum, 0);
    let along = row.axis.of(out);
    for (weight, image) in row.z.iter().flat_map(|z| row.y.iter().map(move |y| (z.0 + y.0, z.1 + y.1))) {
        for (by_weight, by_image) in along {
            let mut weight = row.weight.add(weight + by_weight + lane);
            let mut image = row.image.add(image + by_image + lane);
            for _ in 0..row.c {
                for v in 0..V {
                    let w = load(weight.add(v * S::LANES));
                    for (p, row_sums) in sum.iter_mut().enumerate() {
                        let x = load(image.wrapping_add(p * row.axis.step + v * S::LANES));
                        row_sums[v] = S::mul_add(x, w, row_sums[v]);
                    }
                }
                weight = weight.wrapping_add(row.o * row.g);
                image = image.wrapping_add(row.g);
            }
            steps += row.c;
            if steps >= DEPTH {
                add::<S, T, P, V>(&mut total, &mut sum);
                steps = 0;
            }
        }
    }
    add::<S, T, P, V>(&mut total, &mut sum);
    let sum = total;
    for (p, row_sums) in sum.iter().enumerate() {
        let to = row.out.add((out + p * row.axis.period) * row.o * row.g + lane);
        for (v, value) in row_sums.iter().enumerate() {
            if FULL {
                S::store(to.add(v * S::LANES), *value);
            } else {
                S::store_some(to.add(v * S::LANES), tail, *value);
            }
        }
    }
}

pub struct ConvGroups {
    s: ConvSizes,
    axes: [Axis; 3],
    x: At,
    weight: At,
    out: At,
    epilogue: Epilogue,
}

impl ConvGroups {
    pub fn new(json: &ConvJson, mut checker: Checker) -> Result<ConvGroups> {
        let s = &json.sizes;
        check(s)?;
        let kernel = [s.kd, s.kh, s.kw, s.c, s.o, s.g];
        if json.weight.strides != contiguous(&kernel) {
            bail!("weight: the strides of {kernel:?} must be those of a contiguous tensor");
        }
        checker.read_all("x", json.x, s.dtype, &[s.n, s.d, s.h, s.w, s.c, s.g])?;
        checker.read_all("weight", json.weight.at, s.dtype, &kernel)?;
        checker.write_all("out", json.out, s.dtype, &[s.n, s.od, s.oh, s.ow, s.o, s.g])?;
        let epilogue = Epilogue::new(&json.epilogue, s.dtype, s.o * s.g, &mut checker)?;
        checker.finish(false)?;
        Ok(ConvGroups { axes: axes(s)?, s: s.clone(), x: json.x, weight: json.weight.at, out: json.out, epilogue })
    }
}

impl Kernel for ConvGroups {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl ConvGroups {
    unsafe fn typed<T: Grouped>(&self, run: &Run) {
        let s = &self.s;
        let rows = s.n * s.od * s.oh;
        let width = s.ow * s.o * s.g;
        let work = (width * s.kd * s.kh * s.kw * s.c).max(1);
        let group = (TASK / work).clamp(1, rows.max(1));
        run.pool.run(rows.div_ceil(group), usize::MAX, |_, task| {
            for at in task * group..rows.min((task + 1) * group) {
                let (i, z, y) = (at / (s.od * s.oh), at / s.oh % s.od, at % s.oh);
                let out = run.ptr::<T>(self.out).add(at * width);
                for o in 0..s.o {
                    let row = Row {
                        z: self.axes[0].of(z),
                        y: self.axes[1].of(y),
                        axis: &self.axes[2],
                        c: s.c,
                        o: s.o,
                        g: s.g,
                        image: run.ptr::<T>(self.x).add(i * s.d * s.h * s.w * s.c * s.g).cast_const(),
                        weight: run.ptr::<T>(self.weight).add(o * s.g).cast_const(),
                        out: out.add(o * s.g),
                        ow: s.ow,
                    };
                    T::row(run.isa, &row);
                }
                let made = Matrix { ptr: out.cast_const(), rows: (s.o * s.g) as isize, columns: 1 };
                self.epilogue.apply(run, made, s.ow, 0, s.o * s.g);
            }
        });
    }
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

#[inline(always)]
unsafe fn sums_body<S: Simd<T>, T: Float>(x: &Sums<T>) {
    let mut lane = 0;
    while lane + 4 * S::LANES <= x.lanes {
        sums::<S, T, 4, true>(x, lane, S::LANES);
        lane += 4 * S::LANES;
    }
    while lane < x.lanes {
        let tail = S::LANES.min(x.lanes - lane);
        if tail == S::LANES {
            sums::<S, T, 1, true>(x, lane, tail);
        } else {
            sums::<S, T, 1, false>(x, lane, tail);
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
    s: ConvSizes,
    axes: [Axis; 3],
    chunks: usize,
    /// Bytes of one chunk's partial sums.
    area: usize,
    x: At,
    dy: At,
    out: At,
    scratch: At,
}

impl ConvGroupsFilter {
    pub fn new(json: &ConvFilterJson, mut checker: Checker) -> Result<ConvGroupsFilter> {
        let s = &json.sizes;
        check(s)?;
        checker.read_all("x", json.x, s.dtype, &[s.n, s.d, s.h, s.w, s.c, s.g])?;
        checker.read_all("dy", json.dy, s.dtype, &[s.n, s.od, s.oh, s.ow, s.o, s.g])?;
        checker.write_all("out", json.out, s.dtype, &[s.kd, s.kh, s.kw, s.c, s.o, s.g])?;
        let chunks = s.n.min(CHUNKS);
        let weights = s.kd * s.kh * s.kw * s.c * s.o * s.g;
        let area = (weights * s.dtype.size()).next_multiple_of(64);
        checker.scratch("scratch", json.scratch, chunks * area)?;
        checker.finish(false)?;
        Ok(ConvGroupsFilter {
            axes: axes(s)?,
            s: s.clone(),
            chunks,
            area,
            x: json.x,
            dy: json.dy,
            out: json.out,
            scratch: json.scratch,
        })
    }
}

impl Kernel for ConvGroupsFilter {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.s.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl ConvGroupsFilter {
    unsafe fn typed<T: Grouped>(&self, run: &Run) {
        let s = &self.s;
        let out: *mut T = run.ptr(self.out);
        let weights = s.kd * s.kh * s.kw * s.c * s.o * s.g;
        if s.n * s.od * s.oh * s.ow == 0 || weights == 0 {
            return std::slice::from_raw_parts_mut(out, weights).fill(T::ZERO);
        }
        let distance = self.area / std::mem::size_of::<T>();
        let sums = run.ptr::<T>(self.scratch) as usize;
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
    unsafe fn image<T: Grouped>(&self, run: &Run, i: usize, rows: Range<usize>, first: usize, sum: *mut T) {
        let s = &self.s;
        let (weight_row, taps) = (s.c * s.o * s.g, &self.axes[2].runs);
        let image = run.ptr::<T>(self.x).add(i * s.d * s.h * s.w * s.c * s.g).cast_const();
        for at in rows {
            let dy = run.ptr::<T>(self.dy).add((i * s.od * s.oh + at) * s.ow * s.o * s.g).cast_const();
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
                        T::multiply(run.isa, &call);
                    }
                }
            }
        }
    }
}
