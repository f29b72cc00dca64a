//! Finds the slices and stacks of a loop that need no copy.

use serde_json::Value;

use super::accesses::Steps;
use crate::calls::SliceJson;
use crate::fields::{Fields, Take};
use crate::kernels::narrow_layer::lives::Lives;
use crate::verify::{At, Region};

/// The row of an iteration.
pub(super) struct Row {
    pub stack: At,
    pub bytes: usize,
}

/// A call that copies the row of the iteration.
struct Copy {
    step: usize,
    stack: At,
    bytes: usize,
    /// The access of the stack, and that of the copy.
    whole: Region,
    part: Region,
}

/// The rows, each with the step that would copy it; changes the addresses of the calls that used the copies.
pub(super) fn rows(
    lives: &Lives,
    place: usize,
    (times, count): (usize, At),
    calls: &mut [Value],
    steps: &mut Steps,
    spaces: usize,
) -> Vec<(usize, Row)> {
    let mut rows = Vec::new();
    // Slices first: the memory of their copies may be that of stacked values later in the iteration.
    for reads in [true, false] {
        for step in 0..calls.len() {
            let name = if reads { "dynamicSlice" } else { "dynamicUpdateSlice" };
            let Some(copy) = (calls[step]["k"] == name).then(|| copied(step, &calls[step], steps, reads)).flatten()
            else {
                continue;
            };
            let SliceJson { shape, starts, .. } = copy.1;
            let counts = starts[0] == count && times <= shape[0];
            let space = spaces + rows.len();
            let moved = if reads { slice } else { stack };
            if counts && moved(lives, place, &copy.0, calls, steps, space) {
                steps.clear(step);
                rows.push((step, Row { stack: copy.0.stack, bytes: copy.0.bytes }));
            }
        }
    }
    rows
}

fn copied(step: usize, call: &Value, steps: &Steps, reads: bool) -> Option<(Copy, SliceJson)> {
    let mut fields = Fields::of(call.clone()).ok()?;
    let json = SliceJson::take(&mut fields).ok()?;
    let [_, along] = json.shape[..] else { return None };
    let rows = json.sizes == [1, along] && along > 0 && (reads || json.input == json.out);
    let of = |name: &str| steps.of(step).iter().find(|region| region.name == name).cloned();
    let (whole, part) = if reads { (of("in")?, of("out")?) } else { (of("out")?, of("update")?) };
    let bytes = along * json.dtype.size();
    (rows && part.space == 0).then_some((Copy { step, stack: json.input, bytes, whole, part }, json))
}

/// Whether other steps of the loop than the copy itself access the stack, or only write it.
fn touched(copy: &Copy, steps: &Steps, calls: &[Value], any: bool) -> bool {
    let others = (0..calls.len()).filter(|step| *step != copy.step);
    others.map(|step| steps.meets(step, &copy.whole)).any(|[reads, writes]| writes || (any && reads))
}

/// Which bytes of a copy have been written.
struct Bytes<'a> {
    part: &'a Region,
    written: Vec<bool>,
}

impl<'a> Bytes<'a> {
    fn none(part: &'a Region) -> Bytes<'a> {
        Bytes { part, written: vec![false; part.high - part.low] }
    }

    /// The bytes of the copy between two others.
    fn within(&mut self, low: usize, high: usize) -> &mut [bool] {
        let at = |byte: usize| byte.clamp(self.part.low, self.part.high) - self.part.low;
        &mut self.written[at(low)..at(high)]
    }

    fn write(&mut self, accesses: &[Region]) {
        for region in accesses.iter().filter(|r| !r.role.reads() && r.overlaps(self.part)) {
            each_run(region, |low, high| self.within(low, high).fill(true));
        }
    }

    /// Whether all bytes of an access are written, or none.
    fn holds(&mut self, region: &Region, written: bool) -> bool {
        self.within(region.low, region.high).iter().all(|byte| *byte == written)
    }
}

/// Calls `f` with the first and last byte of each run of an access.
fn each_run(region: &Region, mut f: impl FnMut(usize, usize)) {
    let (offset, dtype, dims) = &region.view;
    let size = dtype.size();
    let (rows, run) = match dims.split_last() {
        Some(((count, 1), outer)) => (outer, count * size),
        _ => (&dims[..], size),
    };
    let mut starts = vec![*offset as isize];
    for (count, stride) in rows {
        let by = |i: usize| i as isize * stride * size as isize;
        starts = starts.iter().flat_map(|start| (0..*count).map(move |i| start + by(i))).collect();
    }
    starts.iter().for_each(|start| f(*start as usize, *start as usize + run));
}

/// The steps from `first` on that read a copy, until it is written over, and whether all of it is; `None` where one of them cannot read it
/// elsewhere.
fn readers(part: &Region, steps: &Steps, first: usize, calls: &[Value]) -> Option<(Vec<usize>, bool)> {
    let (mut over, mut readers) = (Bytes::none(part), Vec::new());
    for (step, call) in calls.iter().enumerate().skip(first) {
        let reads: Vec<&Region> = steps.of(step).iter().filter(|r| r.role.reads() && r.overlaps(part)).collect();
        if !reads.iter().all(|r| over.holds(r, true)) {
            let stale = reads.iter().all(|r| over.holds(r, false));
            if !stale || !steps.inside(step, part, true, call) {
                return None;
            }
            readers.push(step);
        }
        over.write(steps.of(step));
    }
    let all = over.written.iter().all(|byte| *byte);
    Some((readers, all))
}

/// Steps read a slice where it lies, until the copy would be written over.
fn slice(lives: &Lives, place: usize, copy: &Copy, calls: &mut [Value], steps: &mut Steps, space: usize) -> bool {
    let part = &copy.part;
    let Some((users, over)) = readers(part, steps, copy.step + 1, calls) else { return false };
    let early = (0..copy.step).any(|step| steps.meets(step, part)[0]);
    let late = !over && !lives.dead(part, place + 1, usize::MAX);
    if early || late || touched(copy, steps, calls, false) {
        return false;
    }
    users.iter().for_each(|step| steps.redirect(*step, part, [true, false], &mut calls[*step], space));
    true
}

/// Steps compute what is stacked where it will lie.
fn stack(lives: &Lives, place: usize, copy: &Copy, calls: &mut [Value], steps: &mut Steps, space: usize) -> bool {
    let part = &copy.part;
    // From the step that begins to write it: bytes that are read earlier are those of another value.
    let (mut made, mut begin) = (Bytes::none(part), None);
    for (step, call) in calls.iter().enumerate().take(copy.step) {
        let [reads, writes] = steps.meets(step, part);
        let mut early = |r: &Region| r.role.reads() && r.overlaps(part) && !made.holds(r, true);
        if !steps.inside(step, part, false, call) || (reads && steps.of(step).iter().any(&mut early)) {
            (made, begin) = (Bytes::none(part), None);
        } else if writes {
            begin = begin.or(Some(step));
            made.write(steps.of(step));
        }
    }
    let Some(begin) = begin.filter(|_| made.written.iter().all(|byte| *byte)) else { return false };
    let Some((users, over)) = readers(part, steps, copy.step + 1, calls) else { return false };
    let early = (0..begin).any(|step| steps.meets(step, part)[0]);
    let late = !over && !lives.dead(part, place + 1, usize::MAX);
    if early || late || touched(copy, steps, calls, true) {
        return false;
    }
    (begin..copy.step).for_each(|step| steps.redirect(step, part, [true, true], &mut calls[step], space));
    users.iter().for_each(|step| steps.redirect(*step, part, [true, false], &mut calls[*step], space));
    true
}
