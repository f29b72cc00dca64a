//! Times of the steps of one run, noted by the thread that goes through them. Without a profile a step costs one branch.

use std::cell::RefCell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Numbers of a step in what [`Profile::finish`] gives.
pub const PER_STEP: usize = 3;
/// Numbers before those of the steps.
pub const HEAD: usize = 2;

/// One run under the clock.
pub struct Profile {
    began: Instant,
    /// Since the epoch, so that runs of several processes can be put side by side.
    microseconds: f64,
    steps: RefCell<Vec<[f64; PER_STEP]>>,
}

impl Profile {
    /// Begins a run of a program with so many steps, at any depth.
    pub fn begin(steps: usize) -> Profile {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let microseconds = now.as_nanos() as f64 / 1000.0;
        Profile { began: Instant::now(), microseconds, steps: RefCell::new(vec![[0.0; PER_STEP]; steps]) }
    }

    /// Notes that a step which began then has ended.
    pub(crate) fn note(&self, number: usize, began: Instant) {
        self.add(number, began, began.elapsed().as_nanos() as f64);
    }

    /// Notes that a step began then and took so long.
    pub(crate) fn add(&self, number: usize, began: Instant, nanoseconds: f64) {
        if let Some([start, total, count]) = self.steps.borrow_mut().get_mut(number) {
            if *count == 0.0 {
                *start = (began - self.began).as_nanos() as f64;
            }
            *total += nanoseconds;
            *count += 1.0;
        }
    }

    /// The run's beginning (microseconds since the epoch) and length; then of each step its first beginning, its time in
    /// all, and how often it ran. Nanoseconds.
    pub fn finish(self) -> Vec<f64> {
        let length = self.began.elapsed().as_nanos() as f64;
        let mut all = Vec::with_capacity(HEAD + PER_STEP * self.steps.borrow().len());
        all.extend([self.microseconds, length]);
        all.extend(self.steps.into_inner().into_iter().flatten());
        all
    }
}
