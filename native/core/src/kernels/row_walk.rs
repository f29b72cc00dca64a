//! Rows combined by index.

use super::fold::{add_rows, settle, Fold, Sum};
use crate::calls::GatherJson;
use crate::dtype::Element;
use crate::step::Run;
use crate::walk::fetch;
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

/// Rows that are fetched before they are needed: those of a large table are far from each other.
const AHEAD: usize = 16;

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
        // Each range looks at all positions, which takes as long as adding 16 elements of a row.
        let threads = run.pool.threads();
        let ranges = self.ranges.min((self.inner / 16).max(if threads > 1 { 2 * threads } else { 1 }));
        run.pool.run(self.outer * ranges, usize::MAX, |_, task| {
            let (o, range) = (task / ranges, task % ranges);
            let (first, last) = (self.size * range / ranges, self.size * (range + 1) / ranges);
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
            let indices = &indices[o * self.count..(o + 1) * self.count];
            let own = |index: &i32| {
                let row = usize::try_from(i64::from(*index) - self.start - first as i64).ok()?;
                Some(row * self.inner).filter(|_| row < last - first)
            };
            for (p, index) in indices.iter().enumerate() {
                if let Some(later) = indices.get(p + AHEAD).and_then(own) {
                    fetch(totals.as_ptr().wrapping_add(later), self.inner * size_of::<T>());
                }
                let Some(at) = own(index) else { continue };
                let from = (updates as *const T).add((o * self.count + p) * self.inner);
                let from = std::slice::from_raw_parts(from, self.inner);
                let row = at..at + self.inner;
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
