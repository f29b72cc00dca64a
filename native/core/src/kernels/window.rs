//! Pooling windows, channels last, vectorised over channels.

use super::fold::{defined, for_fold, join, settle, Fold, CHAIN};
use crate::dtype::{for_float, for_number, DType, Element};
use crate::exec::{kernels, Kernel, Run};
use crate::isa::{by_isa, Level};
use crate::program::{ReduceOp, WindowJson};
use crate::verify::{count, At, Checker};
use crate::{bail, Result};

kernels! {
    "reduceWindow" |call: &WindowJson, checker| Window::new(Kind::Reduce, call, checker);
    "selectAndScatter" |call: &WindowJson, checker| Window::new(Kind::Scatter, call, checker);
    "windowTake" |call: &WindowJson, checker| Window::new(Kind::Take, call, checker);
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Reduce,
    Scatter,
    Take,
}

pub struct Window {
    kind: Kind,
    op: ReduceOp,
    dtype: DType,
    n: usize,
    d: usize,
    h: usize,
    w: usize,
    c: usize,
    od: usize,
    oh: usize,
    ow: usize,
    window: [usize; 3],
    strides: [usize; 3],
    dilation: [usize; 3],
    padding: [[i64; 2]; 3],
    input: At,
    source: Option<At>,
    out: At,
    gate: bool,
    /// Each input lies in exactly one window.
    tiled: bool,
}

impl Window {
    pub fn new(kind: Kind, json: &WindowJson, mut checker: Checker) -> Result<Window> {
        let j = json;
        let sizes = [j.n, j.d, j.h, j.w, j.c, j.od, j.oh, j.ow];
        let steps = [j.window, j.strides, j.dilation].concat();
        if sizes.iter().chain(&steps).any(|s| *s > 1 << 24) || j.padding.iter().flatten().any(|p| p.abs() > 1 << 24) {
            bail!("sizes of a window must be below 2^24");
        }
        if j.dtype.is_half() {
            bail!("windows of {} are not supported", j.dtype.name());
        }
        if steps.contains(&0) {
            bail!("window, strides and dilation must be positive");
        }
        count(&[j.n, j.od, j.oh, j.ow, j.c, j.window[0], j.window[1], j.window[2]])?;
        let extreme = matches!(j.op, ReduceOp::Max | ReduceOp::Min);
        if !extreme && (kind != Kind::Reduce || !defined(j.op, j.dtype)) {
            bail!("{:?} is not a reduction of this kernel", j.op);
        }
        if kind == Kind::Scatter && !j.dtype.is_float() {
            bail!("{} is not a float", j.dtype.name());
        }
        let (large, small) = ([j.n, j.d, j.h, j.w, j.c], [j.n, j.od, j.oh, j.ow, j.c]);
        checker.read_all("in", j.input, j.dtype, &large)?;
        if kind != Kind::Reduce {
            let Some(source) = j.source else { bail!("source is missing") };
            checker.read_all("source", source, j.dtype, if kind == Kind::Take { &large } else { &small })?;
        }
        checker.write_all("out", j.out, j.dtype, if kind == Kind::Scatter { &large } else { &small })?;
        let tiled = |axis: usize, out: usize, size: usize| {
            j.window[axis] == j.strides[axis] && j.padding[axis][0] == 0 && out * j.strides[axis] >= size
        };
        let tiled = j.d == 1
            && (j.window[0], j.od, j.padding[0][0]) == (1, 1, 0)
            && j.dilation == [1, 1, 1]
            && tiled(1, j.oh, j.h)
            && tiled(2, j.ow, j.w);
        if j.gate && (kind != Kind::Scatter || !tiled) {
            bail!("a gate needs windows that cover the input without overlap");
        }
        checker.finish(j.gate)?;
        Ok(Window {
            kind,
            op: j.op,
            dtype: j.dtype,
            n: j.n,
            d: j.d,
            h: j.h,
            w: j.w,
            c: j.c,
            od: j.od,
            oh: j.oh,
            ow: j.ow,
            window: j.window,
            strides: j.strides,
            dilation: j.dilation,
            padding: j.padding,
            input: j.input,
            source: j.source,
            out: j.out,
            gate: j.gate,
            tiled,
        })
    }
}

impl Kernel for Window {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.n * self.c == 0 {
            return Ok(());
        }
        match self.kind {
            Kind::Reduce => for_fold!((self.op, self.dtype), T, F => unsafe { self.reduce::<T, F>(run) }),
            Kind::Take => for_number!(self.dtype, T => unsafe { self.select::<T, Taking>(run) }),
            Kind::Scatter => for_float!(self.dtype, T => unsafe { self.select::<T, Scattering>(run) }),
        }
        Ok(())
    }
}

impl Window {
    unsafe fn reduce<T: Element, F: Fold>(&self, run: &Run) {
        let tasks = self.tasks();
        run.pool.run(tasks, usize::MAX, |_, task| {
            let input: *const T = run.ptr::<T>(self.input);
            let out: *mut T = run.ptr(self.out);
            let (first, last) = (self.n * task / tasks, self.n * (task + 1) / tasks);
            reduce_windows::<T, F>(run.isa, self, input, out, first, last);
        });
    }

    unsafe fn select<T: Element, M: Mode>(&self, run: &Run) {
        let tasks = self.tasks();
        run.pool.run(tasks, usize::MAX, |_, task| {
            let pointers = Pointers::<T> {
                input: run.ptr::<T>(self.input),
                source: self.source.map_or(std::ptr::null(), |at| run.ptr::<T>(at).cast_const()),
                out: run.ptr(self.out),
            };
            let (first, last) = (self.n * task / tasks, self.n * (task + 1) / tasks);
            if M::SCATTER && self.tiled && self.op == ReduceOp::Max {
                scatter_max::<T>(run.isa, self, &pointers, first, last);
            } else if M::SCATTER && self.tiled {
                scatter_min::<T>(run.isa, self, &pointers, first, last);
            } else if self.op == ReduceOp::Max {
                select_max::<T, M>(run.isa, self, &pointers, first, last);
            } else {
                select_min::<T, M>(run.isa, self, &pointers, first, last);
            }
        });
    }

    /// Groups of images of enough work each.
    fn tasks(&self) -> usize {
        let taps: usize = self.window.iter().product();
        let work = (self.d * self.h * self.w + self.od * self.oh * self.ow * taps) * self.c;
        (self.n * work / (1 << 16)).clamp(1, self.n.max(1))
    }

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
    fn each_window(&self, first: usize, last: usize, mut f: impl FnMut(usize, usize, &Taps)) {
        let mut place = first * self.od * self.oh * self.ow * self.c;
        for (image, z) in (first..last).flat_map(|i| (0..self.od).map(move |z| (i, z))) {
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

/// Of each axis the first and past-last tap inside, and the input coordinate of tap 0.
type Taps = [(usize, usize, i64); 3];

struct Pointers<T> {
    input: *const T,
    source: *const T,
    out: *mut T,
}

by_isa! {
    fn reduce_windows<T: Element, F: Fold>(w: &Window, input: *const T, out: *mut T, first: usize, last: usize) =>
        reduce_body, wide if T::WIDE
}

/// Channels at a time; their running values stay in registers.
const GROUP: usize = 32;

#[inline(always)]
unsafe fn reduce_body<L: Level, T: Element, F: Fold>(
    w: &Window,
    input: *const T,
    out: *mut T,
    first: usize,
    last: usize,
) {
    w.each_window(first, last, |image, place, taps| {
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
                let from = input.add(offset + channel);
                if n == GROUP {
                    for (l, b) in best.iter_mut().enumerate() {
                        *b = F::fold(*b, *from.add(l));
                    }
                } else {
                    for (l, b) in best.iter_mut().enumerate().take(n) {
                        *b = F::fold(*b, *from.add(l));
                    }
                }
            });
            if tap > CHAIN {
                join::<T, F>(&mut totals, &mut lost, &best);
                settle::<T, F>(&mut totals, &lost);
                best = totals;
            }
            std::ptr::copy_nonoverlapping(best.as_ptr(), out.add(place + channel), n);
            channel += n;
        }
    });
}

/// What is done with the position of a window's extreme.
pub trait Mode: 'static {
    const SCATTER: bool;
}
struct Scattering;
struct Taking;
impl Mode for Scattering {
    const SCATTER: bool = true;
}
impl Mode for Taking {
    const SCATTER: bool = false;
}

by_isa! { fn select_max<T: Element, M: Mode>(w: &Window, p: &Pointers<T>, first: usize, last: usize) => select_max_body, wide if T::WIDE }
by_isa! { fn select_min<T: Element, M: Mode>(w: &Window, p: &Pointers<T>, first: usize, last: usize) => select_min_body, wide if T::WIDE }

#[inline(always)]
unsafe fn select_max_body<L: Level, T: Element, M: Mode>(w: &Window, p: &Pointers<T>, first: usize, last: usize) {
    select_body::<T, M, true>(w, p, first, last)
}
#[inline(always)]
unsafe fn select_min_body<L: Level, T: Element, M: Mode>(w: &Window, p: &Pointers<T>, first: usize, last: usize) {
    select_body::<T, M, false>(w, p, first, last)
}

#[inline(always)]
unsafe fn select_body<T: Element, M: Mode, const MAX: bool>(w: &Window, p: &Pointers<T>, first: usize, last: usize) {
    if M::SCATTER {
        let image = w.d * w.h * w.w * w.c;
        std::slice::from_raw_parts_mut(p.out.add(first * image), (last - first) * image).fill(T::ZERO);
    }
    w.each_window(first, last, |image, small, taps| {
        let mut channel = 0;
        while channel < w.c {
            let n = GROUP.min(w.c - channel);
            let mut best = [if MAX { T::LOWEST } else { T::HIGHEST }; GROUP];
            let mut which = [i32::MAX; GROUP];
            let mut tap = 0;
            w.each_tap(image, taps, |offset| {
                let from = p.input.add(offset + channel);
                if n == GROUP {
                    improve::<T, MAX>(&mut best, &mut which, from, tap, GROUP);
                } else {
                    improve::<T, MAX>(&mut best, &mut which, from, tap, n);
                }
                tap += 1;
            });
            tap = 0;
            w.each_tap(image, taps, |offset| {
                let large = offset + channel;
                let (from, to) = if M::SCATTER {
                    (p.source.add(small + channel), p.out.add(large))
                } else {
                    (p.source.add(large), p.out.add(small + channel))
                };
                if n == GROUP {
                    route::<T, M>(&which, from, to, tap, GROUP);
                } else {
                    route::<T, M>(&which, from, to, tap, n);
                }
                tap += 1;
            });
            if tap == 0 && !M::SCATTER {
                std::slice::from_raw_parts_mut(p.out.add(small + channel), n).fill(T::ZERO);
            }
            channel += n;
        }
    });
}

by_isa! { fn scatter_max<T: Element>(w: &Window, p: &Pointers<T>, first: usize, last: usize) => scatter_max_body, wide if T::WIDE }
by_isa! { fn scatter_min<T: Element>(w: &Window, p: &Pointers<T>, first: usize, last: usize) => scatter_min_body, wide if T::WIDE }

#[inline(always)]
unsafe fn scatter_max_body<L: Level, T: Element>(w: &Window, p: &Pointers<T>, first: usize, last: usize) {
    scatter_body::<T, true>(w, p, first, last)
}
#[inline(always)]
unsafe fn scatter_min_body<L: Level, T: Element>(w: &Window, p: &Pointers<T>, first: usize, last: usize) {
    scatter_body::<T, false>(w, p, first, last)
}

/// Every output is written once, where windows neither overlap nor leave anything out.
#[inline(always)]
unsafe fn scatter_body<T: Element, const MAX: bool>(w: &Window, p: &Pointers<T>, first: usize, last: usize) {
    for (i, oy) in (first..last).flat_map(|i| (0..w.oh).map(move |y| (i, y))) {
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
                if n == GROUP {
                    scatter_group::<T, MAX>(w, p, (rows, columns), at, small + channel, GROUP);
                } else {
                    scatter_group::<T, MAX>(w, p, (rows, columns), at, small + channel, n);
                }
                channel += n;
            }
        }
    }
}

#[inline(always)]
unsafe fn scatter_group<T: Element, const MAX: bool>(
    w: &Window,
    p: &Pointers<T>,
    (rows, columns): (usize, usize),
    at: usize,
    source: usize,
    n: usize,
) {
    let mut best = [if MAX { T::LOWEST } else { T::HIGHEST }; GROUP];
    let mut which = [i32::MAX; GROUP];
    for y in 0..rows {
        for x in 0..columns {
            let from = p.input.add(at + (y * w.w + x) * w.c);
            improve::<T, MAX>(&mut best, &mut which, from, (y * columns + x) as i32, n);
        }
    }
    let mut values = [T::ZERO; GROUP];
    for (l, v) in values.iter_mut().enumerate().take(n) {
        // What adding to zeros gives: 0 for -0.
        *v = T::ZERO.add(*p.source.add(source + l));
    }
    for y in 0..rows {
        for x in 0..columns {
            let tap = (y * columns + x) as i32;
            let place = at + (y * w.w + x) * w.c;
            let mut made = [T::ZERO; GROUP];
            for l in 0..n {
                let hit = which[l] == tap && !(w.gate && *p.input.add(place + l) <= T::ZERO);
                made[l] = if hit { values[l] } else { T::ZERO };
            }
            std::ptr::copy_nonoverlapping(made.as_ptr(), p.out.add(place), n);
        }
    }
}

#[inline(always)]
unsafe fn improve<T: Element, const MAX: bool>(
    best: &mut [T; GROUP],
    which: &mut [i32; GROUP],
    from: *const T,
    tap: i32,
    n: usize,
) {
    for l in 0..n {
        let value = *from.add(l);
        let beats = if MAX { value > best[l] } else { value < best[l] };
        let takes = beats | (value.nan() & !best[l].nan()) | (tap == 0);
        best[l] = if takes { value } else { best[l] };
        which[l] = if takes { tap } else { which[l] };
    }
}

#[inline(always)]
unsafe fn route<T: Element, M: Mode>(which: &[i32; GROUP], from: *const T, to: *mut T, tap: i32, n: usize) {
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
        let hit = which[l] == tap;
        old[l] = if M::SCATTER {
            // Adding zero would turn -0 into 0 and spread NaN: keep the old value instead.
            if hit {
                old[l].add(values[l])
            } else {
                old[l]
            }
        } else if hit {
            values[l]
        } else {
            old[l]
        };
    }
    for (l, v) in old.iter().enumerate().take(n) {
        *to.add(l) = *v;
    }
}
