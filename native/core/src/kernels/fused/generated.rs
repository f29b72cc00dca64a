//! Runs a fused step by generated kernels, where its views allow it.

use super::registers::{Operand, Register, Source};
use crate::generate::{Description, Generate, Instruction, Kernel, Prepared, View, HEAD};
use crate::step::Run;
use crate::verify::MAX_RANK;

/// The interpreter runs groups of more operands.
pub(crate) const OPERANDS: usize = 40;
/// The interpreter runs groups of shorter rows: its tiles hold several.
const SHORTEST: usize = 8;
/// Outputs of steps that touch more bytes than this are written past the caches, which would not keep them.
const STREAMED: usize = 16 << 20;
/// Elements of one task, divided by the work for each.
const TASK: usize = 128 << 10;

#[derive(Default)]
pub struct Generated {
    prepared: Option<Box<Prepared>>,
    /// Rows that one call walks, and elements of a row.
    rows: usize,
    columns: usize,
    /// Elements of rows, and rows, of one task.
    width: usize,
    height: usize,
}

impl Generated {
    pub fn new(
        total: usize,
        dims: &[usize],
        operands: &[Operand],
        registers: &[Register],
        outputs: &[(usize, usize)],
        generate: Generate,
    ) -> Generated {
        let Some(description) = describe(total, dims, operands, registers, outputs) else {
            return Generated::default();
        };
        if generate == Generate::Off {
            return Generated::default();
        }
        let columns = *dims.last().unwrap_or(&1);
        let rows = if dims.len() > 1 { dims[dims.len() - 2] } else { 1 };
        let task = (TASK / (registers.len() + outputs.len())).next_power_of_two().max(4096);
        // Parts of equal length, to whole cache lines.
        let width = columns.div_ceil(columns.div_ceil(task)).next_multiple_of(64).min(columns);
        let height = if width < columns { 1 } else { (task / columns).max(1) };
        let prepared = Some(Box::new(Prepared::new(description)));
        Generated { prepared, rows, columns, width, height: height.min(rows) }
    }

    /// Runs the step by a generated kernel; returns whether there was one.
    pub fn run(&self, dims: &[usize], operands: &[Operand], run: &Run) -> bool {
        let Some(kernel) = self.prepared.as_ref().and_then(|p| p.kernel(run.isa)) else { return false };
        let outer: usize = dims[..dims.len().saturating_sub(2)].iter().product();
        let (across, down) = (self.columns.div_ceil(self.width), self.rows.div_ceil(self.height));
        if !self.aligned(operands, run) {
            return false;
        }
        run.pool.run(outer * across * down, usize::MAX, |_, task| {
            let (column, rest) = (task % across * self.width, task / across);
            let (row, outer) = (rest % down * self.height, rest / down);
            unsafe { self.part(kernel, dims, operands, run, [outer, row, column]) };
        });
        true
    }

    /// Streaming stores need whole cache lines.
    fn aligned(&self, operands: &[Operand], run: &Run) -> bool {
        let Some(Prepared { description, .. }) = self.prepared.as_deref() else { return false };
        let at_line = |o: &Operand| o.at.is_some_and(|at| (run.ptr::<u8>(at) as usize).is_multiple_of(64));
        description.views.iter().zip(operands).all(|(view, operand)| !view.streamed || at_line(operand))
    }

    unsafe fn part(&self, kernel: &Kernel, dims: &[usize], operands: &[Operand], run: &Run, at: [usize; 3]) {
        let mut arguments = [0u64; HEAD + 2 * OPERANDS];
        let inner = dims.len() - 1;
        let mut index = [0usize; MAX_RANK];
        let [mut rest, row, column] = at;
        for d in (0..inner.saturating_sub(1)).rev() {
            index[d] = rest % dims[d];
            rest /= dims[d];
        }
        index[inner] = column;
        if inner > 0 {
            index[inner - 1] = row;
        }
        arguments[0] = self.height.min(self.rows - row) as u64;
        arguments[1] = self.width.min(self.columns - column) as u64;
        for (k, operand) in operands.iter().enumerate() {
            let size = operand.dtype.size() as isize;
            let offset: isize = (0..=inner).map(|d| index[d] as isize * operand.strides[d]).sum();
            let base = operand.at.map_or(std::ptr::null_mut(), |at| run.ptr::<u8>(at));
            arguments[HEAD + 2 * k] = base.wrapping_offset(offset * size) as u64;
            let stride = if inner > 0 { operand.strides[inner - 1] } else { 0 };
            arguments[HEAD + 2 * k + 1] = (stride * size) as u64;
        }
        kernel.call(&mut arguments);
    }
}

/// Whether a step over `total` elements touches more than caches keep.
pub(crate) fn exceeds(operands: &[Operand], total: usize) -> bool {
    operands.iter().map(|o| o.dtype.size() * total).sum::<usize>() > STREAMED
}

/// Whether output `k` of a step over `total` elements is written past the caches, `steps` being its strides between the
/// runs that are written: whole cache lines, which nothing else of the step touches.
pub(crate) fn streams<'a>(
    operands: &[Operand],
    total: usize,
    k: usize,
    mut steps: impl Iterator<Item = &'a isize>,
) -> bool {
    let (at, size) = (operands[k].at, operands[k].dtype.size());
    let alone = operands.iter().enumerate().all(|(other, o)| other == k || o.at != at);
    exceeds(operands, total) && alone && size > 2 && steps.all(|s| (s * size as isize) % 64 == 0)
}

/// The group without its sizes and addresses, if generated kernels can read and write its views.
fn describe(
    total: usize,
    dims: &[usize],
    operands: &[Operand],
    registers: &[Register],
    outputs: &[(usize, usize)],
) -> Option<Description> {
    let inner = dims.len() - 1;
    if operands.len() > OPERANDS || (dims.len() > 1 && dims[inner] < SHORTEST) || outputs.is_empty() {
        return None;
    }
    let is_output = |k: usize| outputs.iter().any(|(o, _)| *o == k);
    let mut views = Vec::with_capacity(operands.len());
    for (k, operand) in operands.iter().enumerate() {
        operand.at?;
        let stride = operand.strides[inner];
        if stride != 1 && (stride != 0 || is_output(k)) {
            return None;
        }
        let streamed = is_output(k) && streams(operands, total, k, operand.strides[..inner].iter());
        views.push(View { dtype: operand.dtype, along: stride == 1, streamed, fetched: 0, lanes: None });
    }
    let instruction = |register: &Register| match &register.source {
        Source::Input(operand) => Some(Instruction::Input(*operand)),
        Source::Constant(value) => Some(Instruction::Constant(value.bits)),
        // A divisor of zero is an error, which only the interpreter looks for.
        Source::Compute { divides: Some(_), .. } | Source::Fold(..) => None,
        Source::Compute { name, inputs, .. } => Some(Instruction::Compute(name.clone(), inputs.clone())),
    };
    let registers = registers.iter().map(|r| Some((instruction(r)?, r.dtype))).collect::<Option<_>>()?;
    Some(Description { views, registers, outputs: outputs.to_vec() })
}
