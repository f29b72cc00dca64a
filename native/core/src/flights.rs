//! Collectives under way beside other steps: what may not be touched meanwhile, and the thread that carries them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::exec::Run;
use crate::kernels::collective::Collective;
use crate::verify::Region;
use crate::{bail, Error, Result};

/// One that a program has started and not waited for.
struct Flight {
    number: u32,
    /// The step that started it, for people.
    op: usize,
    regions: Vec<Region>,
}

/// What is under way at the step that is being verified.
#[derive(Default)]
pub struct Flights {
    under_way: Vec<Flight>,
    /// Ordinal of the step among those that may start one; nothing inside a loop or branch.
    pub(crate) outermost: Option<usize>,
}

impl Flights {
    /// Refuses a step that writes what a collective under way reads or writes, or reads what one writes.
    pub(crate) fn check(&self, regions: &[Region]) -> Result<()> {
        for flight in &self.under_way {
            for held in &flight.regions {
                if let Some(region) = regions.iter().find(|region| region.collides(held)) {
                    bail!("{region} meets {held} of op {}, which is still under way", flight.op);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn depart(&mut self, number: u32, regions: Vec<Region>) -> Result<()> {
        let Some(op) = self.outermost else { bail!("a collective in a loop or branch runs in its place") };
        if let Some(flight) = self.under_way.iter().find(|flight| flight.number == number) {
            bail!("flight {number} of op {} is still under way", flight.op);
        }
        self.under_way.push(Flight { number, op, regions });
        Ok(())
    }

    pub(crate) fn land(&mut self, number: u32) -> Result<()> {
        let place = self.under_way.iter().position(|flight| flight.number == number && self.outermost.is_some());
        match place {
            Some(place) => drop(self.under_way.remove(place)),
            None => bail!("flight {number} is not under way"),
        }
        Ok(())
    }

    /// At the end of a program.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.under_way.first() {
            Some(flight) => bail!("nothing waits for flight {} of op {}", flight.number, flight.op),
            None => Ok(()),
        }
    }
}

/// A collective that another thread is to carry. The pointers hold until the courier is at rest.
struct Task {
    collective: *const Collective,
    run: *const Run<'static>,
    /// Number of the step among all steps, and among the outermost ones.
    step: usize,
    op: usize,
    flight: u32,
}

// SAFETY: what a task points to may be used from several threads (`Run` is `Sync`, a collective is plain data), and lives
// until the courier is at rest: `Rest` sees to that.
unsafe impl Send for Task {}

/// What became of a task.
struct Landed {
    flight: u32,
    op: usize,
    step: usize,
    /// Its beginning and nanoseconds, of a run under the clock.
    time: Option<(Instant, f64)>,
    result: Result<()>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    carrying: bool,
    landed: Vec<Landed>,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    failed: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        while !state.stop {
            let Some(task) = state.queue.pop_front() else {
                state = self.wait(state);
                continue;
            };
            state.carrying = true;
            drop(state);
            // SAFETY: see `Task`.
            let (collective, run) = unsafe { (&*task.collective, &*task.run) };
            let began = run.profile.map(|_| Instant::now());
            let carry = || collective.carry(run, task.step);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(carry))
                .unwrap_or_else(|_| Err(Error::new("a collective panicked")));
            let time = began.map(|began| (began, began.elapsed().as_nanos() as f64));
            state = self.lock();
            state.carrying = false;
            if result.is_err() {
                self.failed.store(true, Ordering::Release);
            }
            let Task { flight, op, step, .. } = task;
            state.landed.push(Landed { flight, op, step, time, result });
            self.changed.notify_all();
        }
    }
}

/// A thread that carries collectives one after another, in the order in which they were started.
#[derive(Default)]
pub(crate) struct Courier {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Courier {
    /// Starts the thread where there is none yet.
    pub(crate) fn ready(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("heddle-courier".into()).stack_size(1 << 20);
            let started = builder.spawn(move || shared.serve());
            *thread = Some(started.map_err(|e| Error::new(format!("cannot start a thread for collectives: {e}")))?);
        }
        Ok(())
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// The courier's part in one run.
pub(crate) struct Leg<'a> {
    courier: &'a Courier,
    /// Ends waits of what is under way.
    abort: &'a dyn Fn(),
}

impl<'a> Leg<'a> {
    pub(crate) fn new(courier: &'a Courier, abort: &'a dyn Fn()) -> Leg<'a> {
        Leg { courier, abort }
    }

    /// What has the courier at rest again when it is gone, however the run ends.
    pub(crate) fn rest_at_end(&self) -> Rest<'_> {
        Rest(self)
    }

    /// Hands a collective over.
    pub(crate) fn start(&self, collective: &Collective, run: &Run, step: usize, op: usize, flight: u32) {
        let run = std::ptr::from_ref(run).cast();
        let task = Task { collective, run, step, op, flight };
        self.courier.shared.lock().queue.push_back(task);
        self.courier.shared.changed.notify_all();
    }

    /// The error of a collective that has failed meanwhile; it names the step that started it.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.courier.shared.failed.load(Ordering::Acquire) {
            return None;
        }
        let state = self.courier.shared.lock();
        let failed = state.landed.iter().find_map(|landed| Some((landed.op, landed.result.as_ref().err()?)));
        failed.map(|(op, error)| error.clone().begun_in(op))
    }

    /// Waits until one has ended, and notes its time.
    pub(crate) fn wait(&self, flight: u32, run: &Run) -> Result<()> {
        let mut state = self.courier.shared.lock();
        loop {
            if let Some(place) = state.landed.iter().position(|landed| landed.flight == flight) {
                let landed = state.landed.swap_remove(place);
                if let (Some(profile), Some((began, nanoseconds))) = (run.profile, landed.time) {
                    profile.add(landed.step, began, nanoseconds);
                }
                return landed.result.map_err(|error| error.begun_in(landed.op));
            }
            state = self.courier.shared.wait(state);
        }
    }

    /// Waits until nothing is under way: collectives run in the order of the program, also those in their place.
    pub(crate) fn settle(&self) -> Result<()> {
        self.rest();
        self.failure().map_or(Ok(()), Err)
    }

    fn rest(&self) {
        let mut state = self.courier.shared.lock();
        while state.carrying || !state.queue.is_empty() {
            state = self.courier.shared.wait(state);
        }
    }
}

/// Must go before what the courier's tasks point to.
pub(crate) struct Rest<'a>(&'a Leg<'a>);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        let Rest(leg) = self;
        let mut state = leg.courier.shared.lock();
        // A run that ends well has waited for all.
        state.queue.clear();
        let carrying = state.carrying;
        drop(state);
        if carrying {
            (leg.abort)();
            leg.rest();
        }
        leg.courier.shared.lock().landed.clear();
        leg.courier.shared.failed.store(false, Ordering::Release);
    }
}
