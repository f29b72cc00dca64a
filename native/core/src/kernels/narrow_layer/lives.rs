//! Which steps of a program read and write which memory.

use crate::step::Block;
use crate::verify::Region;

/// The accesses of the outermost steps.
pub(in crate::kernels) struct Lives<'a> {
    log: &'a [(usize, Region)],
    /// Where the accesses of each step begin, and at last their count.
    starts: Vec<usize>,
    numbers: Vec<usize>,
}

impl<'a> Lives<'a> {
    /// `log`: the accesses of all steps with the steps' numbers, in order.
    pub fn new(block: &Block, log: &'a [(usize, Region)]) -> Lives<'a> {
        let numbers: Vec<usize> = block.steps.iter().map(|step| step.number).collect();
        let start = |number: &usize| log.partition_point(|(of, _)| of < number);
        let starts = numbers.iter().map(start).chain([log.len()]).collect();
        Lives { log, starts, numbers }
    }

    /// The accesses of a step with the numbers of the steps, nested ones included.
    pub fn numbered(&self, step: usize) -> impl Iterator<Item = &'a (usize, Region)> {
        self.log[self.starts[step]..self.starts[step + 1]].iter()
    }

    pub fn steps(&self) -> usize {
        self.numbers.len()
    }

    /// The accesses of a step, nested ones included.
    pub fn of(&self, step: usize) -> impl Iterator<Item = &'a Region> {
        self.numbered(step).map(|(_, region)| region)
    }

    /// The only access of a step that writes, or that reads, there.
    pub fn at(&self, step: usize, field: &str) -> Option<&'a Region> {
        self.of(step).find(|region| region.name == field)
    }

    /// Whether a step changes what another one accesses.
    pub fn spoils(&self, step: usize, held: impl Iterator<Item = &'a Region>) -> bool {
        held.into_iter().any(|held| self.of(step).any(|region| !region.role.reads() && region.overlaps(held)))
    }

    /// Whether no step from `first` on reads memory of the arena before it is written again, but for one.
    pub fn dead(&self, region: &Region, first: usize, but: usize) -> bool {
        let mut stale = vec![(region.low, region.high)];
        for step in first..self.steps() {
            let meets =
                |r: &Region, (low, high): (usize, usize)| r.space == region.space && r.low < high && low < r.high;
            if step != but && self.of(step).any(|r| r.role.reads() && stale.iter().any(|s| meets(r, *s))) {
                return false;
            }
            let own =
                self.log[self.starts[step]..self.starts[step + 1]].iter().filter(|(n, _)| *n == self.numbers[step]);
            for (_, written) in own.filter(|(_, r)| r.fills()) {
                let left = |(low, high): (usize, usize)| {
                    let whole = if meets(written, (low, high)) { None } else { Some((low, high)) };
                    let ends = [(low, written.low.min(high)), (written.high.max(low), high)];
                    whole.into_iter().chain(ends.into_iter().filter(move |(l, h)| whole.is_none() && l < h))
                };
                stale = stale.into_iter().flat_map(left).collect();
            }
        }
        region.space == 0
    }
}
