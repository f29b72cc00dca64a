//! The team of threads: each task runs once, whatever the numbers of threads, pools and cores.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Barrier;
use std::time::Duration;

use heddle_core::pool::Pool;

/// Runs `tasks` and checks that each ran once, by a worker whose number no other thread had at that time.
fn check(pool: &Pool, tasks: usize, workers: usize) {
    let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    let seats: Vec<AtomicBool> = (0..pool.threads()).map(|_| AtomicBool::new(false)).collect();
    pool.run(tasks, workers, |worker, task| {
        assert!(worker < workers.max(1), "worker {worker} of {workers}");
        assert!(!seats[worker].swap(true, SeqCst), "two threads are worker {worker}");
        runs[task].fetch_add(1, SeqCst);
        seats[worker].store(false, SeqCst);
    });
    let counts: Vec<usize> = runs.iter().map(|count| count.load(SeqCst)).collect();
    assert_eq!(counts, vec![1; tasks], "{} threads, {workers} workers", pool.threads());
}

#[test]
fn each_task_runs_once() {
    for threads in [0, 1, 2, 3, 8, 17] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads.max(1));
        for (tasks, workers) in
            [0, 1, 2, 3, 7, 64, 1000].into_iter().flat_map(|t| [1, 2, 5, usize::MAX].map(|w| (t, w)))
        {
            check(&pool, tasks, workers);
        }
    }
}

#[test]
fn helpers_come_whether_they_spin_or_sleep() {
    let pool = Pool::new(3);
    // Longer than helpers spin, and at once.
    for pause in [0, 0, 3, 0, 3, 3, 0].map(Duration::from_millis) {
        std::thread::sleep(pause);
        // Each task waits for the others, so that it takes as many threads.
        let barrier = Barrier::new(3);
        pool.run(3, usize::MAX, |_, _| {
            barrier.wait();
        });
    }
}

#[test]
fn pools_run_beside_each_other() {
    std::thread::scope(|scope| {
        for threads in [2, 3, 4, 8] {
            scope.spawn(move || {
                let pool = Pool::new(threads);
                for tasks in 0..300 {
                    check(&pool, tasks % 40, usize::MAX);
                }
            });
        }
    });
}

#[test]
fn a_pool_runs_one_job_at_a_time() {
    let pool = Pool::new(3);
    let inner = AtomicUsize::new(0);
    pool.run(8, usize::MAX, |_, _| {
        pool.run(5, usize::MAX, |worker, _| {
            assert_eq!(worker, 0, "the caller does inner jobs alone");
            inner.fetch_add(1, SeqCst);
        });
    });
    assert_eq!(inner.load(SeqCst), 40);
}

#[test]
fn a_panic_reaches_the_caller_and_leaves_the_pool_whole() {
    let pool = Pool::new(4);
    for failing in 0..8 {
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(8, usize::MAX, |_, task| assert_ne!(task, failing))));
        assert!(result.is_err(), "task {failing}");
        check(&pool, 20, usize::MAX);
    }
}
