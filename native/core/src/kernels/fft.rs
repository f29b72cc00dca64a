//! Fourier transforms over the last dims by `rustfft`: lines along a dim are gathered, transformed and put back.

use std::sync::{Arc, OnceLock};

use crate::calls::{FftJson, FftKind};
use crate::dtype::DType;
use crate::isa::Isa;
use crate::kernels::room::Room;
use crate::reader::kernels;
use crate::step::{Kernel, Run};
use crate::verify::count;
use crate::{bail, Result};
use heddle_numerics::{Complex, Fft as Plan, FftDirection, FftNum, Fourier};

kernels! {
    fft = Fft::new;
}

/// Complex numbers of one task.
const TASK: usize = 1 << 12;
/// Longer lines get their scratch when they run: a program that only says that it has some costs nothing.
const LONGEST: usize = 1 << 22;

/// The plans of the dims, each made once.
struct Plans<T: Fourier> {
    length: Vec<usize>,
    direction: FftDirection,
    vector: OnceLock<Vec<Arc<dyn Plan<T>>>>,
    scalar: OnceLock<Vec<Arc<dyn Plan<T>>>>,
}

impl<T: Fourier> Plans<T> {
    fn new(length: &[usize], direction: FftDirection) -> Plans<T> {
        Plans { length: length.to_vec(), direction, vector: OnceLock::new(), scalar: OnceLock::new() }
    }

    fn of(&self, isa: Isa) -> &[Arc<dyn Plan<T>>] {
        let scalar = isa == Isa::Scalar;
        let plans = if scalar { &self.scalar } else { &self.vector };
        plans.get_or_init(|| self.length.iter().map(|n| T::plan(*n, self.direction, scalar)).collect())
    }
}

enum Width {
    Single(Plans<f32>),
    Double(Plans<f64>),
}

pub struct Fft {
    call: FftJson,
    plans: Width,
    /// Bytes of complex values between a real side and the transform.
    between: usize,
    room: Room,
}

impl Fft {
    pub fn new(call: FftJson) -> Result<Fft> {
        let FftJson { kind, dtype, batch, ref length, .. } = call;
        if !dtype.is_float() || length.is_empty() || length.contains(&0) {
            bail!("{} values over {length:?} have no transform", dtype.name());
        }
        let total = count(&[&[batch], length.as_slice(), &[2]].concat())? / 2;
        let complex_only = matches!(kind, FftKind::Forward | FftKind::Inverse);
        let between = if complex_only { 0 } else { 2 * total * dtype.size() }.next_multiple_of(64);
        let direction = match kind {
            FftKind::Forward | FftKind::FromReal => FftDirection::Forward,
            FftKind::Inverse | FftKind::ToReal => FftDirection::Inverse,
        };
        let tasks = length.iter().map(|n| (total / n).div_ceil(per_task(*n))).max().unwrap_or(0);
        let room = Room::new::<u8>(tasks, 2 * dtype.size() * length.iter().copied().map(scratch).max().unwrap_or(0))?;
        let plans = match dtype {
            DType::F64 => Width::Double(Plans::new(length, direction)),
            _ => Width::Single(Plans::new(length, direction)),
        };
        Ok(Fft { plans, between, room, call })
    }
}

impl Kernel for Fft {
    fn extra(&self) -> usize {
        self.between + self.room.bytes()
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        if self.call.batch == 0 {
            return Ok(());
        }
        unsafe {
            match &self.plans {
                Width::Double(plans) => self.typed(run, plans),
                Width::Single(plans) => self.typed(run, plans),
            }
        }
        Ok(())
    }
}

impl Fft {
    unsafe fn typed<T: Fourier>(&self, run: &Run, plans: &Plans<T>) {
        let whole: usize = self.call.length.iter().product();
        let last = self.call.length[self.call.length.len() - 1];
        let half = last / 2 + 1;
        let lines = self.call.batch * whole / last;
        let zero = Complex::new(T::zero(), T::zero());
        let values: *mut Complex<T> = if self.between == 0 { run.ptr(self.call.out) } else { run.extra.cast() };
        let total = self.call.batch * whole;
        match self.call.kind {
            FftKind::Forward | FftKind::Inverse => {
                std::ptr::copy_nonoverlapping(run.ptr::<Complex<T>>(self.call.input), values, total);
            }
            FftKind::FromReal => {
                let from = run.ptr::<T>(self.call.input);
                (0..total).for_each(|i| *values.add(i) = Complex::new(*from.add(i), T::zero()));
            }
            FftKind::ToReal => {
                let from = run.ptr::<Complex<T>>(self.call.input);
                for line in 0..lines {
                    let to = std::slice::from_raw_parts_mut(values.add(line * last), last);
                    to.fill(zero);
                    std::ptr::copy_nonoverlapping(from.add(line * half), to.as_mut_ptr(), half);
                }
            }
        }
        let dims = self.call.length.len();
        for dim in 0..dims {
            // The half that is missing follows from the other once the other dims are transformed.
            if dim + 1 == dims && self.call.kind == FftKind::ToReal {
                (0..lines).for_each(|line| mirror(std::slice::from_raw_parts_mut(values.add(line * last), last)));
            }
            let inner: usize = self.call.length[dim + 1..].iter().product();
            self.transform(run, &*plans.of(run.isa)[dim], values, inner);
        }
        self.finish(run, values, lines, last);
    }

    /// Transforms all lines of a dim, whose elements are `inner` apart.
    unsafe fn transform<T: Fourier>(&self, run: &Run, plan: &dyn Plan<T>, values: *mut Complex<T>, inner: usize) {
        let n = plan.len();
        let lines = self.call.batch * self.call.length.iter().product::<usize>() / n;
        let per_task = per_task(n);
        let base = values as usize;
        run.pool.run(lines.div_ceil(per_task), self.room.workers, |worker, task| {
            let values = base as *mut Complex<T>;
            let (mut own, need) = (Vec::new(), n + plan.get_inplace_scratch_len());
            let mut memory = &mut *self.room.of::<Complex<T>>(run, self.between, worker);
            if memory.len() < need {
                own.resize(need, Complex::new(T::zero(), T::zero()));
                memory = &mut own;
            }
            let (gathered, scratch) = memory.split_at_mut(n);
            for line in task * per_task..lines.min((task + 1) * per_task) {
                if inner == 1 {
                    let line = std::slice::from_raw_parts_mut(values.add(line * n), n);
                    plan.process_with_scratch(line, scratch);
                    continue;
                }
                let first = values.add(line / inner * n * inner + line % inner);
                (0..n).for_each(|i| gathered[i] = *first.add(i * inner));
                plan.process_with_scratch(gathered, scratch);
                (0..n).for_each(|i| *first.add(i * inner) = gathered[i]);
            }
        });
    }

    unsafe fn finish<T: FftNum>(&self, run: &Run, values: *mut Complex<T>, lines: usize, last: usize) {
        let half = last / 2 + 1;
        let whole: usize = self.call.length.iter().product();
        let scale = T::one() / T::from_usize(whole).unwrap_or(T::one());
        match self.call.kind {
            FftKind::Forward => {}
            FftKind::Inverse => {
                for value in std::slice::from_raw_parts_mut(values, lines * last) {
                    *value = Complex::new(value.re * scale, value.im * scale);
                }
            }
            FftKind::FromReal => {
                let out = run.ptr::<Complex<T>>(self.call.out);
                for line in 0..lines {
                    std::ptr::copy_nonoverlapping(values.add(line * last), out.add(line * half), half);
                }
            }
            FftKind::ToReal => {
                let out = run.ptr::<T>(self.call.out);
                (0..lines * last).for_each(|i| *out.add(i) = (*values.add(i)).re * scale);
            }
        }
    }
}

/// Complex numbers that a worker needs for a line and its transform, as src/lower/partials.ts has it: the plans of
/// lengths with small factors need less than two lines, plans of other lengths less than eight. A line that needs more, or is
/// longer than the longest, gets memory of its own.
fn scratch(n: usize) -> usize {
    if n > LONGEST {
        return 0;
    }
    let rest = [2, 3, 5, 7, 11].into_iter().fold(n, |mut rest, factor| {
        while rest.is_multiple_of(factor) {
            rest /= factor;
        }
        rest
    });
    n + if rest == 1 { 2 * n } else { 8 * n } + 64
}

/// Lines of one task.
fn per_task(n: usize) -> usize {
    (TASK / n).max(1)
}

/// Fills a line from its first half, whose ends count as real.
fn mirror<T: FftNum>(line: &mut [Complex<T>]) {
    let n = line.len();
    line[0].im = T::zero();
    if n.is_multiple_of(2) {
        line[n / 2].im = T::zero();
    }
    for i in n / 2 + 1..n {
        line[i] = line[n - i].conj();
    }
}
