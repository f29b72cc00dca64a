//! Finds the layers of a program.

use std::sync::Arc;

use serde_json::Value;

use super::layer::{Layer, Part};
use super::lives::Lives;
use super::rect::{reads, Rect};
use crate::calls::{FusedJson, NarrowDotJson};
use crate::dtype::DType;
use crate::fields::{Fields, Take};
use crate::kernels::loop_views::Nothing;
use crate::kernels::narrow::NarrowDot;
use crate::kernels::narrow_weights::tiles::{DEPTH, STEP};
use crate::reader::Reader;
use crate::step::Block;

/// Columns that a thread turns into results at once, and most sums of them.
const WIDEST: usize = 256;
const MOST_SUMS: usize = 1 << 16;

/// Lets the steps of layers run as one. `calls`: those of the outermost steps.
pub(super) fn join(block: &mut Block, calls: &[Value], reader: &Reader) {
    let mut layers = Vec::new();
    let lives = Lives::new(block, &reader.log);
    for (product, call) in calls.iter().enumerate().filter(|(_, call)| call["k"] == "narrowDot") {
        layers.extend(layer(&lives, calls, product, call, reader));
    }
    for (steps, layer) in layers {
        let layer = Arc::new(layer);
        for (i, step) in steps.iter().enumerate() {
            let to = &mut block.steps[*step].kernel;
            let kernel = std::mem::replace(to, Box::new(Nothing));
            *to = Box::new(Part { layer: layer.clone(), kernel, last: i + 1 == steps.len() });
        }
    }
}

fn taken<T: Take>(call: &Value) -> Option<T> {
    let mut fields = Fields::of(call.clone()).ok()?;
    T::take(&mut fields).ok()
}

/// The layer of a product, and its steps.
fn layer(lives: &Lives, calls: &[Value], product: usize, call: &Value, reader: &Reader) -> Option<(Vec<usize>, Layer)> {
    let dot = NarrowDot::new(taken::<NarrowDotJson>(call)?).ok()?;
    let NarrowDotJson { b, m, n, k2: k, ref x, ref out, .. } = dot.call;
    let sums = lives.at(product, "out")?;
    if b != 1 || dot.call.dtype != DType::I32 || out.strides[1..] != [n as isize, 1] {
        return None;
    }
    let last = (product + 1..lives.steps()).find(|step| lives.of(*step).any(|r| r.overlaps(sums)))?;
    let follows: FusedJson =
        taken(&calls[last]).filter(|_| calls[last]["k"] == "fusedRows" || calls[last]["k"] == "fused")?;
    let once = lives.of(last).filter(|r| r.role.reads() && r.overlaps(sums)).count() == 1;
    // The rows are packed before the last step writes, all else is read while it does.
    let spoiled = |step: usize, rows: bool| {
        lives.spoils(step, lives.of(product).filter(|r| r.role.reads() && (r.name == "x") == rows))
    };
    if !once || !reads(&follows, out.at, DType::I32, [m, n]) || !lives.dead(sums, last + 1, last) {
        return None;
    }
    if (product + 1..=last).any(|step| spoiled(step, false)) {
        return None;
    }
    let widths = [WIDEST, 128, 64, 32].into_iter().filter(|width| n % width == 0 && m * width <= MOST_SUMS);
    let after: Vec<(usize, Rect)> = widths
        .filter_map(|width| Some((width, Rect::new(taken(&calls[last])?, [m, width], out.at, reader)?)))
        .collect();
    let mut steps = vec![product, last];
    let before = quantising(lives, calls, product, last).and_then(|(first, json)| {
        let depth = (1..=DEPTH).rev().find(|depth| k % (depth * STEP) == 0 && m % 16 == 0)?;
        let rect = Rect::new(json, [16, depth * STEP], x.at, reader).filter(|rect| rect.folds.is_empty())?;
        steps.insert(0, first);
        Some((depth, rect))
    });
    if after.is_empty() || (before.is_none() && (product + 1..last).any(|step| spoiled(step, true))) {
        return None;
    }
    Some((steps, Layer { dot, before, after }))
}

/// The step that makes the bytes of a product and nothing else, where it may run as late as `last`.
fn quantising(lives: &Lives, calls: &[Value], product: usize, last: usize) -> Option<(usize, FusedJson)> {
    let bytes = lives.at(product, "x")?;
    let first = (0..product).rev().find(|step| lives.of(*step).any(|r| !r.role.reads() && r.overlaps(bytes)))?;
    let json: FusedJson = taken(&calls[first]).filter(|_| calls[first]["k"] == "fused")?;
    let dot: NarrowDotJson = taken(&calls[product])?;
    let [out] = &json.outputs[..] else { return None };
    let rows = [dot.k2 as isize, 1];
    let same = out.at == dot.x.at && out.dtype == dot.x.dtype && out.strides == rows && dot.x.strides[1..] == rows;
    let held = || lives.of(first).filter(|r| r.role.reads());
    let kept = (first + 1..last).filter(|step| *step != product).all(|step| !lives.spoils(step, held()));
    let unread = lives.dead(bytes, first + 1, product);
    (same && json.shape == [dot.m, dot.k2] && kept && unread).then_some((first, json))
}
