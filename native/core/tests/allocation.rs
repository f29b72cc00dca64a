//! A step allocates nothing: what it needs is in the arena, or was made when the program was loaded or first ran.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use common::program;
use common::seeds::{contents, seeds, ARENA};
use heddle_core::buffer::Buffer;
use heddle_core::exec::{Alone, Device};
use heddle_core::isa::Isa;
use serde_json::Value;

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

// The only test of this process: the count is of all threads.
#[test]
fn a_step_allocates_nothing_after_its_first_run() {
    let mut tried = 0;
    for step in seeds().iter().filter(|step| !excepted(step)) {
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
        let before = COUNT.load(Ordering::Relaxed);
        device.run(&program, &arguments).expect("runs");
        let made = COUNT.load(Ordering::Relaxed) - before;
        assert_eq!(made, 0, "{made} allocations: {step}");
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}
