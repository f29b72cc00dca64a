//! Matrices given by entries: products with a dense matrix, and products of two dense matrices at some places. Sums are made in f64.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::calls::{EntriesDotJson, SampledDotJson};
use crate::dtype::{for_float, DType};
use crate::isa::{by_isa, Level};
use crate::reader::kernels;
use crate::scalar::Float;
use crate::step::{Kernel, Run};
use crate::{bail, Fault, Result};

kernels! {
    entriesDot = EntriesDot::new;
    sampledDot = SampledDot::new;
}

/// Multiply-adds of a task, and most tasks.
const TASK: usize = 1 << 16;
const TASKS: usize = 64;
/// Most sums of all rows side by side, where entries are in no order; each is a fourth of its entries at most.
const AREAS: usize = 16;
/// Results that a task adds up.
const PIECE: usize = 1 << 13;
const LANES: usize = 8;

/// Floats that f64 holds.
trait Wide: Float + Into<f64> {}
impl Wide for f32 {}
impl Wide for f64 {}

fn float(dtype: DType) -> Result<()> {
    if dtype.is_half() || !dtype.is_float() {
        bail!("products of entries of {} are not supported", dtype.name());
    }
    Ok(())
}

/// The first positions of indices outside of a table.
struct Wrong(AtomicUsize);

impl Wrong {
    const fn none() -> Wrong {
        Wrong(AtomicUsize::new(usize::MAX))
    }

    /// The index, if it is inside; else its position is kept.
    fn inside(&self, index: i32, size: usize, position: usize) -> Option<usize> {
        if (index as usize) < size && index >= 0 {
            return Some(index as usize);
        }
        self.0.fetch_min(position, Ordering::Relaxed);
        None
    }

    fn refuse(self, indices: &[i32], size: usize) -> Result<()> {
        match self.0.into_inner() {
            usize::MAX => Ok(()),
            position => Err(Fault::Index { index: indices[position].into(), position, size }.into()),
        }
    }
}

pub struct EntriesDot(EntriesDotJson);

impl EntriesDot {
    pub fn new(call: EntriesDotJson) -> Result<EntriesDot> {
        float(call.dtype)?;
        Ok(EntriesDot(call))
    }

    /// Parts of the entries. Only the sizes decide, so that the order of sums is always the same.
    fn tasks(&self) -> usize {
        (self.0.count * self.0.inner / TASK).clamp(1, TASKS)
    }

    fn areas(&self) -> usize {
        (self.0.count / (4 * self.0.size.max(1))).clamp(1, AREAS)
    }
}

impl Kernel for EntriesDot {
    fn extra(&self) -> usize {
        8 * self.0.inner * (2 * self.tasks()).max(self.areas() * self.0.size)
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.0.dtype, T => unsafe { self.typed::<T>(run) })
    }
}

/// The entries, and what they are multiplied with.
struct Operands<'a, T> {
    values: &'a [T],
    from: &'a [i32],
    to: &'a [i32],
    dense: &'a [T],
    rows: usize,
    size: usize,
    inner: usize,
    wrong: [Wrong; 2],
}

impl EntriesDot {
    unsafe fn typed<T: Wide>(&self, run: &Run) -> Result<()> {
        let EntriesDotJson { count, rows, inner, size, .. } = self.0;
        let x = Operands {
            values: std::slice::from_raw_parts(run.ptr::<T>(self.0.values), count),
            from: std::slice::from_raw_parts(run.ptr::<i32>(self.0.from), count),
            to: std::slice::from_raw_parts(run.ptr::<i32>(self.0.to), count),
            dense: std::slice::from_raw_parts(run.ptr::<T>(self.0.dense), rows * inner),
            rows,
            size,
            inner,
            wrong: [Wrong::none(), Wrong::none()],
        };
        let out = run.ptr::<T>(self.0.out);
        if !self.by_rows(run, &x, out) {
            self.by_areas(run, &x, out);
        }
        let [from, to] = x.wrong;
        from.refuse(x.from, rows)?;
        to.refuse(x.to, size)
    }

    /// Entries in ascending order of their rows: a task makes the rows that begin within its part. False if they are not in this order.
    unsafe fn by_rows<T: Wide>(&self, run: &Run, x: &Operands<T>, out: *mut T) -> bool {
        let tasks = self.tasks();
        let at = |task: usize| x.to.len() * task / tasks;
        let (areas, target) = (run.extra as usize, out as usize);
        let unordered = AtomicBool::new(false);
        run.pool.run(tasks, usize::MAX, |_, task| {
            let sums = std::slice::from_raw_parts_mut((areas as *mut f64).add(2 * task * x.inner), 2 * x.inner);
            let part = Part { begin: at(task), end: at(task + 1), last: task + 1 == tasks };
            if !ordered(run.isa, x, &part, sums, target as *mut T) {
                unordered.store(true, Ordering::Relaxed);
            }
        });
        if unordered.into_inner() {
            return false;
        }
        // A row that goes on in the next part: what that part has of it.
        for task in 1..tasks {
            let begin = at(task);
            if begin == 0 || begin == at(task + 1) || x.to[begin] != x.to[begin - 1] {
                continue;
            }
            let Some(row) = x.wrong[1].inside(x.to[begin], x.size, begin) else { continue };
            for column in 0..x.inner {
                let place = out.add(row * x.inner + column);
                let whole: f64 = (*place).into();
                *place = T::from_f64(whole + *(areas as *const f64).add(2 * task * x.inner + column));
            }
        }
        true
    }

    /// Entries in any order: tasks add to areas of their own.
    unsafe fn by_areas<T: Wide>(&self, run: &Run, x: &Operands<T>, out: *mut T) {
        let (areas, total) = (self.areas(), x.size * x.inner);
        let (first, target) = (run.extra as usize, out as usize);
        run.pool.run(areas, usize::MAX, |_, task| {
            let area = std::slice::from_raw_parts_mut((first as *mut f64).add(task * total), total);
            area.fill(0.0);
            scattered(run.isa, x, x.to.len() * task / areas, x.to.len() * (task + 1) / areas, area);
        });
        run.pool.run(total.div_ceil(PIECE), usize::MAX, |_, task| {
            for place in task * PIECE..total.min((task + 1) * PIECE) {
                let sum = (0..areas).fold(0.0, |sum, area| sum + *(first as *const f64).add(area * total + place));
                *(target as *mut T).add(place) = T::from_f64(sum);
            }
        });
    }
}

/// Entries from `begin` to before `end`.
struct Part {
    begin: usize,
    end: usize,
    last: bool,
}

by_isa! { fn ordered<T: Wide>(x: &Operands<T>, part: &Part, sums: &mut [f64], out: *mut T) -> bool => ordered_body }
by_isa! { fn scattered<T: Wide>(x: &Operands<T>, begin: usize, end: usize, area: &mut [f64]) => scattered_body }

/// Adds the row of an entry, times its value.
#[inline(always)]
fn add<L: Level, T: Wide>(x: &Operands<T>, entry: usize, sums: &mut [f64]) {
    let Some(from) = x.wrong[0].inside(x.from[entry], x.rows, entry) else { return };
    let value: f64 = x.values[entry].into();
    for (sum, factor) in sums.iter_mut().zip(&x.dense[from * x.inner..(from + 1) * x.inner]) {
        *sum = Float::mul_add::<L>((*factor).into(), value, *sum);
    }
}

/// The rows of a part; those before them that have no entry are 0. The beginning of the part may belong to a row of the part before:
/// its sums stay in the first half of `sums`.
#[inline(always)]
unsafe fn ordered_body<L: Level, T: Wide>(x: &Operands<T>, part: &Part, sums: &mut [f64], out: *mut T) -> bool {
    let (head, own) = sums.split_at_mut(x.inner);
    let before = if part.begin == 0 { -1 } else { x.to[part.begin - 1].max(-1) };
    let mut row = before;
    let mut entry = part.begin;
    let zero = |from: i32, to: usize| {
        let from = ((from + 1) as usize).min(to);
        std::slice::from_raw_parts_mut(out.add(from * x.inner), (to - from) * x.inner).fill(T::ZERO);
    };
    while entry < part.end {
        let Some(to) = x.wrong[1].inside(x.to[entry], x.size, entry) else {
            entry += 1;
            continue;
        };
        if (to as i32) < row {
            return false;
        }
        zero(row, to);
        row = to as i32;
        let sums = if row == before { &mut *head } else { &mut *own };
        sums.fill(0.0);
        while entry < part.end && x.to[entry] == row {
            add::<L, T>(x, entry, sums);
            entry += 1;
        }
        if row != before {
            for (column, sum) in own.iter().enumerate() {
                *out.add(to * x.inner + column) = T::from_f64(*sum);
            }
        }
    }
    if part.last {
        zero(row, x.size);
    }
    true
}

#[inline(always)]
unsafe fn scattered_body<L: Level, T: Wide>(x: &Operands<T>, begin: usize, end: usize, area: &mut [f64]) {
    for entry in begin..end {
        let Some(to) = x.wrong[1].inside(x.to[entry], x.size, entry) else { continue };
        add::<L, T>(x, entry, &mut area[to * x.inner..(to + 1) * x.inner]);
    }
}

pub struct SampledDot(SampledDotJson);

impl SampledDot {
    pub fn new(call: SampledDotJson) -> Result<SampledDot> {
        float(call.dtype)?;
        Ok(SampledDot(call))
    }
}

impl Kernel for SampledDot {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for_float!(self.0.dtype, T => unsafe { self.typed::<T>(run) })
    }
}

impl SampledDot {
    unsafe fn typed<T: Wide>(&self, run: &Run) -> Result<()> {
        let SampledDotJson { count, m, n, inner, .. } = self.0;
        let rows = std::slice::from_raw_parts(run.ptr::<i32>(self.0.rows), count);
        let columns = std::slice::from_raw_parts(run.ptr::<i32>(self.0.columns), count);
        let left = std::slice::from_raw_parts(run.ptr::<T>(self.0.left), m * inner);
        let right = std::slice::from_raw_parts(run.ptr::<T>(self.0.right), n * inner);
        let out = run.ptr::<T>(self.0.out) as usize;
        let wrong = [Wrong::none(), Wrong::none()];
        let per_task = (TASK / inner.max(1)).max(1);
        run.pool.run(count.div_ceil(per_task), usize::MAX, |_, task| {
            for entry in task * per_task..count.min((task + 1) * per_task) {
                let row = wrong[0].inside(rows[entry], m, entry);
                let (Some(row), Some(column)) = (row, wrong[1].inside(columns[entry], n, entry)) else { continue };
                let [left, right] = [&left[row * inner..], &right[column * inner..]].map(|rest| &rest[..inner]);
                *(out as *mut T).add(entry) = T::from_f64(product(run.isa, left, right));
            }
        });
        let [at, to] = wrong;
        at.refuse(rows, m)?;
        to.refuse(columns, n)
    }
}

by_isa! { fn product<T: Wide>(left: &[T], right: &[T]) -> f64 => product_body }

#[inline(always)]
fn product_body<L: Level, T: Wide>(left: &[T], right: &[T]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (heads, tails) = (left.chunks(LANES), right.chunks(LANES));
    for (a, b) in heads.zip(tails) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = Float::mul_add::<L>((*a).into(), (*b).into(), *lane);
        }
    }
    [4, 2, 1].iter().for_each(|half| (0..*half).for_each(|lane| lanes[lane] += lanes[lane + half]));
    lanes[0]
}
