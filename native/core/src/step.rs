//! The steps of a program that is ready to run, and what the kernels of steps see of a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use crate::async_collectives::AsyncCollectives;
use crate::collectives::Collectives;
use crate::isa::Isa;
use crate::pool::Pool;
use crate::profile::Profile;
use crate::verify::At;
use crate::{Error, Fault, Result};

/// The state of a run that kernels see.
pub struct Run<'a> {
    pub isa: Isa,
    pub pool: &'a Pool,
    pub coords: &'a [i32],
    pub collectives: &'a dyn Collectives,
    pub(crate) control: &'a Control,
    pub(crate) profile: Option<&'a Profile>,
    pub(crate) async_collectives: &'a AsyncCollectives<'a>,
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

/// One call of a program. The call was verified when the kernel was made; `run` relies on that.
pub(crate) trait Kernel: Send + Sync {
    /// `step` is the number of the step among all steps of the program.
    fn run(&self, run: &Run, step: usize) -> Result<()>;

    /// Bytes of partial results that the kernel needs.
    fn extra(&self) -> usize {
        self.blocks().iter().map(|block| block.extra()).max().unwrap_or(0)
    }

    /// The blocks of steps of a loop or branch.
    fn blocks(&self) -> Vec<&Block> {
        Vec::new()
    }

    /// Whether other devices take part.
    fn communicates(&self) -> bool {
        false
    }

    /// Whether the kernel waits for an asynchronous collective.
    fn waits(&self) -> bool {
        false
    }

    /// Whether the kernel starts an asynchronous collective, whose time another thread takes.
    fn starts(&self) -> bool {
        false
    }
}

pub(crate) struct Step {
    pub name: &'static str,
    /// The number of the step among all steps of the program.
    pub number: usize,
    pub kernel: Box<dyn Kernel>,
}

impl Step {
    pub(crate) fn run(&self, run: &Run) -> Result<()> {
        let Some(profile) = run.profile.filter(|_| !self.kernel.starts()) else {
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

/// Steps in order.
#[derive(Default)]
pub(crate) struct Block {
    pub steps: Vec<Step>,
}

impl Block {
    pub fn run(&self, run: &Run) -> Result<()> {
        for step in &self.steps {
            if let Some(error) = run.control.aborted() {
                return Err(error);
            }
            step.run(run).map_err(|e| e.in_call(step.number))?;
        }
        Ok(())
    }

    /// Whether the condition holds for some kernel, nested ones included.
    pub fn any(&self, wanted: &dyn Fn(&dyn Kernel) -> bool) -> bool {
        let holds = |kernel: &dyn Kernel| wanted(kernel) || kernel.blocks().iter().any(|block| block.any(wanted));
        self.steps.iter().any(|step| holds(&*step.kernel))
    }

    /// The most bytes of partial results that a step needs.
    pub fn extra(&self) -> usize {
        self.steps.iter().map(|step| step.kernel.extra()).max().unwrap_or(0)
    }
}
