//! Gather, scatter and slices at positions known only when they run.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dtype::{for_wrapping, DType, Element};
use crate::exec::{kernels, Kernel, Run};
use crate::kernels::fold::Sum;
use crate::kernels::row_walk::{ranges_of, scratch_of, RowWalk};
use crate::program::{GatherJson, SliceJson};
use crate::verify::{contiguous, count, At, Checker};
use crate::{bail, Fault, Result};

kernels! {
    "gather" Gather::new;
    "scatterAdd" ScatterAdd::new;
    "dynamicSlice" |call: &SliceJson, checker| DynamicSlice::new(call, false, checker);
    "dynamicUpdateSlice" |call: &SliceJson, checker| DynamicSlice::new(call, true, checker);
}

/// Bytes moved by one task.
const TASK: usize = 1 << 16;

/// A table that is a block of a larger one: rows outside the block but inside the larger one belong to another device.
#[derive(Clone, Copy)]
struct Block {
    /// Index of the first row.
    start: Option<At>,
    /// Rows of the larger table.
    total: usize,
}

impl Block {
    fn new(json: &GatherJson, checker: &mut Checker) -> Result<Block> {
        if json.start.is_some() != json.total.is_some() {
            bail!("start and total come together");
        }
        if let Some(at) = json.start {
            checker.read_all("start", at, DType::I32, &[])?;
        }
        Ok(Block { start: json.start, total: json.total.unwrap_or(json.size) })
    }

    fn first(&self, run: &Run) -> i64 {
        self.start.map_or(0, |at| unsafe { *run.ptr::<i32>(at) }.into())
    }
}

pub struct Gather {
    block: Block,
    outer: usize,
    size: usize,
    count: usize,
    /// Bytes of one row.
    row: usize,
    input: At,
    indices: At,
    out: At,
}

fn checked(json: &GatherJson, checker: &mut Checker) -> Result<()> {
    count(&[json.outer, json.size, json.inner])?;
    count(&[json.outer, json.count, json.inner])?;
    checker.read_all("indices", json.indices, DType::I32, &[json.outer, json.count])
}

unsafe fn refuse(run: &Run, indices: At, size: usize, position: usize) -> Result<()> {
    if position == usize::MAX {
        return Ok(());
    }
    let index = *run.ptr::<i32>(indices).add(position);
    Err(Fault::Index { index: index.into(), position, size }.into())
}

impl Gather {
    pub fn new(json: &GatherJson, mut checker: Checker) -> Result<Gather> {
        checked(json, &mut checker)?;
        let block = Block::new(json, &mut checker)?;
        let Some(input) = json.input else { bail!("in is missing") };
        checker.read_all("in", input, json.dtype, &[json.outer, json.size, json.inner])?;
        checker.write_all("out", json.out, json.dtype, &[json.outer, json.count, json.inner])?;
        checker.finish(false)?;
        let row = json.inner * json.dtype.size();
        Ok(Gather {
            block,
            outer: json.outer,
            size: json.size,
            count: json.count,
            row,
            input,
            indices: json.indices,
            out: json.out,
        })
    }
}

impl Kernel for Gather {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let total = self.outer * self.count;
        let per_task = (TASK / self.row.max(8)).max(1);
        let wrong = AtomicUsize::new(usize::MAX);
        let (first, whole) = (self.block.first(run), self.block.total);
        run.pool.run(total.div_ceil(per_task), usize::MAX, |_, task| {
            let (input, out) = (run.ptr::<u8>(self.input), run.ptr::<u8>(self.out));
            let indices = run.ptr::<i32>(self.indices);
            for i in task * per_task..total.min((task + 1) * per_task) {
                let index = unsafe { *indices.add(i) };
                if index < 0 || index as usize >= whole {
                    wrong.fetch_min(i, Ordering::Relaxed);
                    continue;
                }
                let index = i64::from(index) - first;
                if index < 0 || index as usize >= self.size {
                    unsafe { out.add(i * self.row).write_bytes(0, self.row) };
                    continue;
                }
                let from = (i / self.count * self.size + index as usize) * self.row;
                unsafe { copy_row(input.add(from), out.add(i * self.row), self.row) };
            }
        });
        unsafe { refuse(run, self.indices, whole, wrong.into_inner()) }
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
    scratch: Option<At>,
    block: Block,
    dtype: DType,
    outer: usize,
    size: usize,
    count: usize,
    inner: usize,
    updates: At,
    indices: At,
    out: At,
}

impl ScatterAdd {
    pub fn new(json: &GatherJson, mut checker: Checker) -> Result<ScatterAdd> {
        checked(json, &mut checker)?;
        if json.dtype == DType::Bool || json.dtype.is_half() {
            bail!("{} cannot be added", json.dtype.name());
        }
        let block = Block::new(json, &mut checker)?;
        let Some(updates) = json.updates else { bail!("updates is missing") };
        checker.read_all("updates", updates, json.dtype, &[json.outer, json.count, json.inner])?;
        checker.write_all("out", json.out, json.dtype, &[json.outer, json.size, json.inner])?;
        scratch_of(json, &mut checker)?;
        checker.finish(false)?;
        Ok(ScatterAdd {
            scratch: json.scratch,
            block,
            dtype: json.dtype,
            outer: json.outer,
            size: json.size,
            count: json.count,
            inner: json.inner,
            updates,
            indices: json.indices,
            out: json.out,
        })
    }
}

impl Kernel for ScatterAdd {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        unsafe {
            let total = self.outer * self.count;
            let indices = std::slice::from_raw_parts(run.ptr::<i32>(self.indices), total);
            let whole = self.block.total;
            let wrong = indices.iter().position(|i| *i < 0 || *i as usize >= whole);
            refuse(run, self.indices, whole, wrong.unwrap_or(usize::MAX))?;
            for_wrapping!(self.dtype, T => self.typed::<T>(run, indices));
        }
        Ok(())
    }
}

impl ScatterAdd {
    unsafe fn typed<T: Element>(&self, run: &Run, indices: &[i32]) {
        let walk = RowWalk {
            outer: self.outer,
            size: self.size,
            count: self.count,
            inner: self.inner,
            start: self.block.first(run),
            ranges: ranges_of(self.size * self.inner, self.size),
        };
        let (updates, out) = (run.ptr::<T>(self.updates), run.ptr::<T>(self.out));
        let lost = self.scratch.map(|at| run.ptr::<T>(at));
        walk.combine::<T, Sum>(run, indices, updates, out, lost, &|totals, _| totals.fill(T::ZERO));
    }
}

/// Reads a window of `input`, or writes `update` into a window of a copy of it.
pub struct DynamicSlice {
    shape: Vec<usize>,
    sizes: Vec<usize>,
    strides: Vec<isize>,
    element: usize,
    input: At,
    update: Option<At>,
    starts: Vec<At>,
    out: At,
}

impl DynamicSlice {
    pub fn new(json: &SliceJson, update: bool, mut checker: Checker) -> Result<DynamicSlice> {
        let (shape, sizes) = (&json.shape, &json.sizes);
        if sizes.len() != shape.len() || json.starts.len() != shape.len() {
            bail!("shape {shape:?}, sizes {sizes:?} and {} starts differ in rank", json.starts.len());
        }
        if sizes.iter().zip(shape).any(|(size, whole)| size > whole) {
            bail!("a slice of {sizes:?} does not fit into {shape:?}");
        }
        for (d, at) in json.starts.iter().enumerate() {
            checker.read_all(&format!("starts[{d}]"), *at, DType::I32, &[])?;
        }
        checker.read_all("in", json.input, json.dtype, shape)?;
        let given = if update { json.update } else { None };
        if update {
            let Some(at) = given else { bail!("update is missing") };
            checker.read_all("update", at, json.dtype, sizes)?;
        }
        checker.write_all("out", json.out, json.dtype, if update { shape } else { sizes })?;
        // The update must not be the output, even where both have the same form.
        if update && given == Some(json.out) && count(shape)? > 0 {
            bail!("update overlaps out");
        }
        checker.finish(update)?;
        Ok(DynamicSlice {
            strides: contiguous(shape),
            shape: shape.clone(),
            sizes: sizes.clone(),
            element: json.dtype.size(),
            input: json.input,
            update: given,
            starts: json.starts.clone(),
            out: json.out,
        })
    }
}

impl Kernel for DynamicSlice {
    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let mut window = 0isize;
        for (d, at) in self.starts.iter().enumerate() {
            let start = unsafe { *run.ptr::<i32>(*at) } as i64;
            let start = start.clamp(0, (self.shape[d] - self.sizes[d]) as i64);
            window += start as isize * self.strides[d];
        }
        let (input, out) = (run.ptr::<u8>(self.input), run.ptr::<u8>(self.out));
        let whole: usize = self.shape.iter().product::<usize>() * self.element;
        match self.update {
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
        let total: usize = self.sizes.iter().product();
        if total == 0 {
            return;
        }
        // Trailing dims taken whole are one run with the last dim that is cut.
        let mut cut = self.sizes.len().saturating_sub(1);
        while cut > 0 && self.sizes[cut] == self.shape[cut] {
            cut -= 1;
        }
        let length = self.sizes[cut.min(self.sizes.len())..].iter().product::<usize>();
        let bytes = length * self.element;
        let rows = total / length;
        let per_task = (TASK / bytes).max(1);
        let (large, small) = (large as usize, small as usize);
        run.pool.run(rows.div_ceil(per_task), usize::MAX, |_, task| {
            for row in task * per_task..rows.min((task + 1) * per_task) {
                let mut rest = row;
                let mut at = window;
                for d in (0..cut).rev() {
                    at += (rest % self.sizes[d]) as isize * self.strides[d];
                    rest /= self.sizes[d];
                }
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
