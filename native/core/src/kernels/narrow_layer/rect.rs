//! A fused step on a rectangle of its rows and columns, some of whose operands lie elsewhere.

use serde_json::Value;

use crate::calls::FusedJson;
use crate::dtype::{DType, Element};
use crate::isa::{by_isa, Level};
use crate::kernels::rows::FusedRows;
use crate::reader::Reader;
use crate::step::{Kernel, Run};
use crate::verify::At;

/// Most operands.
const OPERANDS: usize = 16;

pub(super) struct Rect {
    /// The step on the rectangle; each operand is in a space of its own.
    kernel: FusedRows,
    operands: Vec<Place>,
    /// The operand that lies in memory of the thread: rows without gaps.
    pub own: usize,
    /// Outputs with one value for each row, which are those of the columns alone.
    pub folds: Vec<Fold>,
}

/// Where an operand lies, and its bytes from row to row and from column to column.
struct Place {
    at: At,
    by: [isize; 2],
}

/// The largest or the least number of each row.
pub(super) struct Fold {
    pub place: usize,
    pub larger: bool,
    pub at: At,
    pub stride: isize,
}

impl Rect {
    /// The step for rectangles of this size; `own` is the address of the operand that lies elsewhere. `None` for a step with folds that more
    /// is computed from, or other folds than the largest and the least f32.
    pub fn new(mut json: FusedJson, size: [usize; 2], own: At, reader: &Reader) -> Option<Rect> {
        let inputs = json.inputs.len();
        let mut folded: Vec<(usize, bool)> = Vec::new();
        for (i, op) in json.ops.iter().enumerate() {
            let name = op.first().and_then(Value::as_str)?;
            let uses = |r: &usize| name != "const" && op[2..].iter().any(|v| v.as_u64() == Some(*r as u64));
            if name == "iota" || folded.iter().any(|(r, _)| uses(r)) {
                return None;
            }
            if name == "fold" {
                let larger = match (op[1].as_str()?, op[2].as_str()?) {
                    ("f32", "max") => true,
                    ("f32", "min") => false,
                    _ => return None,
                };
                folded.push((inputs + i, larger));
            }
        }
        json.shape = size.to_vec();
        let (mut operands, mut folds, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let all = json.inputs.iter_mut().map(|i| (&mut i.at, i.dtype, &mut i.strides, None));
        let all = all.chain(json.outputs.iter_mut().map(|o| (&mut o.at, o.dtype, &mut o.strides, Some(o.reg))));
        for (place, (at, dtype, strides, written)) in all.enumerate() {
            let found = written.and_then(|register| folded.iter().find(|(r, _)| *r == register));
            if *at == own {
                held.push(place);
                *strides = vec![size[1] as isize, 1];
            }
            match (strides.len(), found) {
                (2, None) => {}
                (1, Some((_, larger))) => {
                    folds.push(Fold { place, larger: *larger, at: *at, stride: strides[0] });
                    strides[0] = 1;
                }
                _ => return None,
            }
            let bytes = |dim: usize| strides.get(dim).map_or(0, |s| s * dtype.size() as isize);
            operands.push(Place { at: *at, by: [bytes(0), bytes(1)] });
            *at = At { space: place as u32, offset: 0 };
        }
        let [own] = held[..] else { return None };
        let kernel = (operands.len() <= OPERANDS).then(|| FusedRows::new(json, reader))?.ok()?;
        Some(Rect { kernel, operands, own, folds })
    }

    /// Runs the step from a row and a column on; `moved` says where operands lie that are elsewhere.
    pub unsafe fn run(&self, run: &Run, [row, column]: [usize; 2], moved: impl Fn(usize) -> Option<*mut u8>) {
        let mut bases = [std::ptr::null_mut(); OPERANDS];
        for (place, Place { at, by }) in self.operands.iter().enumerate() {
            let from = row as isize * by[0] + column as isize * by[1];
            bases[place] = moved(place).unwrap_or_else(|| run.ptr::<u8>(*at).wrapping_offset(from));
        }
        // The kernel refuses nothing when it runs.
        let _ = self.kernel.run(&Run { bases: &bases, profile: None, ..*run }, 0);
    }
}

by_isa! { pub(super) fn better(best: &mut [f32], other: &[f32], larger: bool) => better_body }

#[inline(always)]
unsafe fn better_body<L: Level>(best: &mut [f32], other: &[f32], larger: bool) {
    for (best, other) in best.iter_mut().zip(other) {
        *best = if larger { best.max_nan(*other) } else { best.min_nan(*other) };
    }
}

/// Whether a step reads an address once, as rows without gaps of this dtype and shape, and nothing else of it.
pub(super) fn reads(json: &FusedJson, at: At, dtype: DType, [rows, columns]: [usize; 2]) -> bool {
    let mut inputs = json.inputs.iter().filter(|i| i.at == at);
    let plain = inputs.next().is_some_and(|i| i.dtype == dtype && i.strides == [columns as isize, 1]);
    plain && inputs.next().is_none() && json.shape == [rows, columns]
}
