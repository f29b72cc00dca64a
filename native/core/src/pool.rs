//! One team of threads per device: the caller and its helpers take numbered tasks until none is left.
//!
//! The work of a task depends on its number alone, so results never depend on the number of threads. A worker begins with a range of
//! tasks of its own, the same in each run of a step, so that it finds in its cache what it had there before; then it helps others.

use std::cell::UnsafeCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{available_parallelism, park, Builder, JoinHandle};
use std::time::{Duration, Instant};

type Task = dyn Fn(usize, usize) + Sync;

const CLOSED: u64 = 1 << 31;
const COUNT: u64 = CLOSED - 1;
/// How long an idle helper spins before it sleeps: longer than JavaScript takes between two small programs.
const PATIENCE: Duration = Duration::from_micros(100);
/// A helper that spins looks at the clock so often.
const LOOK: u32 = 16;
/// How long a helper does not spin once another thread has had its core.
const MODEST: Duration = Duration::from_millis(20);
/// Spins of a caller that waits for helpers before it lets other threads run.
const SPINS: u32 = 1500;

/// Helpers of all pools that are awake, and a caller for each pool whose first helper is.
static AWAKE: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy)]
struct Job {
    task: *const Task,
    tasks: usize,
    workers: usize,
}

/// What a worker has of its own, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Seat {
    /// The next task of the worker's range.
    next: AtomicUsize,
    asleep: AtomicBool,
}

struct Shared {
    /// Number of the job (high half), closed flag, and how many helpers have entered.
    gate: AtomicU64,
    left: AtomicUsize,
    seats: Box<[Seat]>,
    job: UnsafeCell<Job>,
    panicked: AtomicBool,
    stop: AtomicBool,
    cores: usize,
}

// The job is written only while the gate is closed and all helpers have left.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// Held during a job: a pool runs one at a time.
    busy: Mutex<()>,
}

impl Pool {
    pub fn new(threads: usize) -> Pool {
        fn nothing(_: usize, _: usize) {}
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(CLOSED),
            left: AtomicUsize::new(0),
            seats: (0..threads.max(1)).map(|_| Seat::default()).collect(),
            job: UnsafeCell::new(Job { task: &nothing as *const Task, tasks: 0, workers: 0 }),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            cores: available_parallelism().map_or(1, usize::from),
        });
        let helpers = (1..threads)
            .map_while(|seat| {
                let shared = shared.clone();
                Builder::new()
                    .name(format!("heddle-{seat}"))
                    .stack_size(2 << 20)
                    .spawn(move || help(&shared, seat))
                    .ok()
            })
            .collect();
        Pool { shared, helpers, busy: Mutex::new(()) }
    }

    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `task(worker, number)` for each number below `tasks`, with worker numbers below `workers`.
    pub fn run(&self, tasks: usize, workers: usize, task: impl Fn(usize, usize) + Sync) {
        self.share(tasks, workers, &task);
    }

    /// Not generic, so that hundreds of task types share one compiled body.
    fn share(&self, tasks: usize, workers: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let workers = workers.min(self.threads()).min(tasks);
        let guard = if workers > 1 { self.busy.try_lock().ok() } else { None };
        if guard.is_none() {
            return (0..tasks).for_each(|i| task(0, i));
        }
        let shared = &*self.shared;
        // The borrow outlives the job: this call returns only after every helper has left.
        let task = unsafe { std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), *const Task>(task) };
        let job = Job { task, tasks, workers };
        unsafe { *shared.job.get() = job };
        for (worker, seat) in shared.seats.iter().enumerate().take(workers) {
            seat.next.store(job.range(worker).start, Ordering::Relaxed);
        }
        shared.left.store(0, Ordering::Relaxed);
        let number = (shared.gate.load(Ordering::Relaxed) >> 32) + 1;
        shared.gate.store(number << 32, Ordering::Release);
        fence(Ordering::SeqCst);
        for (seat, helper) in shared.seats[1..workers].iter().zip(&self.helpers) {
            if seat.asleep.load(Ordering::SeqCst) && seat.asleep.swap(false, Ordering::SeqCst) {
                helper.thread().unpark();
            }
        }
        let mine = catch_unwind(AssertUnwindSafe(|| shared.work(&job, 0)));
        let entered = (shared.gate.fetch_or(CLOSED, Ordering::AcqRel) & COUNT) as usize;
        let mut spins = 0u32;
        while shared.left.load(Ordering::Acquire) < entered {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let theirs = shared.panicked.swap(false, Ordering::AcqRel);
        drop(guard);
        if let Err(panic) = mine {
            std::panic::resume_unwind(panic);
        }
        assert!(!theirs, "a kernel task panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            let _ = helper.join();
        }
    }
}

impl Job {
    /// The tasks that a worker takes first.
    fn range(&self, worker: usize) -> std::ops::Range<usize> {
        self.tasks * worker / self.workers..self.tasks * (worker + 1) / self.workers
    }
}

impl Shared {
    fn work(&self, job: &Job, worker: usize) {
        let task = unsafe { &*job.task };
        for owner in (worker..job.workers).chain(0..worker) {
            let (next, end) = (&self.seats[owner].next, job.range(owner).end);
            // Nothing is written where the range is done.
            while next.load(Ordering::Relaxed) < end {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i < end {
                    task(worker, i);
                }
            }
        }
    }

    /// Whether there is a job that was not joined before.
    fn open(&self, gate: u64, last: u64) -> bool {
        gate & CLOSED == 0 && gate >> 32 != last
    }

    /// Joins the open job unless it was joined before; gives its number.
    fn enter(&self, last: u64) -> Option<u64> {
        let mut gate = self.gate.load(Ordering::Acquire);
        while self.open(gate, last) {
            match self.gate.compare_exchange_weak(gate, gate + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(gate >> 32),
                Err(now) => gate = now,
            }
        }
        None
    }

    /// Spins a while, then sleeps until there is a job or the pool ends. `away` is when another thread has last had the core.
    fn idle(&self, seat: usize, last: u64, away: &mut Option<Instant>) {
        let began = Instant::now();
        let (mut seen, modest) = (began, away.is_some_and(|at| began - at < MODEST));
        let ready = || self.open(self.gate.load(Ordering::SeqCst), last) || self.stop.load(Ordering::SeqCst);
        while !modest && seen - began < PATIENCE && AWAKE.load(Ordering::Relaxed) <= self.cores {
            for _ in 0..LOOK {
                if ready() {
                    return;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now - seen > PATIENCE {
                *away = Some(now);
                break;
            }
            seen = now;
        }
        let asleep = &self.seats[seat].asleep;
        asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !ready() {
            AWAKE.fetch_sub(awake(seat), Ordering::Relaxed);
            park();
            AWAKE.fetch_add(awake(seat), Ordering::Relaxed);
        }
        asleep.store(false, Ordering::SeqCst);
    }
}

/// What a helper adds to `AWAKE`.
fn awake(seat: usize) -> usize {
    if seat == 1 {
        2
    } else {
        1
    }
}

fn help(shared: &Shared, seat: usize) {
    let (mut last, mut away) = (0, None);
    AWAKE.fetch_add(awake(seat), Ordering::Relaxed);
    while !shared.stop.load(Ordering::Relaxed) {
        let Some(number) = shared.enter(last) else {
            shared.idle(seat, last, &mut away);
            continue;
        };
        last = number;
        let job = unsafe { *shared.job.get() };
        if seat < job.workers && catch_unwind(AssertUnwindSafe(|| shared.work(&job, seat))).is_err() {
            shared.panicked.store(true, Ordering::Release);
        }
        shared.left.fetch_add(1, Ordering::Release);
    }
    AWAKE.fetch_sub(awake(seat), Ordering::Relaxed);
}
