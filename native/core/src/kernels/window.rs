//! Pooling windows, channels last, vectorised over channels.

use std::ops::Range;

use super::fold::{defined, for_fold, join, settle, Fold, Max, Min, CHAIN};
use crate::calls::{ReduceOp, WindowJson};
use crate::dtype::{for_float, for_number, DType, Element};
use crate::isa::{by_isa, Isa, Level};
use crate::step::{Kernel, Run};
use crate::verify::count;
use crate::{bail, Result};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Reduce,
    Scatter,
    Take,
}

pub struct Window {
    pub kind: Kind,
    pub call: WindowJson,
    /// Each input lies in exactly one window.
    tiled: bool,
}

impl Window {
    pub fn new(kind: Kind, j: WindowJson) -> Result<Window> {
        let sizes = [j.n, j.d, j.h, j.w, j.c, j.od, j.oh, j.ow];
        let steps = [j.window, j.strides, j.dilation].concat();
        if sizes.iter().chain(&steps).any(|s| *s > 1 << 24) || j.padding.iter().flatten().any(|p| p.abs() > 1 << 24) {
            bail!("sizes of a window must be below 2^24");
        }
        if steps.contains(&0) {
            bail!("window, strides and dilation must be positive");
        }
        count(&[j.n, j.od, j.oh, j.ow, j.c, j.window[0], j.window[1], j.window[2]])?;
        let extreme = matches!(j.op, ReduceOp::Max | ReduceOp::Min);
        if !extreme && (kind != Kind::Reduce || !defined(j.op, j.dtype)) {
            bail!("{:?} is not a reduction of this kernel", j.op);
        }
        if kind == Kind::Scatter && !j.dtype.is_float() && !j.dtype.is_half() {
            bail!("{} is not a float", j.dtype.name());
        }
        let tiled = |axis: usize, out: usize, size: usize| {
            j.window[axis] == j.strides[axis] && j.padding[axis][0] == 0 && out * j.strides[axis] >= size
        };
        let tiled = j.d == 1
            && (j.window[0], j.od, j.padding[0][0]) == (1, 1, 0)
            && j.dilation == [1, 1, 1]
            && tiled(1, j.oh, j.h)
            && tiled(2, j.ow, j.w);
        let compares = extreme && (kind == Kind::Reduce || (kind == Kind::Scatter && tiled));
        if j.dtype.is_half() && !(j.dtype == DType::Bf16 && compares) {
            bail!("windows of {} are not supported", j.dtype.name());
        }
        if j.gate && (kind != Kind::Scatter || !tiled) {
            bail!("a gate needs windows that cover the input without overlap");
        }
        Ok(Window { kind, tiled, call: j })
    }
}

impl Kernel for Window {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let WindowJson { op, dtype, n, c, .. } = self.call;
        let max = op == ReduceOp::Max;
        match self.kind {
            _ if n * c == 0 => (),
            Kind::Reduce => for_fold!((op, dtype), T, F => self.images::<T>(run, reduce_windows::<T, F>)),
            Kind::Take if max => for_number!(dtype, T => self.images::<T>(run, select::<T, Max, false>)),
            Kind::Take => for_number!(dtype, T => self.images::<T>(run, select::<T, Min, false>)),
            Kind::Scatter if self.tiled && max => for_float!(dtype, T => self.images::<T>(run, scatter::<T, Max>)),
            Kind::Scatter if self.tiled => for_float!(dtype, T => self.images::<T>(run, scatter::<T, Min>)),
            Kind::Scatter if max => for_float!(dtype, T => self.images::<T>(run, select::<T, Max, true>)),
            Kind::Scatter => for_float!(dtype, T => self.images::<T>(run, select::<T, Min, true>)),
        }
        Ok(())
    }
}

impl Window {
    /// Calls `body` for groups of images of enough work each.
    pub(super) fn images<T: Element>(&self, run: &Run, body: unsafe fn(Isa, &WindowJson, &Pointers<T>, Range<usize>)) {
        let w = &self.call;
        let taps: usize = w.window.iter().product();
        let work = (w.d * w.h * w.w + w.od * w.oh * w.ow * taps) * w.c;
        let tasks = (w.n * work / (1 << 16)).clamp(1, w.n.max(1));
        run.pool.run(tasks, usize::MAX, |_, task| {
            let pointers = Pointers::<T> {
                input: run.ptr::<T>(w.input),
                source: w.source.map_or(std::ptr::null(), |at| run.ptr::<T>(at).cast_const()),
                out: run.ptr(w.out),
            };
            unsafe { body(run.isa, w, &pointers, w.n * task / tasks..w.n * (task + 1) / tasks) };
        });
    }
}

impl WindowJson {
    /// Taps of a window that lie inside: first and past-last along one dim, and the input coordinate of the first tap.
    #[inline(always)]
    fn taps(&self, axis: usize, out: usize, size: usize) -> (usize, usize, i64) {
        let start = (out * self.strides[axis]) as i64 - self.padding[axis][0];
        let (count, step) = (self.window[axis] as i64, self.dilation[axis] as i64);
        // How many taps lie before a distance from the first.
        let before = |distance: i64| match step {
            1 => distance.clamp(0, count),
            _ => (distance.clamp(0, count * step) as u64).div_ceil(step as u64) as i64,
        };
        let first = before(-start);
        let last = before(size as i64 - start).clamp(first, count);
        (first as usize, last as usize, start)
    }

    /// Calls `f` with the image, the place of the result and the taps inside along each axis, for the windows of some images.
    #[inline(always)]
    fn each_window(&self, images: Range<usize>, mut f: impl FnMut(usize, usize, &Taps)) {
        let mut place = images.start * self.od * self.oh * self.ow * self.c;
        for (image, z) in images.flat_map(|i| (0..self.od).map(move |z| (i, z))) {
            let along_z = self.taps(0, z, self.d);
            for y in 0..self.oh {
                let along_y = self.taps(1, y, self.h);
                for x in 0..self.ow {
                    f(image, place, &[along_z, along_y, self.taps(2, x, self.w)]);
                    place += self.c;
                }
            }
        }
    }

    /// Calls `f` with the offset of each tap of a window, in row-major order.
    #[inline(always)]
    fn each_tap(&self, image: usize, taps: &Taps, mut f: impl FnMut(usize)) {
        let [(z0, z1, sz), (y0, y1, sy), (x0, x1, sx)] = *taps;
        let at = |axis: usize, start: i64, tap: usize| (start + (tap * self.dilation[axis]) as i64) as usize;
        for z in z0..z1 {
            let plane = (image * self.d + at(0, sz, z)) * self.h;
            for y in y0..y1 {
                let row = (plane + at(1, sy, y)) * self.w;
                for x in x0..x1 {
                    f((row + at(2, sx, x)) * self.c);
                }
            }
        }
    }
}

/// For each axis the first and past-last tap inside, and the input coordinate of tap 0.
type Taps = [(usize, usize, i64); 3];

pub(super) struct Pointers<T> {
    input: *const T,
    source: *const T,
    out: *mut T,
}

by_isa! {
    pub(super) fn reduce_windows<T: Element, F: Fold>(w: &WindowJson, p: &Pointers<T>, images: Range<usize>) =>
        reduce_body, wide if T::WIDE, vector if T::FLOAT
}

/// Channels at a time; their running values stay in registers.
const GROUP: usize = 32;

/// Runs a block with `$n` standing for a count of channels, which is a constant where the group is full.
macro_rules! with_count {
    ($count:expr, $n:ident => $body:expr) => {
        if $count == GROUP {
            let $n = GROUP;
            $body
        } else {
            let $n = $count;
            $body
        }
    };
}

#[inline(always)]
unsafe fn reduce_body<L: Level, T: Element, F: Fold>(w: &WindowJson, p: &Pointers<T>, images: Range<usize>) {
    w.each_window(images, |image, place, taps| {
        let mut channel = 0;
        while channel < w.c {
            let n = GROUP.min(w.c - channel);
            let mut best = [F::identity::<T>(); GROUP];
            let (mut totals, mut lost) = (best, [T::ZERO; GROUP]);
            let mut tap = 0;
            w.each_tap(image, taps, |offset| {
                if tap > 0 && tap % CHAIN == 0 {
                    join::<T, F>(&mut totals, &mut lost, &best);
                    best.fill(F::identity());
                }
                tap += 1;
                let from = p.input.add(offset + channel);
                with_count!(n, count => for (l, b) in best.iter_mut().enumerate().take(count) {
                    *b = F::fold(*b, *from.add(l));
                });
            });
            if tap > CHAIN {
                join::<T, F>(&mut totals, &mut lost, &best);
                settle::<T, F>(&mut totals, &lost);
                best = totals;
            }
            std::ptr::copy_nonoverlapping(best.as_ptr(), p.out.add(place + channel), n);
            channel += n;
        }
    });
}

/// Folds that pick a value of a window.
pub(super) trait Extreme: Fold {
    fn beats<T: Element>(value: T, best: T) -> bool;
}

macro_rules! extreme {
    ($fold:ident, |$value:ident, $best:ident| $beats:expr) => {
        impl Extreme for $fold {
            #[inline(always)]
            fn beats<T: Element>($value: T, $best: T) -> bool {
                $beats
            }
        }
    };
}
extreme!(Max, |value, best| value > best);
extreme!(Min, |value, best| value < best);

/// Adds each value of the source where its window has the extreme, or takes the value of the source that lies there.
unsafe fn select<T: Element, F: Extreme, const SCATTER: bool>(
    _: Isa,
    w: &WindowJson,
    p: &Pointers<T>,
    images: Range<usize>,
) {
    if SCATTER {
        let image = w.d * w.h * w.w * w.c;
        std::slice::from_raw_parts_mut(p.out.add(images.start * image), images.len() * image).fill(T::ZERO);
    }
    w.each_window(images, |image, small, taps| {
        let mut channel = 0;
        while channel < w.c {
            let n = GROUP.min(w.c - channel);
            let mut best = [F::identity::<T>(); GROUP];
            let mut which = [i32::MAX; GROUP];
            let mut tap = 0;
            w.each_tap(image, taps, |offset| {
                let from = p.input.add(offset + channel);
                with_count!(n, count => improve::<T, F>(&mut best, &mut which, from, tap, count));
                tap += 1;
            });
            tap = 0;
            w.each_tap(image, taps, |offset| {
                let large = offset + channel;
                let (from, to) = if SCATTER {
                    (p.source.add(small + channel), p.out.add(large))
                } else {
                    (p.source.add(large), p.out.add(small + channel))
                };
                with_count!(n, count => route::<T, SCATTER>(&which, from, to, tap, count));
                tap += 1;
            });
            if tap == 0 && !SCATTER {
                std::slice::from_raw_parts_mut(p.out.add(small + channel), n).fill(T::ZERO);
            }
            channel += n;
        }
    });
}

by_isa! {
    pub(super) fn scatter<T: Element, F: Extreme>(w: &WindowJson, p: &Pointers<T>, images: Range<usize>) => scatter_body, wide if T::WIDE
}

/// Every output is written once, where windows neither overlap nor leave anything out.
#[inline(always)]
unsafe fn scatter_body<L: Level, T: Element, F: Extreme>(w: &WindowJson, p: &Pointers<T>, images: Range<usize>) {
    for (i, oy) in images.flat_map(|i| (0..w.oh).map(move |y| (i, y))) {
        let y = oy * w.strides[1];
        let rows = w.window[1].min(w.h.saturating_sub(y));
        for ox in 0..w.ow {
            let x = ox * w.strides[2];
            let columns = w.window[2].min(w.w.saturating_sub(x));
            let corner = (i * w.h + y) * w.w + x;
            let small = ((i * w.oh + oy) * w.ow + ox) * w.c;
            let mut channel = 0;
            while channel < w.c {
                let n = GROUP.min(w.c - channel);
                let at = corner * w.c + channel;
                with_count!(n, count => scatter_group::<T, F>(w, p, (rows, columns), at, small + channel, count));
                channel += n;
            }
        }
    }
}

#[inline(always)]
unsafe fn scatter_group<T: Element, F: Extreme>(
    w: &WindowJson,
    p: &Pointers<T>,
    (rows, columns): (usize, usize),
    at: usize,
    source: usize,
    n: usize,
) {
    let mut best = [F::identity::<T>(); GROUP];
    let mut which = [i32::MAX; GROUP];
    for y in 0..rows {
        for x in 0..columns {
            let from = p.input.add(at + (y * w.w + x) * w.c);
            improve::<T, F>(&mut best, &mut which, from, (y * columns + x) as i32, n);
        }
    }
    let mut values = [T::ZERO; GROUP];
    for (l, v) in values.iter_mut().enumerate().take(n) {
        // As if added to zeros, which turns -0 into 0.
        *v = T::ZERO.add(*p.source.add(source + l));
    }
    for y in 0..rows {
        for x in 0..columns {
            let tap = (y * columns + x) as i32;
            let place = at + (y * w.w + x) * w.c;
            let mut gradients = [T::ZERO; GROUP];
            for l in 0..n {
                let hit = which[l] == tap && !(w.gate && *p.input.add(place + l) <= T::ZERO);
                gradients[l] = if hit { values[l] } else { T::ZERO };
            }
            std::ptr::copy_nonoverlapping(gradients.as_ptr(), p.out.add(place), n);
        }
    }
}

#[inline(always)]
unsafe fn improve<T: Element, F: Extreme>(
    best: &mut [T; GROUP],
    which: &mut [i32; GROUP],
    from: *const T,
    tap: i32,
    n: usize,
) {
    for l in 0..n {
        let value = *from.add(l);
        let takes = F::beats(value, best[l]) | (value.nan() & !best[l].nan()) | (tap == 0);
        best[l] = if takes { value } else { best[l] };
        which[l] = if takes { tap } else { which[l] };
    }
}

#[inline(always)]
unsafe fn route<T: Element, const SCATTER: bool>(which: &[i32; GROUP], from: *const T, to: *mut T, tap: i32, n: usize) {
    // Values go through arrays so that the loop vectorises although source and target might alias.
    let mut values = [T::ZERO; GROUP];
    for (l, v) in values.iter_mut().enumerate().take(n) {
        *v = *from.add(l);
    }
    let mut old = [T::ZERO; GROUP];
    for (l, v) in old.iter_mut().enumerate().take(n) {
        *v = *to.add(l);
    }
    for l in 0..n {
        let value = if SCATTER { old[l].add(values[l]) } else { values[l] };
        // Adding zero would turn -0 into 0 and spread NaN: the old value is kept instead.
        old[l] = if which[l] == tap { value } else { old[l] };
    }
    for (l, v) in old.iter().enumerate().take(n) {
        *to.add(l) = *v;
    }
}
