//! Measured limits of the machine, and the triad that measures bandwidth.

use heddle_core::isa::Isa;
use heddle_core::limits::{measure, triad};
use heddle_core::pool::Pool;

#[test]
fn every_instruction_set_has_limits() {
    for isa in Isa::available() {
        let limits = measure(&Pool::new(2), isa).expect("memory");
        // Any machine does a million; none does 10^15 on two threads.
        assert!((1e6..1e15).contains(&limits.flops), "{isa:?}: {limits:?}");
        assert!((1e6..1e15).contains(&limits.bytes), "{isa:?}: {limits:?}");
    }
}

#[test]
fn the_triad_is_what_it_says() {
    let (mut a, b, c) = ([0.0f32; 64], [1.0f32; 64], [4.0f32; 64]);
    for isa in Isa::available() {
        a.fill(0.0);
        unsafe { triad(isa, a.as_mut_ptr(), b.as_ptr(), c.as_ptr(), a.len()) };
        assert_eq!(a, [3.0; 64]);
    }
}
