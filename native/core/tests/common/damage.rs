//! What is wrong with a step, made of a valid one: missing and misplaced values, addresses and sizes out of range, products that
//! overflow, outputs over inputs.

use serde_json::{json, Value};

use super::size;

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

const OPTIONAL: [&str; 32] = [
    "causal",
    "descending",
    "g",
    "d",
    "kd",
    "od",
    "bias",
    "relu",
    "label",
    "reverse",
    "gate",
    "mask",
    "dropout",
    "lower",
    "transpose",
    "unit",
    "start",
    "total",
    "sends",
    "receives",
    "relative",
    "flight",
    "members",
    "reduction",
    "condition",
    "count",
    "test",
    "out",
    "lse",
    "in",
    "updates",
    "source",
];
/// Sizes that make some view longer than its buffer when they grow.
const SIZES: [&str; 32] = [
    "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "b", "m", "k2", "r", "e", "rows", "cols",
    "outer", "size", "inner", "count", "batch", "shape", "sizes", "length", "lead", "over", "keep", "slots",
];

pub fn in_ops(path: &str) -> bool {
    path.contains("/ops/")
}

/// Whether this is a `[space, offset]`.
fn is_address(step: &Value, path: &str) -> bool {
    const OTHERS: [&str; 14] = [
        "shape",
        "sizes",
        "total",
        "strides",
        "keepStrides",
        "overStrides",
        "length",
        "lead",
        "over",
        "keep",
        "sends",
        "receives",
        "padding",
        "ops",
    ];
    let pair = step.pointer(path).and_then(Value::as_array);
    let pair = pair.is_some_and(|items| items.len() == 2 && items.iter().all(Value::is_u64));
    pair && !in_ops(path) && !OTHERS.contains(&name(path))
}

/// Bytes of the elements at an address.
fn width(step: &Value, path: &str) -> usize {
    if ["indices", "start", "starts", "labels", "words", "key"].contains(&name(path)) {
        return 4;
    }
    let mut parent = path;
    while let Some((above, _)) = parent.rsplit_once('/') {
        if let Some(dtype) = step.pointer(above).and_then(|value| value["dtype"].as_str()) {
            return size(dtype);
        }
        parent = above;
    }
    if name(path) == "test" {
        return 1;
    }
    4
}

/// Sizes of a step whose growth alone nothing else feels.
fn is_size(step: &Value, path: &str) -> bool {
    let free = match step["k"].as_str().unwrap_or("") {
        "factor" => name(path) == "n" && ["cholesky", "eigh", "lu"].contains(&step["what"].as_str().unwrap_or("")),
        "convGroups" | "convGroupsFilter" => name(path) == "slots",
        "loop" => path == "/count",
        _ => false,
    };
    SIZES.contains(&name(path)) && step.pointer(path).is_some_and(Value::is_u64) && !in_ops(path) && !free
}

fn empty(step: &Value) -> bool {
    step["shape"].as_array().is_some_and(|shape| shape.contains(&json!(0)))
}

/// Must be refused.
pub fn refusals(step: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut all = Vec::new();
    paths(step, String::new(), &mut all);
    for path in all.iter().filter(|path| !path.is_empty()) {
        let old = step.pointer(path).expect("a path");
        let optional = OPTIONAL.contains(&name(path)) && !path.ends_with(char::is_numeric);
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
        if is_size(step, path) {
            for size in [1u64 << 20, 1 << 32, 1 << 55, 1 << 62, i64::MAX as u64, u64::MAX] {
                if !empty(step) || size > 1 << 48 {
                    found.push(replaced(step, path, json!(size)));
                }
            }
            found.push(replaced(step, path, json!(-1)));
        }
        let unused = step["k"] == "convGroups" && path == "/scratch";
        if is_address(step, path) && !empty(step) && !unused {
            let (space, offset) = (old[0].as_u64().expect("a space"), old[1].as_u64().expect("an offset"));
            for at in [[9, offset], [space, 1 << 20], [space, u64::MAX - 7], [space, (1 << 63) - 64], [1 << 32, 0]] {
                found.push(replaced(step, path, json!(at)));
            }
            if width(step, path) > 1 {
                found.push(replaced(step, path, json!([space, offset + 1])));
            }
        }
    }
    found.extend(products_that_wrap(step, &all));
    found.extend(overlaps(step, &all));
    found
}

/// Sizes whose product is 0 in 64 bits.
fn products_that_wrap(step: &Value, all: &[String]) -> Vec<Value> {
    let sizes: Vec<&String> = all.iter().filter(|path| is_size(step, path)).collect();
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
fn overlaps(step: &Value, all: &[String]) -> Vec<Value> {
    let kernel = step["k"].as_str().expect("a kernel");
    if ["loop", "branch"].contains(&kernel) || empty(step) {
        return Vec::new();
    }
    let output = |path: &str| {
        let own = path.starts_with("/out") || path.ends_with("/out");
        own || ["dq", "dk", "dv"].contains(&name(path)) || (kernel == "attention" && path == "/lse")
    };
    // A few bytes only.
    let small = |path: &str| ["start", "starts", "words", "scratch", "update"].contains(&name(path)) || path == "/key";
    let addresses: Vec<&String> = all.iter().filter(|path| is_address(step, path)).collect();
    let (outs, ins): (Vec<&String>, Vec<&String>) = addresses.into_iter().partition(|path| output(path));
    let in_place =
        kernel.starts_with("fused") || ["collective", "dynamicUpdateSlice"].contains(&kernel) || step["gate"] == true;
    let mut found = Vec::new();
    for input in ins.iter().filter(|path| !small(path)) {
        let at = step.pointer(input).expect("a path");
        for out in &outs {
            found.push(replaced(step, out, json!([at[0], at[1].as_u64().expect("an offset") + 8])));
            // Rows may be written into the table itself.
            let table = kernel == "scatter" && input.as_str() == "/in";
            if !in_place && !table {
                found.push(replaced(step, out, at.clone()));
            }
        }
        if step.get("scratch").is_some() && kernel != "convGroups" {
            found.push(replaced(step, input, json!([0, 64])));
        }
    }
    found
}
