//! Asynchronous collectives: the thread that runs them beside other steps, and how a run starts and waits for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::profile::Profile;
use crate::{Error, Result};

/// What a collective is known by: its handle, and the numbers of its step among all steps and among the outermost ones.
#[derive(Clone, Copy)]
pub(crate) struct Started {
    pub handle: u32,
    pub step: usize,
    pub outermost: usize,
}

/// Communicates. What it borrows lives until the queue is empty.
pub(crate) type Work<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

struct Finished {
    started: Started,
    began: Instant,
    nanoseconds: f64,
    result: Result<()>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Started, Work<'static>)>,
    running: bool,
    finished: Vec<Finished>,
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

    /// Waits until the queue is empty and no collective runs.
    fn wait_for_all(&self) {
        let mut state = self.lock();
        while state.running || !state.queue.is_empty() {
            state = self.wait(state);
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        while !state.stop {
            let Some((started, work)) = state.queue.pop_front() else {
                state = self.wait(state);
                continue;
            };
            state.running = true;
            drop(state);
            let began = Instant::now();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Error::new("a collective panicked")));
            let nanoseconds = began.elapsed().as_nanos() as f64;
            state = self.lock();
            state.running = false;
            if result.is_err() {
                self.failed.store(true, Ordering::Release);
            }
            state.finished.push(Finished { started, began, nanoseconds, result });
            self.changed.notify_all();
        }
    }
}

/// A thread that runs collectives one after another, in the order in which the program starts them.
#[derive(Default)]
pub(crate) struct CollectiveThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl CollectiveThread {
    /// Starts the thread where there is none yet.
    pub(crate) fn ensure_started(&mut self) -> Result<()> {
        if self.thread.is_none() {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("heddle-collectives".into()).stack_size(1 << 20);
            let thread = builder.spawn(move || shared.serve());
            self.thread = Some(thread.map_err(|e| Error::new(format!("cannot start a thread for collectives: {e}")))?);
        }
        Ok(())
    }
}

impl Drop for CollectiveThread {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The asynchronous collectives of one run.
pub(crate) struct AsyncCollectives<'a> {
    shared: &'a Shared,
    /// Whether this run has started one; told to no other thread.
    started: AtomicBool,
    /// Ends the waits of the collective that runs.
    abort: &'a dyn Fn(),
}

impl<'a> AsyncCollectives<'a> {
    pub(crate) fn new(thread: &'a CollectiveThread, abort: &'a dyn Fn()) -> AsyncCollectives<'a> {
        AsyncCollectives { shared: &thread.shared, started: AtomicBool::new(false), abort }
    }

    /// A guard that, when it is dropped, cancels what is queued and waits for the collective that runs.
    pub(crate) fn wait_at_end(&self) -> WaitAtEnd<'_> {
        WaitAtEnd(self)
    }

    /// Communicates: with a handle beside the steps that follow, else at once, after all that is in flight.
    ///
    /// # Safety
    /// What `work` borrows must outlive the guard of `wait_at_end`.
    pub(crate) unsafe fn carry<'w>(
        &self,
        handle: Option<(u32, usize)>,
        step: usize,
        work: impl FnOnce() -> Result<()> + Send + 'w,
    ) -> Result<()> {
        let Some((handle, outermost)) = handle else { return self.wait_for_all().and_then(|()| work()) };
        let work = std::mem::transmute::<Work<'w>, Work<'static>>(Box::new(work));
        self.started.store(true, Ordering::Relaxed);
        self.shared.lock().queue.push_back((Started { handle, step, outermost }, work));
        self.shared.changed.notify_all();
        Ok(())
    }

    /// The error of a collective that has failed; the error names the step that started the collective.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.shared.failed.load(Ordering::Acquire) {
            return None;
        }
        let state = self.shared.lock();
        let mut errors = state.finished.iter().filter_map(|f| Some((f.started, f.result.as_ref().err()?)));
        errors.next().map(|(started, error)| error.clone().begun_in(started.outermost))
    }

    /// Waits until the collective with this handle has ended, and notes the time that it took.
    pub(crate) fn wait(&self, handle: u32, profile: Option<&Profile>) -> Result<()> {
        let mut state = self.shared.lock();
        loop {
            if let Some(place) = state.finished.iter().position(|finished| finished.started.handle == handle) {
                let Finished { started, began, nanoseconds, result } = state.finished.swap_remove(place);
                if let Some(profile) = profile {
                    profile.add(started.step, began, nanoseconds);
                }
                return result.map_err(|error| error.begun_in(started.outermost));
            }
            state = self.shared.wait(state);
        }
    }

    /// Waits until no collective is in flight: all collectives run in the order of the program's steps.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        if !self.started.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.shared.wait_for_all();
        self.failure().map_or(Ok(()), Err)
    }
}

/// Must be dropped before what the queued collectives borrow.
pub(crate) struct WaitAtEnd<'a>(&'a AsyncCollectives<'a>);

impl Drop for WaitAtEnd<'_> {
    fn drop(&mut self) {
        let WaitAtEnd(AsyncCollectives { shared, abort, .. }) = self;
        let mut state = shared.lock();
        // A run without an error has waited for all collectives.
        state.queue.clear();
        let running = state.running;
        drop(state);
        if running {
            abort();
            shared.wait_for_all();
        }
        shared.lock().finished.clear();
        shared.failed.store(false, Ordering::Release);
    }
}
