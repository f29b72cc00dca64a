//! Rows combined by index.

use super::fold::{add_rows, settle, Fold, Sum};
use crate::calls::GatherJson;
use crate::dtype::Element;
use crate::step::Run;
use crate::{bail, Result};

/// The shape of the table, and how the work is divided.
pub(super) struct RowWalk {
    pub outer: usize,
    pub size: usize,
    pub count: usize,
    pub inner: usize,
    /// Index of the first row on this device; indices of rows on other devices are skipped.
    pub start: i64,
    pub ranges: usize,
}

/// Ranges of rows that are worth a task of their own.
pub(super) fn ranges_of(elements: usize, rows: usize) -> usize {
    (elements / (1 << 14)).clamp(1, 16).min(rows.max(1))
}

/// The most positions whose rows are added without a correction. A longer sum of floats keeps its rounding errors in a second
/// table. The limit is at least the number of rows, so that the second table costs no more than the positions do.
fn plain_positions(size: usize) -> usize {
    size.max(1 << 8)
}

/// Checks that long sums of floats, and only these, have a second table.
pub(super) fn check_scratch(call: &GatherJson) -> Result<()> {
    if call.scratch.is_some() != (call.dtype.is_float() && call.count > plain_positions(call.size)) {
        bail!("scratch is for sums of floats by more than {} indices", plain_positions(call.size));
    }
    Ok(())
}

impl RowWalk {
    /// Combines rows of `updates` with rows of `out`. `begin` fills `out`: it gets a part of the table and its offset. Tasks own
    /// ranges of target rows and walk all positions in order. With a table `lost` for rounding errors, the rows are summed.
    pub unsafe fn combine<T: Element, F: Fold>(
        &self,
        run: &Run,
        indices: &[i32],
        updates: *const T,
        out: *mut T,
        lost: Option<*mut T>,
        begin: &(dyn Fn(&mut [T], usize) + Sync),
    ) {
        let (updates, out, lost) = (updates as usize, out as usize, lost.map(|at| at as usize));
        run.pool.run(self.outer * self.ranges, usize::MAX, |_, task| {
            let (o, range) = (task / self.ranges, task % self.ranges);
            let (first, last) = (self.size * range / self.ranges, self.size * (range + 1) / self.ranges);
            let offset = (o * self.size + first) * self.inner;
            let part = |table: usize| {
                std::slice::from_raw_parts_mut((table as *mut T).add(offset), (last - first) * self.inner)
            };
            let totals = part(out);
            begin(totals, offset);
            let mut lost = lost.map(part);
            if let Some(lost) = &mut lost {
                lost.fill(T::ZERO);
            }
            for (p, index) in indices[o * self.count..(o + 1) * self.count].iter().enumerate() {
                let Ok(index) = usize::try_from(i64::from(*index) - self.start) else { continue };
                if index < first || index >= last {
                    continue;
                }
                let from = (updates as *const T).add((o * self.count + p) * self.inner);
                let from = std::slice::from_raw_parts(from, self.inner);
                let row = (index - first) * self.inner..(index - first + 1) * self.inner;
                let to = &mut totals[row.clone()];
                match &mut lost {
                    Some(lost) => add_rows(run.isa, to, &mut lost[row], from),
                    None => to.iter_mut().zip(from).for_each(|(t, f)| *t = F::fold(*t, *f)),
                }
            }
            if let Some(lost) = lost {
                settle::<T, Sum>(totals, lost);
            }
        });
    }
}
