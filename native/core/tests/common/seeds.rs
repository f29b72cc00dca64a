//! One valid step of each kernel and kind, for four buffers of 4 KiB and an arena of 256 KiB: `seeds.json`, which the tests of
//! lowering read too.

use serde_json::Value;

pub const ARENA: usize = 256 << 10;
pub const BYTES: usize = 4096;

/// Buffer 1 holds matrices of 3 x 3 that are symmetric and positive definite, buffer 2 zeros: indices and counts.
pub fn contents() -> Vec<Vec<u8>> {
    let matrix: [f32; 9] = [4.0, 1.0, 0.5, 1.0, 3.0, 1.0, 0.5, 1.0, 2.0];
    let first = (0..BYTES / 4).flat_map(|i| matrix[i % 9].to_le_bytes()).collect();
    vec![first, vec![0; BYTES], vec![0; BYTES], vec![0; BYTES]]
}

pub fn seeds() -> Vec<Value> {
    serde_json::from_str(include_str!("../seeds.json")).expect("a list of steps")
}
