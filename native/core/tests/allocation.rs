//! A step allocates nothing and touches no new page: what it needs is in the arena, or was made when the program was loaded
//! or first ran.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use common::seeds::{contents, steps, ARENA};
use common::{as_inputs, program, zeros};
use heddle_core::buffer::Buffer;
use heddle_core::collectives::Alone;
use heddle_core::exec::Device;
use heddle_core::isa::Isa;
use serde_json::{json, Value};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        System.dealloc(at, layout)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What allocates by its nature: messages, and the decompositions of a library.
fn excepted(step: &Value) -> bool {
    let kernel = step["k"].as_str().unwrap_or("");
    ["collective", "send", "receive"].contains(&kernel) || step["what"] == "svd" || step["what"] == "eigh"
}

/// Page faults of this thread that needed no disk.
fn faults() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) }, 0);
    unsafe { usage.assume_init() }.ru_minflt
}

/// 48 MB of intermediate values: the first run faults them in, the later ones find them there.
fn large_intermediates() {
    let n = 4 << 20;
    let view = |at: [usize; 2], reg: usize| json!({ "at": at, "dtype": "f32", "strides": [1], "reg": reg });
    let step = |from: [usize; 2], to: [usize; 2]| json!({ "k": "fused", "shape": [n], "in": as_inputs([view(from, 0)]), "ops": [["exp", "f32", 0]], "out": [view(to, 1)] });
    let steps =
        [step([1, 0], [0, 0]), step([0, 0], [0, 4 * n]), step([0, 4 * n], [0, 8 * n]), step([0, 8 * n], [2, 0])];
    let program = program(12 * n, &[zeros("f32", n), zeros("f32", n)], &steps).expect("a program");
    let buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(4 * n).expect("memory")).collect();
    let arguments: Vec<&Buffer> = buffers.iter().collect();
    let mut device = Device::new(1, Isa::detect(), vec![0, 0], Arc::new(Alone));
    let mut run = || {
        let before = faults();
        device.run(&program, &arguments).expect("runs");
        faults() - before
    };
    let first = run();
    // With huge pages there is one for 2 MiB.
    assert!(first >= 24, "{first} faults in the first run: are they counted?");
    let later = (0..4).map(|_| run()).min();
    assert_eq!(later, Some(0));
}

// The only test of this process: the count is of all threads.
#[test]
fn a_step_allocates_and_faults_nothing_after_its_first_run() {
    large_intermediates();
    let mut tried = 0;
    for step in steps().iter().filter(|step| !excepted(step)) {
        let program = program(ARENA, &contents(), std::slice::from_ref(step)).expect("a program");
        let buffers: Vec<Buffer> = contents().iter().map(|c| Buffer::new(c.len()).expect("memory")).collect();
        let arguments: Vec<&Buffer> = buffers.iter().collect();
        let fill = || {
            for (buffer, content) in buffers.iter().zip(contents()) {
                unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), buffer.as_ptr(), content.len()) };
            }
        };
        // One thread: each packs operands in memory that it keeps, and one that comes late would get its own then.
        let mut device = Device::new(1, Isa::detect(), vec![0, 0], Arc::new(Alone));
        for _ in 0..2 {
            fill();
            device.run(&program, &arguments).expect("runs");
        }
        fill();
        let (before, faults_before) = (COUNT.load(Ordering::Relaxed), faults());
        device.run(&program, &arguments).expect("runs");
        let made = COUNT.load(Ordering::Relaxed) - before;
        assert_eq!(made, 0, "{made} allocations: {step}");
        let faulted = faults() - faults_before;
        assert_eq!(faulted, 0, "{faulted} page faults: {step}");
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}
