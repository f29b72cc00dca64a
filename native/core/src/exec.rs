//! The executor: one device runs the steps of a program in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::buffer::{Buffer, Span};
use crate::control::{Block, Reader};
use crate::dtype::DType;
use crate::fields::Fields;
use crate::flights::{Courier, Leg};
use crate::isa::Isa;
use crate::limits::{self, Limits};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::{CollectiveOp, Program, ReduceOp};
use crate::verify::At;
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

/// One call of a program: verified when it was made, which `run` relies on.
pub(crate) trait Kernel: Send + Sync {
    /// `step` is its number among all steps of the program.
    fn run(&self, run: &Run, step: usize) -> Result<()>;

    /// Bytes of partial results that it needs.
    fn extra(&self) -> usize {
        self.blocks().iter().map(|block| block.extra()).max().unwrap_or(0)
    }

    /// The steps that it holds.
    fn blocks(&self) -> Vec<&Block> {
        Vec::new()
    }

    /// Whether other devices take part.
    fn communicates(&self) -> bool {
        false
    }

    /// Whether it ends what is under way.
    fn lands(&self) -> bool {
        false
    }

    /// Whether another thread takes its time.
    fn departs(&self) -> bool {
        false
    }
}

/// Makes a step of the fields of its call.
pub(crate) type Load = fn(&mut Fields, &mut Reader) -> Result<Box<dyn Kernel>>;

/// The kernels of a module by name, each with what makes it of what its call holds, once all that it touches has been checked;
/// some ask the reader for more.
macro_rules! kernels {
    (@make $call:ident $reader:ident, $make:expr) => { $make($call) };
    (@make $call:ident $reader:ident, $make:expr, reader) => { $make($call, $reader) };
    ($($name:ident $(($more:ident))? = $make:expr;)*) => {
        pub(crate) const KERNELS: &[(&str, crate::exec::Load)] = &[
            $((stringify!($name), |fields, reader| {
                let call = crate::fields::Take::take(fields)?;
                reader.check(|checker| crate::calls::operands::$name(&call, checker))?;
                Ok(Box::new(crate::exec::kernels!(@make call reader, $make $(, $more)?)?))
            })),*
        ];
    };
}
pub(crate) use kernels;

pub(crate) struct Step {
    pub name: &'static str,
    /// Its number among all steps of the program.
    pub number: usize,
    pub kernel: Box<dyn Kernel>,
}

impl Step {
    pub(crate) fn run(&self, run: &Run) -> Result<()> {
        let Some(profile) = run.profile.filter(|_| !self.kernel.departs()) else {
            return self.kernel.run(run, self.number);
        };
        let began = Instant::now();
        let result = self.kernel.run(run, self.number);
        profile.note(self.number, began);
        result
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
        for (i, step) in program.block.steps.iter().enumerate() {
            if let Some(error) = self.control.aborted() {
                return Err(error.in_step(&program.name, i, step.name));
            }
            let earlier = if program.flies { leg.failure() } else { None };
            if let Err(error) = earlier.map_or_else(|| step.run(&run), Err) {
                // A collective under way fails in a later step than its own; what was written by then is what counts.
                let error = error.in_call(step.number).in_step(&program.name, i, step.name);
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
