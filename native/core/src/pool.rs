//! One team of threads per device: the caller and its helpers take numbered tasks until none is left.
//!
//! The work of a task depends on its number alone, so results never depend on the number of threads.

use std::cell::UnsafeCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, JoinHandle};

type Task = dyn Fn(usize, usize) + Sync;

const CLOSED: u64 = 1 << 31;
const COUNT: u64 = CLOSED - 1;
/// Spins of an idle helper before it sleeps: about 30 microseconds.
const SPINS: u32 = 1500;

#[derive(Clone, Copy)]
struct Job {
    task: *const Task,
    tasks: usize,
    workers: usize,
}

struct Shared {
    /// Number of the job (high half), closed flag, and how many helpers have entered.
    gate: AtomicU64,
    left: AtomicUsize,
    next: AtomicUsize,
    seat: AtomicUsize,
    job: UnsafeCell<Job>,
    panicked: AtomicBool,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
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
            next: AtomicUsize::new(0),
            seat: AtomicUsize::new(0),
            job: UnsafeCell::new(Job { task: &nothing as *const Task, tasks: 0, workers: 0 }),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        });
        let helpers = (1..threads.max(1))
            .filter_map(|i| {
                let shared = shared.clone();
                Builder::new().name(format!("heddle-{i}")).stack_size(2 << 20).spawn(move || help(&shared)).ok()
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
        unsafe {
            *shared.job.get() = Job {
                task: std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), *const Task>(task),
                tasks,
                workers,
            };
        }
        shared.next.store(0, Ordering::Relaxed);
        shared.seat.store(1, Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        let number = (shared.gate.load(Ordering::Relaxed) >> 32) + 1;
        shared.gate.store(number << 32, Ordering::Release);
        fence(Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            let _lock = shared.lock.lock().unwrap_or_else(|e| e.into_inner());
            shared.wake.notify_all();
        }
        let mine = catch_unwind(AssertUnwindSafe(|| work(shared, task, tasks, 0)));
        let entered = (shared.gate.fetch_or(CLOSED, Ordering::AcqRel) & COUNT) as usize;
        let mut spins = 0u32;
        while shared.left.load(Ordering::Acquire) < entered {
            pause(&mut spins);
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
        {
            let _lock = self.shared.lock.lock().unwrap_or_else(|e| e.into_inner());
            self.shared.wake.notify_all();
        }
        for helper in self.helpers.drain(..) {
            let _ = helper.join();
        }
    }
}

fn pause(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

fn work(shared: &Shared, task: &(dyn Fn(usize, usize) + Sync), tasks: usize, worker: usize) {
    loop {
        let i = shared.next.fetch_add(1, Ordering::Relaxed);
        if i >= tasks {
            return;
        }
        task(worker, i);
    }
}

/// Joins the open job unless it was joined before; gives its number.
fn enter(shared: &Shared, last: u64) -> Option<u64> {
    let mut gate = shared.gate.load(Ordering::Acquire);
    loop {
        if gate & CLOSED != 0 || gate >> 32 == last {
            return None;
        }
        match shared.gate.compare_exchange_weak(gate, gate + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(gate >> 32),
            Err(now) => gate = now,
        }
    }
}

fn help(shared: &Shared) {
    let mut last = 0;
    let mut idle = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        let Some(number) = enter(shared, last) else {
            idle += 1;
            if idle < SPINS {
                std::hint::spin_loop();
                continue;
            }
            sleep(shared, last);
            idle = 0;
            continue;
        };
        last = number;
        idle = 0;
        let job = unsafe { *shared.job.get() };
        let worker = shared.seat.fetch_add(1, Ordering::Relaxed);
        if worker < job.workers {
            let task = unsafe { &*job.task };
            if catch_unwind(AssertUnwindSafe(|| work(shared, task, job.tasks, worker))).is_err() {
                shared.panicked.store(true, Ordering::Release);
            }
        }
        shared.left.fetch_add(1, Ordering::Release);
    }
}

fn sleep(shared: &Shared, last: u64) {
    let lock = shared.lock.lock().unwrap_or_else(|e| e.into_inner());
    shared.sleepers.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let gate = shared.gate.load(Ordering::SeqCst);
    let open = gate & CLOSED == 0 && gate >> 32 != last;
    if !open && !shared.stop.load(Ordering::SeqCst) {
        drop(shared.wake.wait(lock));
    }
    shared.sleepers.fetch_sub(1, Ordering::SeqCst);
}
