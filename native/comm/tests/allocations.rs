//! Equal calls of a collective allocate nothing after the first.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{every, on_each, worlds};
use heddle_comm::{Dtype, Part, Reduction};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_repeated_collective_allocates_nothing() {
    for over in every() {
        on_each(worlds(over, 2), |world, mut group| {
            let (me, other) = (world.rank(), 1 - world.rank());
            // Several messages to the other rank, and a piece for itself.
            let counts = [(other, 100_000), (me, 7)];
            let (sent, mut got) = (vec![1.0_f32; 100_007], vec![0.0_f32; 100_007]);
            let (mut large, mut small) = (vec![1.0_f32; 500_000], vec![1.0_f32; 10]);
            let mut step = || {
                let parts = [Part::in_place(&mut large), Part::in_place(&mut small)];
                group.all_reduce(&parts, Dtype::F32, Reduction::Max, "gradients 0").unwrap();
                group.exchange(&Part::new(&sent, &mut got), Dtype::F32, &counts, &counts, "halo").unwrap();
                group.barrier("step").unwrap();
            };
            step();
            let before = COUNT.get();
            (0..20).for_each(|_| step());
            assert_eq!(COUNT.get() - before, 0, "{over:?}");
        });
    }
}
