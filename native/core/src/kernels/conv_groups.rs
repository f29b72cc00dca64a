//! Convolutions of many groups of few channels (depthwise ones have one each): the groups are the lanes of vectors.
//!
//! Images are read where they lie. Which taps meet the image, and where, is known per axis when a program is loaded, so
//! padding and gaps between elements cost nothing. Every result is made of chains of multiply-adds in order of taps and channels.

use super::conv::check_sizes;
use super::product::{Matrix, DEPTH};
use crate::calls::{ConvJson, ConvSizes};
use crate::dtype::for_float;
use crate::isa::{by_isa, Level};
use crate::reader::kernels;
use crate::scalar::Float;
use crate::simd::{Lanes, Simd, Vectors};
use crate::step::{Kernel, Run};
use crate::verify::contiguous;
use crate::{bail, Result};

kernels! {
    convGroups = ConvGroups::new;
}

/// Outputs that are made together, so that a weight is loaded once for all of them.
const TOGETHER: usize = 4;
/// Multiply-adds of one task.
const TASK: usize = 1 << 17;
/// Most pairs of outputs and taps along an axis.
const MOST: usize = 1 << 22;

/// The taps that an output position meets along one axis, as offsets into the weights and into an image.
pub(super) struct Axis {
    /// Where the pairs of each position begin, and the end.
    starts: Vec<usize>,
    pairs: Vec<(usize, usize)>,
    /// Positions this far apart meet the same taps, `step` elements of the image further on.
    pub period: usize,
    pub step: usize,
    /// Of each position, whether the next `TOGETHER - 1` of its period meet the same taps.
    alike: Vec<bool>,
    /// For each tap: offset into the outputs and into an image of the first pair, how many there are.
    pub runs: Vec<(usize, usize, usize)>,
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

    pub fn of(&self, out: usize) -> &[(usize, usize)] {
        &self.pairs[self.starts[out]..self.starts[out + 1]]
    }
}

/// Axes over an image `[d, h, w, c, g]`, weights `[kd, kh, kw, c, o, g]` and results `[od, oh, ow, o, g]`.
pub(super) fn axes(s: &ConvSizes) -> Result<[Axis; 3]> {
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

pub(super) fn check(s: &ConvSizes) -> Result<()> {
    check_sizes(s)?;
    let limits: [&[usize]; 3] =
        [&[s.d, s.h, s.w, s.c, s.g, 8], &[s.kd, s.kh, s.kw, s.c, s.o, s.g, 8], &[s.od, s.oh, s.ow, s.o, s.g, 8]];
    for sizes in limits {
        if sizes.iter().fold(1usize, |product, size| product.saturating_mul(*size)) > 1 << 46 {
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

by_isa! { fn make_row<T: Vectors>(row: &Row<T>) => row_body }

#[inline(always)]
unsafe fn row_body<L: Level, T: Lanes<L>>(row: &Row<T>) {
    for first in 0..row.axis.period.min(row.ow) {
        let mut out = first;
        while out < row.ow {
            if row.axis.alike[out] {
                lanes::<T::S, T, TOGETHER>(row, out);
                out += TOGETHER * row.axis.period;
            } else {
                lanes::<T::S, T, 1>(row, out);
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
    axes: [Axis; 3],
    call: ConvJson,
}

impl ConvGroups {
    pub fn new(call: ConvJson) -> Result<ConvGroups> {
        let s = &call.sizes;
        check(s)?;
        let kernel = [s.kd, s.kh, s.kw, s.c, s.o, s.g];
        if call.weight.strides != contiguous(&kernel) {
            bail!("weight: the strides of {kernel:?} must be those of a contiguous tensor");
        }
        Ok(ConvGroups { axes: axes(s)?, call })
    }
}

impl Kernel for ConvGroups {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.call.sizes.dtype, T => unsafe { self.typed::<T>(run) });
        Ok(())
    }
}

impl ConvGroups {
    unsafe fn typed<T: Vectors>(&self, run: &Run) {
        let (s, call) = (&self.call.sizes, &self.call);
        let rows = s.n * s.od * s.oh;
        let width = s.ow * s.o * s.g;
        let work = (width * s.kd * s.kh * s.kw * s.c).max(1);
        let group = (TASK / work).clamp(1, rows.max(1));
        run.pool.run(rows.div_ceil(group), usize::MAX, |_, task| {
            for at in task * group..rows.min((task + 1) * group) {
                let (i, z, y) = (at / (s.od * s.oh), at / s.oh % s.od, at % s.oh);
                let out = run.ptr::<T>(call.out).add(at * width);
                for o in 0..s.o {
                    let row = Row {
                        z: self.axes[0].of(z),
                        y: self.axes[1].of(y),
                        axis: &self.axes[2],
                        c: s.c,
                        o: s.o,
                        g: s.g,
                        image: run.ptr::<T>(call.x).add(i * s.d * s.h * s.w * s.c * s.g).cast_const(),
                        weight: run.ptr::<T>(call.weight.at).add(o * s.g).cast_const(),
                        out: out.add(o * s.g),
                        ow: s.ow,
                    };
                    make_row::<T>(run.isa, &row);
                }
                let result = Matrix { ptr: out.cast_const(), rows: (s.o * s.g) as isize, columns: 1 };
                call.epilogue.apply(run, result, s.ow, 0, s.o * s.g);
            }
        });
    }
}
