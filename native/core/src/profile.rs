//! Times of the steps of one run, noted by the thread that runs them. Without a profile a step costs one branch.

use std::cell::RefCell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Numbers per step in the result of [`Profile::finish`].
pub const PER_STEP: usize = 3;
/// Numbers before the numbers of the steps.
pub const HEAD: usize = 2;

/// The times of one run.
pub struct Profile {
    began: Instant,
    /// Since the epoch, so that runs of several processes can be compared.
    microseconds: f64,
    steps: RefCell<Vec<[f64; PER_STEP]>>,
}

impl Profile {
    /// Begins a run of a program with this many steps, nested steps included.
    pub fn begin(steps: usize) -> Profile {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let microseconds = now.as_nanos() as f64 / 1000.0;
        Profile { began: Instant::now(), microseconds, steps: RefCell::new(vec![[0.0; PER_STEP]; steps]) }
    }

    /// Notes that a step, which began at `began`, ends now.
    pub(crate) fn note(&self, number: usize, began: Instant) {
        self.add(number, began, began.elapsed().as_nanos() as f64);
    }

    /// Notes that a step began at `began` and took this time.
    pub(crate) fn add(&self, number: usize, began: Instant, nanoseconds: f64) {
        if let Some([start, total, count]) = self.steps.borrow_mut().get_mut(number) {
            if *count == 0.0 {
                *start = (began - self.began).as_nanos() as f64;
            }
            *total += nanoseconds;
            *count += 1.0;
        }
    }

    /// The start of the run (microseconds since the epoch) and its length; then for each step its first start since that of
    /// the run, its total time, and how often it ran. Times without a unit are in nanoseconds.
    pub fn finish(self) -> Vec<f64> {
        let length = self.began.elapsed().as_nanos() as f64;
        let mut all = Vec::with_capacity(HEAD + PER_STEP * self.steps.borrow().len());
        all.extend([self.microseconds, length]);
        all.extend(self.steps.into_inner().into_iter().flatten());
        all
    }
}
