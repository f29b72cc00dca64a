//! Fourier transforms over the last dims by `rustfft`: lines along a dim are gathered, transformed and put back.

use heddle_numerics::{Complex, FftDirection, FftNum, Fourier};
use serde::Deserialize;

use crate::dtype::DType;
use crate::exec::Run;
use crate::isa::Isa;
use crate::verify::{count, At, Checker};
use crate::{bail, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FftKind {
    Forward,
    Inverse,
    FromReal,
    ToReal,
}

#[derive(Deserialize)]
pub struct FftJson {
    pub kind: FftKind,
    pub dtype: DType,
    pub batch: usize,
    pub length: Vec<usize>,
    #[serde(rename = "in")]
    pub input: At,
    pub out: At,
}

/// Complex numbers of one task.
const TASK: usize = 1 << 12;

pub struct Fft {
    kind: FftKind,
    dtype: DType,
    batch: usize,
    length: Vec<usize>,
    input: At,
    out: At,
    /// Bytes of complex values between a real side and the transform.
    pub extra: usize,
}

impl Fft {
    pub fn new(json: FftJson, mut checker: Checker) -> Result<Fft> {
        if !json.dtype.is_float() || json.length.is_empty() || json.length.contains(&0) {
            bail!("{} values over {:?} have no transform", json.dtype.name(), json.length);
        }
        let last = json.length[json.length.len() - 1];
        let real = [&[json.batch], json.length.as_slice()].concat();
        let complex = [real.as_slice(), &[2]].concat();
        let mut half = complex.clone();
        half[json.length.len()] = last / 2 + 1;
        let (from, to) = match json.kind {
            FftKind::Forward | FftKind::Inverse => (&complex, &complex),
            FftKind::FromReal => (&real, &half),
            FftKind::ToReal => (&half, &real),
        };
        checker.read_all("in", json.input, json.dtype, from)?;
        checker.write_all("out", json.out, json.dtype, to)?;
        checker.finish(false)?;
        let complex_only = matches!(json.kind, FftKind::Forward | FftKind::Inverse);
        let extra = if complex_only { 0 } else { count(&complex)? * json.dtype.size() };
        let (kind, dtype, batch, length) = (json.kind, json.dtype, json.batch, json.length);
        Ok(Fft { kind, dtype, batch, length, input: json.input, out: json.out, extra })
    }

    pub fn run(&self, run: &Run) -> Result<()> {
        if self.batch == 0 {
            return Ok(());
        }
        unsafe {
            match self.dtype {
                DType::F64 => self.typed::<f64>(run),
                _ => self.typed::<f32>(run),
            }
        }
        Ok(())
    }

    unsafe fn typed<T: Fourier>(&self, run: &Run) {
        let whole: usize = self.length.iter().product();
        let last = self.length[self.length.len() - 1];
        let half = last / 2 + 1;
        let lines = self.batch * whole / last;
        let zero = Complex::new(T::zero(), T::zero());
        let direction = match self.kind {
            FftKind::Forward | FftKind::FromReal => FftDirection::Forward,
            FftKind::Inverse | FftKind::ToReal => FftDirection::Inverse,
        };
        let values: *mut Complex<T> = if self.extra == 0 { run.ptr(self.out) } else { run.extra.cast() };
        let total = self.batch * whole;
        match self.kind {
            FftKind::Forward | FftKind::Inverse => {
                std::ptr::copy_nonoverlapping(run.ptr::<Complex<T>>(self.input), values, total);
            }
            FftKind::FromReal => {
                let from = run.ptr::<T>(self.input);
                (0..total).for_each(|i| *values.add(i) = Complex::new(*from.add(i), T::zero()));
            }
            FftKind::ToReal => {
                let from = run.ptr::<Complex<T>>(self.input);
                for line in 0..lines {
                    let to = std::slice::from_raw_parts_mut(values.add(line * last), last);
                    to.fill(zero);
                    std::ptr::copy_nonoverlapping(from.add(line * half), to.as_mut_ptr(), half);
                }
            }
        }
        let dims = self.length.len();
        for dim in 0..dims {
            // The half that is missing follows from the other once the other dims are transformed.
            if dim + 1 == dims && self.kind == FftKind::ToReal {
                (0..lines).for_each(|line| mirror(std::slice::from_raw_parts_mut(values.add(line * last), last)));
            }
            let inner: usize = self.length[dim + 1..].iter().product();
            transform(run, values, total, self.length[dim], inner, direction);
        }
        self.finish(run, values, lines, last);
    }

    unsafe fn finish<T: FftNum>(&self, run: &Run, values: *mut Complex<T>, lines: usize, last: usize) {
        let half = last / 2 + 1;
        let whole: usize = self.length.iter().product();
        let scale = T::one() / T::from_usize(whole).unwrap_or(T::one());
        match self.kind {
            FftKind::Forward => {}
            FftKind::Inverse => {
                for value in std::slice::from_raw_parts_mut(values, lines * last) {
                    *value = Complex::new(value.re * scale, value.im * scale);
                }
            }
            FftKind::FromReal => {
                let out = run.ptr::<Complex<T>>(self.out);
                for line in 0..lines {
                    std::ptr::copy_nonoverlapping(values.add(line * last), out.add(line * half), half);
                }
            }
            FftKind::ToReal => {
                let out = run.ptr::<T>(self.out);
                (0..lines * last).for_each(|i| *out.add(i) = (*values.add(i)).re * scale);
            }
        }
    }
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

/// Transforms all lines of `n` elements that are `inner` apart.
unsafe fn transform<T: Fourier>(
    run: &Run,
    values: *mut Complex<T>,
    total: usize,
    n: usize,
    inner: usize,
    direction: FftDirection,
) {
    let plan = T::plan(n, direction, run.isa == Isa::Scalar);
    let lines = total / n;
    let per_task = (TASK / n).max(1);
    let base = values as usize;
    run.pool.run(lines.div_ceil(per_task), usize::MAX, |_, task| {
        let values = base as *mut Complex<T>;
        let zero = Complex::new(T::zero(), T::zero());
        let mut scratch = vec![zero; plan.get_inplace_scratch_len()];
        let mut gathered = vec![zero; if inner == 1 { 0 } else { n }];
        for line in task * per_task..lines.min((task + 1) * per_task) {
            if inner == 1 {
                let line = std::slice::from_raw_parts_mut(values.add(line * n), n);
                plan.process_with_scratch(line, &mut scratch);
                continue;
            }
            let first = values.add(line / inner * n * inner + line % inner);
            (0..n).for_each(|i| gathered[i] = *first.add(i * inner));
            plan.process_with_scratch(&mut gathered, &mut scratch);
            (0..n).for_each(|i| *first.add(i * inner) = gathered[i]);
        }
    });
}
