//! Loops without copies of slices: what an iteration reads of a stack is read there, and what it adds to a stack is computed there. The
//! row of the iteration is a space of its own, whose base moves, and the steps that used the copy use the row.

use serde_json::Value;

use super::narrow_layer::lives::Lives;
use crate::calls::LoopJson;
use crate::fields::Read;
use crate::reader::Reader;
use crate::step::{Block, Kernel, Run};
use crate::verify::{At, InFlight};
use crate::{Error, Result};

mod accesses;
mod find;

use accesses::Steps;
use find::Row;

/// Most spaces of a program with its rows.
const SPACES: usize = 128;

/// A loop whose steps use rows.
struct Rows {
    times: i32,
    reverse: bool,
    count: At,
    rows: Vec<Row>,
    steps: Block,
}

impl Kernel for Rows {
    fn blocks(&self) -> Vec<&Block> {
        vec![&self.steps]
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let mut bases = [std::ptr::null_mut(); SPACES];
        let known = run.bases.len();
        bases[..known].copy_from_slice(run.bases);
        for i in 0..self.times {
            if let Some(error) = run.control.aborted() {
                return Err(error);
            }
            let count = if self.reverse { self.times - 1 - i } else { i };
            unsafe { *run.ptr::<i32>(self.count) = count };
            for (row, base) in self.rows.iter().zip(&mut bases[known..]) {
                *base = run.ptr::<u8>(row.stack).wrapping_add(count as usize * row.bytes);
            }
            let moved = Run { bases: &bases[..known + self.rows.len()], ..*run };
            self.steps.run(&moved).map_err(|e: Error| e.in_iteration(count))?;
        }
        Ok(())
    }
}

/// In the place of a kernel that another one does the work of.
pub(super) struct Nothing;

impl Kernel for Nothing {
    fn run(&self, _run: &Run, _step: usize) -> Result<()> {
        Ok(())
    }
}

/// Lets the outermost loops use rows where they copy slices. `calls`: those of the outermost steps, or none.
pub(crate) fn join(block: &mut Block, calls: &[Value], reader: &Reader) {
    for (place, call) in calls.iter().enumerate().filter(|(_, call)| call["k"] == "loop") {
        let lives = Lives::new(block, &reader.log);
        if let Some(rows) = moving(&lives, place, block.steps[place].number, call, reader) {
            block.steps[place].kernel = Box::new(rows);
        }
    }
}

/// The loop with rows, if it copies slices that need no copy.
fn moving(lives: &Lives, place: usize, number: usize, call: &Value, reader: &Reader) -> Option<Rows> {
    let mut fields = call.clone();
    fields.as_object_mut()?.remove("k");
    let LoopJson { count, reverse, out, test: None, mut steps, .. } = LoopJson::read(fields).ok()? else { return None };
    let mut accesses = Steps::new(lives, place, number, &steps)?;
    let times = count?;
    let rows = find::rows(lives, place, (times, out), &mut steps, &mut accesses, reader.spaces.len());
    if rows.is_empty() || reader.spaces.len() + rows.len() > SPACES {
        return None;
    }
    let spaces: Vec<usize> = reader.spaces.iter().copied().chain(rows.iter().map(|(_, row)| row.bytes)).collect();
    let mut inner = Reader {
        spaces: &spaces,
        written: &mut vec![false; spaces.len() - 1],
        next: number + 1,
        depth: 1,
        generate: reader.generate,
        in_flight: InFlight::default(),
        load: reader.load,
        log: Vec::new(),
    };
    let mut steps = inner.block(steps).ok()?;
    for (step, _) in &rows {
        steps.steps[*step].kernel = Box::new(Nothing);
    }
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    Some(Rows { times: i32::try_from(times).ok()?, reverse, count: out, rows, steps })
}
