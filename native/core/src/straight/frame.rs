//! What the loops read of a walk.

use crate::walk::Walk;

/// Values that are read once per segment, so that they need no registers.
#[repr(C)]
pub(super) struct Frame {
    left: usize,
    end: usize,
    iterations: usize,
    rest: usize,
}

impl Frame {
    pub(super) fn new<T>(x: &Walk<T>) -> Frame {
        Frame {
            left: x.left as usize,
            end: x.segments.as_ptr_range().end as usize,
            iterations: x.segment / 4,
            rest: x.segment % 4,
        }
    }
}
