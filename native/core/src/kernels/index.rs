//! Gather, scatter and slices at positions known only when they run.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::calls::{GatherJson, SliceJson};
use crate::dtype::{for_wrapping, DType, Element};
use crate::kernels::fold::Sum;
use crate::kernels::row_walk::{check_scratch, ranges_of, RowWalk};
use crate::reader::kernels;
use crate::sizes::offset_of;
use crate::step::{Kernel, Run};
use crate::verify::{contiguous, required, At};
use crate::{bail, Fault, Result};

kernels! {
    gather = Gather::new;
    scatterAdd = ScatterAdd::new;
    dynamicSlice = DynamicSlice::new;
    dynamicUpdateSlice = DynamicSlice::new;
}

/// Bytes moved by one task.
const TASK: usize = 1 << 16;

/// A table may be a block of a larger table: rows outside of the block, but inside of the larger table, are on other devices.
impl GatherJson {
    fn checked(&self) -> Result<()> {
        if self.start.is_some() != self.total.is_some() {
            bail!("`start` and `total` must be given together");
        }
        Ok(())
    }

    /// Index of the first row.
    fn first(&self, run: &Run) -> i64 {
        self.start.map_or(0, |at| unsafe { *run.ptr::<i32>(at) }.into())
    }

    /// Rows of the larger table.
    fn whole(&self) -> usize {
        self.total.unwrap_or(self.size)
    }
}

pub struct Gather {
    call: GatherJson,
    input: At,
    /// Bytes of one row.
    row: usize,
}

unsafe fn refuse(run: &Run, indices: At, size: usize, position: usize) -> Result<()> {
    if position == usize::MAX {
        return Ok(());
    }
    let index = *run.ptr::<i32>(indices).add(position);
    Err(Fault::Index { index: index.into(), position, size }.into())
}

impl Gather {
    pub fn new(call: GatherJson) -> Result<Gather> {
        call.checked()?;
        Ok(Gather { input: required("in", call.input)?, row: call.inner * call.dtype.size(), call })
    }
}

impl Kernel for Gather {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let GatherJson { outer, size, count, indices: places, out, .. } = self.call;
        let total = outer * count;
        let per_task = (TASK / self.row.max(8)).max(1);
        let wrong = AtomicUsize::new(usize::MAX);
        let (first, whole) = (self.call.first(run), self.call.whole());
        run.pool.run(total.div_ceil(per_task), usize::MAX, |_, task| {
            let (input, out) = (run.ptr::<u8>(self.input), run.ptr::<u8>(out));
            let indices = run.ptr::<i32>(places);
            for i in task * per_task..total.min((task + 1) * per_task) {
                let index = unsafe { *indices.add(i) };
                if index < 0 || index as usize >= whole {
                    wrong.fetch_min(i, Ordering::Relaxed);
                    continue;
                }
                let index = i64::from(index) - first;
                if index < 0 || index as usize >= size {
                    unsafe { out.add(i * self.row).write_bytes(0, self.row) };
                    continue;
                }
                let from = (i / count * size + index as usize) * self.row;
                unsafe { copy_row(input.add(from), out.add(i * self.row), self.row) };
            }
        });
        unsafe { refuse(run, places, whole, wrong.into_inner()) }
    }
}

#[inline(always)]
unsafe fn copy_row(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        4 => to.cast::<u32>().write(from.cast::<u32>().read()),
        8 => to.cast::<[u32; 2]>().write(from.cast::<[u32; 2]>().read()),
        _ => std::ptr::copy_nonoverlapping(from, to, bytes),
    }
}

pub struct ScatterAdd {
    call: GatherJson,
    updates: At,
}

impl ScatterAdd {
    pub fn new(call: GatherJson) -> Result<ScatterAdd> {
        call.checked()?;
        if call.dtype == DType::Bool || call.dtype.is_half() {
            bail!("{} cannot be added", call.dtype.name());
        }
        check_scratch(&call)?;
        Ok(ScatterAdd { updates: required("updates", call.updates)?, call })
    }
}

impl Kernel for ScatterAdd {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe {
            let total = self.call.outer * self.call.count;
            let indices = std::slice::from_raw_parts(run.ptr::<i32>(self.call.indices), total);
            let whole = self.call.whole();
            let wrong = indices.iter().position(|i| *i < 0 || *i as usize >= whole);
            refuse(run, self.call.indices, whole, wrong.unwrap_or(usize::MAX))?;
            for_wrapping!(self.call.dtype, T => self.typed::<T>(run, indices));
        }
        Ok(())
    }
}

impl ScatterAdd {
    unsafe fn typed<T: Element>(&self, run: &Run, indices: &[i32]) {
        let walk = RowWalk {
            outer: self.call.outer,
            size: self.call.size,
            count: self.call.count,
            inner: self.call.inner,
            start: self.call.first(run),
            ranges: ranges_of(self.call.size * self.call.inner, self.call.size),
        };
        let (updates, out) = (run.ptr::<T>(self.updates), run.ptr::<T>(self.call.out));
        let lost = self.call.scratch.map(|at| run.ptr::<T>(at));
        walk.combine::<T, Sum>(run, indices, updates, out, lost, &|totals, _| totals.fill(T::ZERO));
    }
}

/// Reads a window of `input`, or writes `update` into a window of a copy of it.
pub struct DynamicSlice {
    call: SliceJson,
    strides: Vec<isize>,
    element: usize,
}

impl DynamicSlice {
    pub fn new(call: SliceJson) -> Result<DynamicSlice> {
        let SliceJson { shape, sizes, starts, .. } = &call;
        if sizes.len() != shape.len() || starts.len() != shape.len() {
            bail!("shape {shape:?}, sizes {sizes:?} and {} starts differ in rank", starts.len());
        }
        if sizes.iter().zip(shape).any(|(size, whole)| size > whole) {
            bail!("a slice of {sizes:?} does not fit into {shape:?}");
        }
        Ok(DynamicSlice { strides: contiguous(shape), element: call.dtype.size(), call })
    }
}

impl Kernel for DynamicSlice {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let mut window = 0isize;
        for (d, at) in self.call.starts.iter().enumerate() {
            let start = unsafe { *run.ptr::<i32>(*at) } as i64;
            let start = start.clamp(0, (self.call.shape[d] - self.call.sizes[d]) as i64);
            window += start as isize * self.strides[d];
        }
        let (input, out) = (run.ptr::<u8>(self.call.input), run.ptr::<u8>(self.call.out));
        let whole: usize = self.call.shape.iter().product::<usize>() * self.element;
        match self.call.update {
            Some(update) => unsafe {
                if input != out {
                    copy_parallel(run, input, out, whole);
                }
                self.rows(run, out, run.ptr(update), window, false);
            },
            None => unsafe { self.rows(run, input, out, window, true) },
        }
        Ok(())
    }
}

impl DynamicSlice {
    /// Copies between the window of `large` and the contiguous `small`.
    unsafe fn rows(&self, run: &Run, large: *mut u8, small: *mut u8, window: isize, read: bool) {
        let total: usize = self.call.sizes.iter().product();
        if total == 0 {
            return;
        }
        // Trailing dims taken whole are one run with the last dim that is cut.
        let mut cut = self.call.sizes.len().saturating_sub(1);
        while cut > 0 && self.call.sizes[cut] == self.call.shape[cut] {
            cut -= 1;
        }
        let length = self.call.sizes[cut.min(self.call.sizes.len())..].iter().product::<usize>();
        let bytes = length * self.element;
        let rows = total / length;
        let per_task = (TASK / bytes).max(1);
        let (large, small) = (large as usize, small as usize);
        run.pool.run(rows.div_ceil(per_task), usize::MAX, |_, task| {
            for row in task * per_task..rows.min((task + 1) * per_task) {
                let at = window + offset_of(&self.call.sizes[..cut], &self.strides, row);
                let a = (large as *mut u8).add(at as usize * self.element);
                let b = (small as *mut u8).add(row * bytes);
                let (from, to) = if read { (a, b) } else { (b, a) };
                std::ptr::copy_nonoverlapping(from, to, bytes);
            }
        });
    }
}

unsafe fn copy_parallel(run: &Run, from: *const u8, to: *mut u8, bytes: usize) {
    const PIECE: usize = 1 << 18;
    let (from, to) = (from as usize, to as usize);
    run.pool.run(bytes.div_ceil(PIECE), usize::MAX, |_, task| {
        let start = task * PIECE;
        let n = PIECE.min(bytes - start);
        std::ptr::copy_nonoverlapping((from as *const u8).add(start), (to as *mut u8).add(start), n);
    });
}
