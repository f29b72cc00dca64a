//! The executor: one device runs the steps of a program in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::buffer::{Buffer, Span};
use crate::control::{Block, Branch, Loop};
use crate::dtype::DType;
use crate::flights::{Courier, Leg};
use crate::isa::Isa;
use crate::kernels::attention::gradient::AttentionGrad;
use crate::kernels::attention::Attention;
use crate::kernels::collective::{AxisIndex, Collective};
use crate::kernels::conv::{Conv, ConvFilter};
use crate::kernels::conv_groups::{ConvGroups, ConvGroupsFilter};
use crate::kernels::dot::Dot;
use crate::kernels::factor::Factor;
use crate::kernels::fft::Fft;
use crate::kernels::fused::Fused;
use crate::kernels::index::{DynamicSlice, Gather, ScatterAdd};
use crate::kernels::random::RandomBits;
use crate::kernels::reduce::{ArgMax, Reduce};
use crate::kernels::rows::columns::FusedColumns;
use crate::kernels::rows::FusedRows;
use crate::kernels::scatter::Scatter;
use crate::kernels::softmax::CrossEntropy;
use crate::kernels::sort::{Sort, TopK};
use crate::kernels::transfer::Transfer;
use crate::kernels::window::Window;
use crate::limits::{self, Limits};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::{CollectiveOp, Program, ReduceOp, StepJson};
use crate::verify::{At, Checker};
use crate::{bail, Error, Fault, Result};

/// What kernels see of a run.
pub struct Run<'a> {
    pub isa: Isa,
    pub pool: &'a Pool,
    pub coords: &'a [i32],
    pub collectives: &'a dyn Collectives,
    pub(crate) control: &'a Control,
    pub(crate) profile: Option<&'a Profile>,
    /// What carries collectives beside other steps.
    pub(crate) leg: &'a Leg<'a>,
    pub(crate) bases: &'a [*mut u8],
    /// Room for partial results, as much as the step asked for by `extra()`.
    pub(crate) extra: *mut u8,
}

// Kernels write disjoint parts from several threads; verification has checked the bounds.
unsafe impl Sync for Run<'_> {}

impl Run<'_> {
    pub(crate) fn ptr<T>(&self, at: At) -> *mut T {
        self.bases[at.space as usize].wrapping_add(at.offset).cast()
    }
}

/// One tensor of a collective.
pub struct Part<'a> {
    pub input: *const u8,
    pub output: &'a mut [u8],
    pub input_bytes: usize,
}

/// A call that all members of a mesh axis make together. All parts travel as one message.
pub struct Call<'a> {
    pub op: CollectiveOp,
    pub axis: usize,
    pub reduction: ReduceOp,
    pub dtype: DType,
    pub label: &'a str,
    /// Ordinal of the step in its program, for fingerprints.
    pub step: usize,
    /// Members and counts of elements, sent and received, of an exchange.
    pub exchange: Option<&'a (Counts, Counts)>,
}

/// Positions on the axis with counts of elements.
pub type Counts = Vec<(usize, usize)>;

/// Which way values travel along a mesh axis, and the coordinate there of the other device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    To(usize),
    From(usize),
}

/// A call that two devices of a mesh axis make. Of its parts, the sender's have inputs, the receiver's outputs.
pub struct TransferCall<'a> {
    pub way: Way,
    pub axis: usize,
    pub dtype: DType,
    pub label: &'a str,
}

/// What carries collectives: one group per mesh axis.
pub trait Collectives: Send + Sync {
    /// Members of an axis, or `None` if the device has no such axis.
    fn size(&self, axis: usize) -> Option<usize>;
    fn run(&self, call: &Call, parts: &mut [Part]) -> Result<()>;
    fn transfer(&self, call: &TransferCall, parts: &mut [Part]) -> Result<()>;
    /// Ends waits of calls in flight with an error.
    fn abort(&self, reason: &str);
}

/// Every axis has one member.
pub struct Alone;

impl Collectives for Alone {
    fn size(&self, _axis: usize) -> Option<usize> {
        Some(1)
    }

    fn transfer(&self, call: &TransferCall, _parts: &mut [Part]) -> Result<()> {
        bail!("{:?} on axis {}: there is no other device", call.way, call.axis)
    }

    fn run(&self, _call: &Call, parts: &mut [Part]) -> Result<()> {
        for part in parts {
            // In and out may be the same memory.
            unsafe { std::ptr::copy(part.input, part.output.as_mut_ptr(), part.input_bytes.min(part.output.len())) };
        }
        Ok(())
    }

    fn abort(&self, _reason: &str) {}
}

pub(crate) enum Step {
    Fused(Fused),
    FusedRows(FusedRows),
    FusedColumns(FusedColumns),
    Reduce(Reduce),
    ArgMax(ArgMax),
    Dot(Dot),
    Conv(Conv),
    ConvFilter(ConvFilter),
    ConvGroups(ConvGroups),
    ConvGroupsFilter(ConvGroupsFilter),
    Window(Window),
    Gather(Gather),
    ScatterAdd(ScatterAdd),
    Scatter(Scatter),
    DynamicSlice(DynamicSlice),
    RandomBits(RandomBits),
    Sort(Sort),
    TopK(TopK),
    Fft(Fft),
    Factor(Factor),
    CrossEntropy(CrossEntropy),
    Attention(Box<Attention>),
    AttentionGrad(Box<AttentionGrad>),
    AxisIndex(AxisIndex),
    Collective(Collective),
    Transfer(Transfer),
    Wait(u32),
    Loop(Box<Loop>),
    Branch(Box<Branch>),
}

impl Step {
    pub(crate) fn new(json: StepJson, checker: Checker) -> Result<Step> {
        use crate::kernels::window::Kind;
        Ok(match json {
            StepJson::Fused(json) => Step::Fused(Fused::new(&json, checker)?),
            StepJson::FusedRows(json) => Step::FusedRows(FusedRows::new(&json, checker)?),
            StepJson::FusedColumns(json) => Step::FusedColumns(FusedColumns::new(&json, checker)?),
            StepJson::Reduce(json) => Step::Reduce(Reduce::new(&json, checker)?),
            StepJson::ArgMax(json) => Step::ArgMax(ArgMax::new(&json, checker)?),
            StepJson::Dot(json) => Step::Dot(Dot::new(&json, checker)?),
            StepJson::Conv(json) => Step::Conv(Conv::new(&json, checker)?),
            StepJson::ConvFilter(json) => Step::ConvFilter(ConvFilter::new(&json, checker)?),
            StepJson::ConvGroups(json) => Step::ConvGroups(ConvGroups::new(&json, checker)?),
            StepJson::ConvGroupsFilter(json) => Step::ConvGroupsFilter(ConvGroupsFilter::new(&json, checker)?),
            StepJson::ReduceWindow(json) => Step::Window(Window::new(Kind::Reduce, &json, checker)?),
            StepJson::SelectAndScatter(json) => Step::Window(Window::new(Kind::Scatter, &json, checker)?),
            StepJson::WindowTake(json) => Step::Window(Window::new(Kind::Take, &json, checker)?),
            StepJson::Gather(json) => Step::Gather(Gather::new(&json, checker)?),
            StepJson::ScatterAdd(json) => Step::ScatterAdd(ScatterAdd::new(&json, checker)?),
            StepJson::Scatter(json) => Step::Scatter(Scatter::new(&json, checker)?),
            StepJson::DynamicSlice(json) => Step::DynamicSlice(DynamicSlice::new(&json, false, checker)?),
            StepJson::DynamicUpdateSlice(json) => Step::DynamicSlice(DynamicSlice::new(&json, true, checker)?),
            StepJson::RandomBits(json) => Step::RandomBits(RandomBits::new(&json, checker)?),
            StepJson::Sort(json) => Step::Sort(Sort::new(json, checker)?),
            StepJson::TopK(json) => Step::TopK(TopK::new(&json, checker)?),
            StepJson::Fft(json) => Step::Fft(Fft::new(json, checker)?),
            StepJson::Factor(json) => Step::Factor(Factor::new(&json, checker)?),
            StepJson::SoftmaxCrossEntropy(json) => Step::CrossEntropy(CrossEntropy::new(&json, false, checker)?),
            StepJson::SoftmaxCrossEntropyGrad(json) => Step::CrossEntropy(CrossEntropy::new(&json, true, checker)?),
            StepJson::Attention(json) => Step::Attention(Box::new(Attention::new(&json, checker)?)),
            StepJson::AttentionGrad(json) => Step::AttentionGrad(Box::new(AttentionGrad::new(&json, checker)?)),
            StepJson::AxisIndex(json) => Step::AxisIndex(AxisIndex::new(&json, checker)?),
            StepJson::Collective(json) => Step::Collective(Collective::new(json, checker)?),
            StepJson::Send(json) => Step::Transfer(Transfer::send(json, checker)?),
            StepJson::Receive(json) => Step::Transfer(Transfer::receive(json, checker)?),
            StepJson::Loop(_) | StepJson::Branch(_) | StepJson::Wait(_) => {
                bail!("is read with the steps that it holds")
            }
        })
    }

    /// Bytes of partial results the step needs.
    pub(crate) fn extra(&self) -> usize {
        match self {
            Step::Reduce(step) => step.extra,
            Step::FusedColumns(step) => step.extra,
            Step::Dot(step) => step.extra,
            Step::Fft(step) => step.extra(),
            Step::Sort(step) => step.extra(),
            Step::TopK(step) => step.extra(),
            Step::Factor(step) => step.extra(),
            _ => self.blocks().iter().map(|block| block.extra()).max().unwrap_or(0),
        }
    }

    /// The steps that it holds.
    pub(crate) fn blocks(&self) -> Vec<&Block> {
        match self {
            Step::Loop(step) => vec![&step.condition, &step.steps],
            Step::Branch(step) => vec![&step.steps, &step.otherwise],
            _ => Vec::new(),
        }
    }

    pub(crate) fn run(&self, run: &Run, number: usize) -> Result<()> {
        // The one step whose time another thread takes.
        if let Step::Collective(step @ Collective { flight: Some((flight, op)), .. }) = self {
            run.leg.start(step, run, number, *op, *flight);
            return Ok(());
        }
        let Some(profile) = run.profile else { return self.call(run, number) };
        let began = Instant::now();
        let result = self.call(run, number);
        profile.note(number, began);
        result
    }

    fn call(&self, run: &Run, index: usize) -> Result<()> {
        match self {
            Step::Fused(step) => step.run(run),
            Step::FusedRows(step) => step.run(run),
            Step::FusedColumns(step) => step.run(run),
            Step::Reduce(step) => step.run(run),
            Step::ArgMax(step) => step.run(run),
            Step::Dot(step) => step.run(run),
            Step::Conv(step) => step.run(run),
            Step::ConvFilter(step) => step.run(run),
            Step::ConvGroups(step) => step.run(run),
            Step::ConvGroupsFilter(step) => step.run(run),
            Step::Window(step) => step.run(run),
            Step::Gather(step) => step.run(run),
            Step::ScatterAdd(step) => step.run(run),
            Step::Scatter(step) => step.run(run),
            Step::DynamicSlice(step) => step.run(run),
            Step::RandomBits(step) => step.run(run),
            Step::Sort(step) => step.run(run),
            Step::TopK(step) => step.run(run),
            Step::Fft(step) => step.run(run),
            Step::Factor(step) => step.run(run),
            Step::CrossEntropy(step) => step.run(run),
            Step::Attention(step) => step.run(run),
            Step::AttentionGrad(step) => step.run(run),
            Step::AxisIndex(step) => step.run(run),
            Step::Collective(step) => step.run(run, index),
            Step::Transfer(step) => step.run(run),
            Step::Wait(flight) => run.leg.wait(*flight, run),
            Step::Loop(step) => step.run(run),
            Step::Branch(step) => step.run(run),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Fused(_) => "fused",
            Step::FusedRows(_) => "fusedRows",
            Step::FusedColumns(_) => "fusedColumns",
            Step::Reduce(_) => "reduce",
            Step::ArgMax(_) => "argMax",
            Step::Dot(_) => "dot",
            Step::Conv(_) => "conv",
            Step::ConvFilter(_) => "convFilter",
            Step::ConvGroups(_) => "convGroups",
            Step::ConvGroupsFilter(_) => "convGroupsFilter",
            Step::Window(step) => step.name(),
            Step::Gather(_) => "gather",
            Step::ScatterAdd(_) => "scatterAdd",
            Step::Scatter(_) => "scatter",
            Step::DynamicSlice(_) => "dynamicSlice",
            Step::RandomBits(_) => "randomBits",
            Step::Sort(_) => "sort",
            Step::TopK(_) => "topK",
            Step::Fft(_) => "fft",
            Step::Factor(_) => "factor",
            Step::CrossEntropy(step) => step.name(),
            Step::Attention(_) => "attention",
            Step::AttentionGrad(_) => "attentionGrad",
            Step::AxisIndex(_) => "axisIndex",
            Step::Collective(_) => "collective",
            Step::Transfer(step) => step.name(),
            Step::Wait(_) => "wait",
            Step::Loop(_) => "loop",
            Step::Branch(_) => "branch",
        }
    }
}

/// The part of a device that other threads may touch while it runs.
#[derive(Default)]
pub struct Control {
    aborted: AtomicBool,
    reason: Mutex<String>,
}

impl Control {
    pub fn abort(&self, reason: &str) {
        *self.reason.lock().unwrap_or_else(|e| e.into_inner()) = reason.to_string();
        self.aborted.store(true, Ordering::Release);
    }

    pub fn aborted(&self) -> Option<Error> {
        if !self.aborted.load(Ordering::Acquire) {
            return None;
        }
        let reason = self.reason.lock().unwrap_or_else(|e| e.into_inner());
        Some(Fault::Aborted { reason: reason.clone() }.into())
    }
}

pub struct Device {
    pub isa: Isa,
    pub coords: Vec<i32>,
    pub control: Arc<Control>,
    pool: Pool,
    collectives: Arc<dyn Collectives>,
    courier: Courier,
    arena: Option<Buffer>,
    bases: Vec<*mut u8>,
}

// The base pointers are only used during `run`.
unsafe impl Send for Device {}

impl Device {
    pub fn new(threads: usize, isa: Isa, coords: Vec<i32>, collectives: Arc<dyn Collectives>) -> Device {
        let pool = Pool::new(threads);
        let (control, courier) = (Arc::default(), Courier::default());
        Device { isa, coords, control, pool, collectives, courier, arena: None, bases: Vec::new() }
    }

    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Measures what this device could do at most.
    pub fn limits(&self) -> Result<Limits> {
        limits::measure(&self.pool, self.isa)
    }

    /// Runs all steps. The arguments must not be touched by others meanwhile.
    pub fn run<A: Copy + Into<Span>>(&mut self, program: &Program, arguments: &[A]) -> Result<()> {
        self.run_noting(program, arguments.iter().map(|a| (*a).into()), None)
    }

    /// Runs all steps and gives their times, as [`Profile::finish`] does.
    pub fn profile<A: Copy + Into<Span>>(&mut self, program: &Program, arguments: &[A]) -> Result<Vec<f64>> {
        let profile = Profile::begin(program.steps);
        self.run_noting(program, arguments.iter().map(|a| (*a).into()), Some(&profile))?;
        Ok(profile.finish())
    }

    fn run_noting(
        &mut self,
        program: &Program,
        arguments: impl ExactSizeIterator<Item = Span> + Clone,
        profile: Option<&Profile>,
    ) -> Result<()> {
        if arguments.len() != program.buffers.len() {
            bail!("{}: takes {} buffers, got {}", program.name, program.buffers.len(), arguments.len());
        }
        for (i, (span, bytes)) in arguments.clone().zip(&program.buffers).enumerate() {
            if span.len < *bytes {
                bail!("{}: buffer {i} has {} bytes, {bytes} are needed", program.name, span.len);
            }
            let shared = arguments.clone().take(i).position(|other| other.overlaps(span));
            if let Some(j) = shared.filter(|j| program.written[i] || program.written[*j]) {
                bail!("{}: arguments {j} and {i} are the same buffer, and the program writes it", program.name);
            }
        }
        let arena = self.arena(program.arena, program.extra)?;
        if program.flies {
            self.courier.ready()?;
        }
        self.bases.clear();
        self.bases.push(arena);
        self.bases.extend(arguments.map(|span| span.ptr));
        let abort = || self.collectives.abort("the run has ended");
        let leg = Leg::new(&self.courier, &abort);
        let run = Run {
            isa: self.isa,
            pool: &self.pool,
            coords: &self.coords,
            collectives: &*self.collectives,
            control: &self.control,
            profile,
            leg: &leg,
            bases: &self.bases,
            extra: arena.wrapping_add(program.arena.next_multiple_of(64)),
        };
        // Declared after `run`, so that it waits before `run` is gone: the courier may still read it.
        let _rest = leg.rest_at_end();
        for (i, (number, step)) in program.block.steps.iter().enumerate() {
            if let Some(error) = self.control.aborted() {
                return Err(error.in_step(&program.name, i, step.name()));
            }
            let earlier = if program.flies { leg.failure() } else { None };
            if let Err(error) = earlier.map_or_else(|| step.run(&run, *number), Err) {
                // A collective under way fails in a later step than its own; what was written by then is what counts.
                let error = error.in_call(*number).in_step(&program.name, i, step.name());
                if program.collective {
                    // The others would wait for a call that never comes.
                    run.collectives.abort(&error.to_string());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn arena(&mut self, bytes: usize, extra: usize) -> Result<*mut u8> {
        let needed = bytes.next_multiple_of(64) + extra;
        if self.arena.as_ref().is_none_or(|a| a.len() < needed) {
            // The old one goes first, so that its memory can serve the new one.
            self.arena = None;
            self.arena = Some(Buffer::new(needed)?);
        }
        Ok(self.arena.as_ref().map_or(std::ptr::null_mut(), Buffer::as_ptr))
    }
}
