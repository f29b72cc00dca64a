//! Layers in bytes: a step that quantises rows, their product with weights, and a step that turns the sums into floats run as one, where
//! nothing else reads the bytes and the sums. Threads quantise and pack the rows together; then each takes columns, whose sums it turns
//! into results while they are in its cache. The bits are those of the three steps.

use serde_json::Value;

use crate::reader::Reader;
use crate::step::Block;

#[cfg(target_arch = "x86_64")]
mod find;
#[cfg(target_arch = "x86_64")]
mod layer;
pub(super) mod lives;
#[cfg(target_arch = "x86_64")]
mod rect;

/// The calls of a program in which there may be layers or loops with slices, else none.
pub(crate) fn copies(steps: &[Value]) -> Vec<Value> {
    let layer = |step: &Value| step["k"] == "narrowDot" && step["dtype"] == "i32";
    let may = steps.iter().any(|step| layer(step) || step["k"] == "loop");
    if may {
        steps.to_vec()
    } else {
        Vec::new()
    }
}

/// Lets the steps of layers run as one. `calls`: those of the outermost steps, or none.
pub(crate) fn join(block: &mut Block, calls: &[Value], reader: &Reader) {
    #[cfg(target_arch = "x86_64")]
    if !calls.is_empty() {
        find::join(block, calls, reader);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (block, calls, reader);
}
