//! What is wrong with a step, made of a valid one: missing and misplaced values, addresses and sizes out of range, products that
//! overflow, outputs over inputs.

use serde_json::{json, Value};

use super::seeds::{Operand, Seed};

/// Paths of all values within one.
pub fn paths(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| paths(inner, format!("{path}/{key}"), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, inner)| paths(inner, format!("{path}/{i}"), found))
        }
        _ => {}
    }
    found.push(path);
}

/// The name that a path ends in, without indices.
pub fn name(path: &str) -> &str {
    path.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or("")
}

pub fn replaced(step: &Value, path: &str, by: Value) -> Value {
    let mut changed = step.clone();
    *changed.pointer_mut(path).expect("a path") = by;
    changed
}

pub fn in_ops(path: &str) -> bool {
    path.contains("/ops/")
}

/// Must be refused.
pub fn refusals(seed: &Seed) -> Vec<Value> {
    let step = &seed.step;
    let mut found = Vec::new();
    let mut all = Vec::new();
    paths(step, String::new(), &mut all);
    for path in all.iter().filter(|path| !path.is_empty()) {
        let old = step.pointer(path).expect("a path");
        let optional = seed.optional.contains(path);
        let (parent, key) = path.rsplit_once('/').expect("a path");
        if let Some(Value::Object(map)) = step.pointer(parent).filter(|_| !optional) {
            let mut map = map.clone();
            map.remove(key);
            found.push(if parent.is_empty() { Value::Object(map) } else { replaced(step, parent, Value::Object(map)) });
        }
        if !optional && !in_ops(path) && !old.is_null() {
            found.push(replaced(step, path, Value::Null));
        }
        if !in_ops(path) && !old.is_null() {
            found.push(replaced(step, path, json!({})));
            let other = if old.is_string() { json!(7) } else { json!("?") };
            found.push(replaced(step, path, other));
        }
        if ["dtype", "op", "what", "kind", "k"].contains(&name(path)) {
            found.push(replaced(step, path, json!("nonsense")));
        }
    }
    for path in &seed.sizes {
        for size in [1u64 << 20, 1 << 32, 1 << 55, 1 << 62, i64::MAX as u64, u64::MAX] {
            found.push(replaced(step, path, json!(size)));
        }
        found.push(replaced(step, path, json!(-1)));
    }
    for Operand { at: path, width, .. } in &seed.operands {
        let [space, offset] = address(step, path);
        for at in [[9, offset], [space, 1 << 20], [space, u64::MAX - 7], [space, (1 << 63) - 64], [1 << 32, 0]] {
            found.push(replaced(step, path, json!(at)));
        }
        if *width > 1 {
            found.push(replaced(step, path, json!([space, offset + 1])));
        }
    }
    found.extend(products_that_wrap(seed));
    found.extend(overlaps(seed));
    found
}

fn address(step: &Value, path: &str) -> [u64; 2] {
    let at = step.pointer(path).expect("a path");
    [at[0].as_u64().expect("a space"), at[1].as_u64().expect("an offset")]
}

/// Sizes whose product is 0 in 64 bits.
fn products_that_wrap(Seed { step, sizes, .. }: &Seed) -> Vec<Value> {
    let mut found = Vec::new();
    for (i, a) in sizes.iter().enumerate() {
        for b in &sizes[..i] {
            found.push(replaced(&replaced(step, a, json!(1u64 << 32)), b, json!(1u64 << 32)));
        }
    }
    for size in [1u64 << 16, 1 << 32].into_iter().filter(|_| !sizes.is_empty()) {
        found.push(sizes.iter().fold(step.clone(), |step, path| replaced(&step, path, json!(size))));
    }
    found
}

/// Outputs over inputs, and inputs over scratch.
fn overlaps(Seed { step, operands, .. }: &Seed) -> Vec<Value> {
    // The steps of a loop or a branch may write what others read.
    let holds = step.get("steps").is_some();
    let of = |role: &str| operands.iter().filter(|one| !holds && one.role == role).collect::<Vec<_>>();
    let mut found = Vec::new();
    // What lies 8 bytes after a few is apart from them.
    for input in of("read").into_iter().filter(|input| input.bytes > 8) {
        let [space, offset] = address(step, &input.at);
        for out in of("write") {
            found.push(replaced(step, &out.at, json!([space, offset + 8])));
            if !input.replaced {
                found.push(replaced(step, &out.at, json!([space, offset])));
            }
        }
        for scratch in of("scratch") {
            found.push(replaced(step, &input.at, json!(address(step, &scratch.at))));
        }
    }
    found
}
