//! Scratch for the workers of a step, after the arena of the program. Its size depends on the shape of the step, not on the
//! number of threads.

use crate::step::Run;
use crate::{bail, Result};

/// Most workers of a step with such scratch.
const WORKERS: usize = 16;

pub struct Room {
    /// Bytes of one worker.
    each: usize,
    /// The most workers that may take part.
    pub workers: usize,
}

impl Room {
    /// For `tasks` tasks that use `count` values of `T` each.
    pub fn new<T>(tasks: usize, count: usize) -> Result<Room> {
        let Some(bytes) = count.checked_mul(std::mem::size_of::<T>()).filter(|bytes| *bytes < 1 << 46) else {
            bail!("{count} values of scratch are too many");
        };
        Ok(Room { each: bytes.next_multiple_of(64), workers: tasks.clamp(1, WORKERS) })
    }

    /// Bytes of all workers.
    pub fn bytes(&self) -> usize {
        self.each * self.workers
    }

    /// The memory of a worker, all of `T` that fit, with anything in it.
    ///
    /// # Safety
    /// `before` is a multiple of 64, and it and `bytes` are within what the step has as `extra`.
    pub unsafe fn of<T>(&self, run: &Run, before: usize, worker: usize) -> *mut [T] {
        let memory = run.extra.add(before + worker * self.each).cast::<T>();
        std::ptr::slice_from_raw_parts_mut(memory, self.each / std::mem::size_of::<T>())
    }
}
