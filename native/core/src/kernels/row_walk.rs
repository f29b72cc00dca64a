//! Rows combined by index.

use crate::dtype::{DType, Element};
use crate::exec::Run;
use crate::program::GatherJson;
use crate::verify::Checker;
use crate::{bail, Result};

/// Where indices go, and how the work is dealt out.
pub(super) struct RowWalk {
    pub outer: usize,
    pub size: usize,
    pub count: usize,
    pub inner: usize,
    /// Index of the first row that is here; indices of others are passed over.
    pub start: i64,
    pub ranges: usize,
}

/// Ranges of rows that are worth a task of their own.
pub(super) fn ranges_of(elements: usize, rows: usize) -> usize {
    (elements / (1 << 14)).clamp(1, 16).min(rows.max(1))
}

/// Positions whose rows are added one after another. A sum of floats that is much longer would lose what is small beside it; so
/// many as there are rows, so that to go through the table once for each block costs no more than the positions do.
fn positions_at_once(size: usize) -> usize {
    size.max(1 << 16)
}

/// Checks that sums of floats in blocks have a second table, and no others.
pub(super) fn scratch_of(json: &GatherJson, checker: &mut Checker) -> Result<()> {
    let floats = matches!(json.dtype, DType::F32 | DType::F64);
    if json.scratch.is_some() != (floats && json.count > positions_at_once(json.size)) {
        bail!("scratch is for sums of floats by more than {} indices", positions_at_once(json.size));
    }
    match json.scratch {
        Some(at) => checker.scratch("scratch", at, json.outer * json.size * json.inner * json.dtype.size()),
        None => Ok(()),
    }
}

impl RowWalk {
    /// Combines rows of `updates` with those of `out`, which `begin` fills: it gets a part of the table and its offset. Tasks own
    /// ranges of target rows and walk all positions in order, in blocks where there is a second table for the sums of a block.
    pub unsafe fn combine<T: Element>(
        &self,
        run: &Run,
        indices: &[i32],
        updates: *const T,
        out: *mut T,
        block: Option<*mut T>,
        begin: impl Fn(&mut [T], usize) + Sync,
        combined: impl Fn(T, T) -> T + Sync,
    ) {
        let (updates, out, block) = (updates as usize, out as usize, block.map(|at| at as usize));
        let at_once = if block.is_some() { positions_at_once(self.size) } else { self.count.max(1) };
        run.pool.run(self.outer * self.ranges, usize::MAX, |_, task| {
            let (o, range) = (task / self.ranges, task % self.ranges);
            let (first, last) = (self.size * range / self.ranges, self.size * (range + 1) / self.ranges);
            let offset = (o * self.size + first) * self.inner;
            let part = |table: usize| {
                std::slice::from_raw_parts_mut((table as *mut T).add(offset), (last - first) * self.inner)
            };
            let totals = part(out);
            begin(totals, offset);
            let own = &indices[o * self.count..(o + 1) * self.count];
            for (n, positions) in own.chunks(at_once).enumerate() {
                let sums = part(block.unwrap_or(out));
                if block.is_some() {
                    sums.fill(T::ZERO);
                }
                for (p, index) in positions.iter().enumerate() {
                    let Ok(index) = usize::try_from(i64::from(*index) - self.start) else { continue };
                    if index < first || index >= last {
                        continue;
                    }
                    let from = (updates as *const T).add((o * self.count + n * at_once + p) * self.inner);
                    let from = std::slice::from_raw_parts(from, self.inner);
                    let to = &mut sums[(index - first) * self.inner..][..self.inner];
                    to.iter_mut().zip(from).for_each(|(t, f)| *t = combined(*t, *f));
                }
                if block.is_some() {
                    part(out).iter_mut().zip(&*sums).for_each(|(t, s)| *t = t.add(*s));
                }
            }
        });
    }
}
