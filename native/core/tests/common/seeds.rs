//! Valid steps of each kernel and kind, for four buffers of 4 KiB and an arena of 256 KiB: `seeds.json`, made of the descriptions
//! in src/kernels by `vitest run test/repo/made-pages -u`, with what may be damaged in each.

use serde_json::Value;

pub const ARENA: usize = 256 << 10;
pub const BYTES: usize = 4096;

/// Buffer 1 holds matrices of 3 x 3 that are symmetric and positive definite, buffer 2 zeros: indices and counts.
pub fn contents() -> Vec<Vec<u8>> {
    let matrix: [f32; 9] = [4.0, 1.0, 0.5, 1.0, 3.0, 1.0, 0.5, 1.0, 2.0];
    let first = (0..BYTES / 4).flat_map(|i| matrix[i % 9].to_le_bytes()).collect();
    vec![first, vec![0; BYTES], vec![0; BYTES], vec![0; BYTES]]
}

/// A step, the paths of fields that it may lack, of sizes by whose growth an operand leaves its buffer, and of operands.
pub struct Seed {
    pub step: Value,
    pub optional: Vec<String>,
    pub sizes: Vec<String>,
    pub operands: Vec<Operand>,
}

pub struct Operand {
    pub at: String,
    pub role: String,
    /// Whether an output may be exactly this view.
    pub replaced: bool,
    /// Bytes of an element, and of all of them.
    pub width: u64,
    pub bytes: u64,
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_string()
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("a list").iter().map(read).collect()
}

fn operand(one: &Value) -> Operand {
    let number = |name: &str| one[name].as_u64().expect("a size");
    let (at, role) = (text(&one["at"]), text(&one["role"]));
    Operand { at, role, replaced: one["replaced"] == true, width: number("width"), bytes: number("bytes") }
}

pub fn seeds() -> Vec<Seed> {
    let all: Value = serde_json::from_str(include_str!("../seeds.json")).expect("a list of seeds");
    list(&all, |one| Seed {
        step: one["step"].clone(),
        optional: list(&one["optional"], text),
        sizes: list(&one["sizes"], text),
        operands: list(&one["operands"], operand),
    })
}

/// The steps alone.
pub fn steps() -> Vec<Value> {
    seeds().into_iter().map(|seed| seed.step).collect()
}
