//! The executor: one device runs the steps of a program in order.

use std::sync::Arc;

use crate::async_collectives::{AsyncCollectives, CollectiveThread};
use crate::buffer::{Buffer, Span};
use crate::collectives::Collectives;
use crate::isa::Isa;
use crate::limits::{self, Limits};
use crate::pool::Pool;
use crate::profile::Profile;
use crate::program::Program;
pub use crate::step::Control;
use crate::step::Run;
use crate::{bail, Result};

pub struct Device {
    pub isa: Isa,
    pub coords: Vec<i32>,
    pub control: Arc<Control>,
    pool: Pool,
    collectives: Arc<dyn Collectives>,
    collective_thread: CollectiveThread,
    arena: Option<Buffer>,
    bases: Vec<*mut u8>,
}

// The base pointers are only used during `run`.
unsafe impl Send for Device {}

impl Device {
    pub fn new(threads: usize, isa: Isa, coords: Vec<i32>, collectives: Arc<dyn Collectives>) -> Device {
        let (pool, collective_thread) = (Pool::new(threads), CollectiveThread::default());
        let control = Arc::default();
        Device { isa, coords, control, pool, collectives, collective_thread, arena: None, bases: Vec::new() }
    }

    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Measures the peak rates of this device.
    pub fn limits(&self) -> Result<Limits> {
        limits::measure(&self.pool, self.isa)
    }

    /// Runs all steps. No other code may access the arguments during the run.
    pub fn run<A: Copy + Into<Span>>(&mut self, program: &Program, arguments: &[A]) -> Result<()> {
        self.run_noting(program, arguments.iter().map(|a| (*a).into()), None)
    }

    /// Runs all steps and returns their times in the form of [`Profile::finish`].
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
        if program.asynchronous {
            self.collective_thread.ensure_started()?;
        }
        self.bases.clear();
        self.bases.push(arena);
        self.bases.extend(arguments.map(|span| span.ptr));
        let abort = || self.collectives.abort("the run has ended");
        let async_collectives = AsyncCollectives::new(&self.collective_thread, &abort);
        let run = Run {
            isa: self.isa,
            pool: &self.pool,
            coords: &self.coords,
            collectives: &*self.collectives,
            control: &self.control,
            profile,
            async_collectives: &async_collectives,
            bases: &self.bases,
            extra: arena.wrapping_add(program.arena.next_multiple_of(64)),
        };
        // Declared after `run`, so that it is dropped first: a collective in flight borrows `run`.
        let _wait = async_collectives.wait_at_end();
        for (i, step) in program.block.steps.iter().enumerate() {
            if let Some(error) = self.control.aborted() {
                return Err(error.in_step(&program.name, i, step.name));
            }
            let earlier = if program.asynchronous { async_collectives.failure() } else { None };
            if let Err(error) = earlier.map_or_else(|| step.run(&run), Err) {
                // An asynchronous collective fails in a later step than its own; the error names the step that was reached.
                let error = error.in_call(step.number).in_step(&program.name, i, step.name);
                if program.collective {
                    // Other devices would wait for a call that never comes.
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
            // The old arena is freed first, so that the new arena can use its memory.
            self.arena = None;
            self.arena = Some(Buffer::new(needed)?);
        }
        Ok(self.arena.as_ref().map_or(std::ptr::null_mut(), Buffer::as_ptr))
    }
}
