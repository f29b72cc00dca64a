//! Malformed programs are errors that say where, and mutated ones never crash.

mod common;

use common::*;
use heddle_core::isa::Isa;
use heddle_core::program::Program;
use serde_json::{json, Value};

fn fused(at: Value, strides: Value) -> Value {
    json!({ "k": "fused", "shape": [4], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [1] }], "ops": [["neg", "f32", 0]],
        "out": [{ "at": at, "dtype": "f32", "strides": strides, "reg": 1 }] })
}

fn exchange(sends: Value, receives: Value) -> Value {
    json!({ "k": "collective", "op": "exchange", "axis": 0, "dtype": "f32", "parts": [{ "in": [1, 0], "out": [2, 0], "count": 4 }],
        "sends": sends, "receives": receives })
}

#[test]
fn errors_name_the_step_and_the_fault() {
    let reduce = |op: &str, dtype: &str| json!({ "k": "reduce", "op": op, "dtype": dtype, "in": [1, 0], "keep": [], "keepStrides": [], "over": [4], "overStrides": [1], "out": [2, 0] });
    let cases = [
        (
            fused(json!([2, 4]), json!([1])),
            "op 0 (fused): out[0]: f32 of shape [4] and strides [1] at offset 4 covers bytes 4..20, but space 2 has 16",
        ),
        (fused(json!([2, 0]), json!([-1])), "covers bytes -12..4"),
        (fused(json!([2, 2]), json!([1])), "offset 2 is not aligned to f32"),
        (fused(json!([3, 0]), json!([1])), "space 3 does not exist"),
        (fused(json!([1, 4]), json!([1])), "covers bytes 4..20"),
        (fused(json!([2, 0]), json!([0])), "share addresses"),
        (fused(json!([2, 0]), json!([1, 1])), "1 sizes but 2 strides"),
        (fused(json!([2, -1]), json!([1])), "invalid value"),
        (json!({ "k": "nonsense" }), "op 0 (nonsense): unknown variant"),
        (json!({ "k": "fused" }), "missing field `shape`"),
        (exchange(json!([[0, 3]]), json!([[0, 4]])), "4 elements are not what [(0, 3)] add up to"),
        (exchange(json!([[0, 4]]), json!([[0, 5]])), "parts[0].out: f32 of shape [5]"),
        (exchange(json!([[0, 4]]), json!([[0, -1]])), "invalid value"),
        (reduce("and", "f32"), "And of f32 is not supported"),
        (reduce("sum", "bool"), "Sum of bool is not supported"),
    ];
    for (step, text) in cases {
        let error = program(0, &[vec![0; 16], vec![0; 16]], std::slice::from_ref(&step))
            .err()
            .unwrap_or_else(|| panic!("accepted: {step}"));
        assert!(error.message.contains(text), "{error}");
    }
}

#[test]
fn overlaps_are_refused() {
    let mut shifted = fused(json!([1, 4]), json!([1]));
    shifted["shape"] = json!([3]);
    let error = program(0, &[vec![0; 16]], &[shifted]).err().expect("refused");
    assert!(error.message.contains("out[0] (bytes 4..16) overlaps in[0] (bytes 0..12) in space 1"), "{error}");
    assert!(program(0, &[vec![0; 16]], &[fused(json!([1, 0]), json!([1]))]).is_ok());
}

#[test]
fn instructions_are_checked() {
    let cases = [
        (json!([["neg", "f32", 1]]), "1 is not a register before 1"),
        (json!([["neg", "f64", 0]]), "operand 0 (register 0) is f32, not f64"),
        (json!([["frobnicate", "f32", 0]]), "no unary function frobnicate for f32"),
        (json!([["add", "f32", 0]]), "no unary function add for f32"),
        (json!([["and", "f32", 0, 0]]), "no binary function and for f32"),
        (json!([["select", "f32", 0, 0, 0]]), "is f32, not bool"),
        (json!([["const", "f32", "x"]]), "not a number"),
        (json!([["iota", "f32", 1]]), "no dim 1"),
        (json!([["lt", "f32", 0, 0]]), "register 1 is bool, not f32"),
        (json!([[]]), "an instruction is [name, dtype"),
        (json!([["neg"]]), "an instruction is [name, dtype"),
    ];
    for (ops, text) in cases {
        let mut step = fused(json!([2, 0]), json!([1]));
        step["ops"] = ops;
        let error = program(0, &[vec![0; 16], vec![0; 16]], &[step]).err().expect("refused");
        assert!(error.message.contains(text), "{error}");
    }
}

/// One step of each kernel, valid for four buffers of 4 KiB and an arena of 64 KiB.
fn seeds() -> Vec<Value> {
    let window = |k: &str| {
        json!({ "k": k, "op": "max", "dtype": "f32", "n": 2, "h": 4, "w": 4, "c": 3, "oh": 2, "ow": 2, "window": [1, 2, 2], "strides": [1, 2, 2],
        "dilation": [1, 1, 2], "padding": [[0, 0], [0, 0], [0, 0]], "in": [1, 0], "source": [2, 0], "out": [3, 0] })
    };
    let conv = |k: &str, extra: Value| {
        let mut step = json!({ "k": k, "dtype": "f32", "n": 2, "h": 5, "w": 5, "c": 2, "kh": 3, "kw": 3, "o": 3, "oh": 5, "ow": 5, "strides": [1, 1, 1],
            "padding": [[0, 0], [1, 1], [1, 1]], "inputDilation": [1, 1, 1], "kernelDilation": [1, 1, 1], "x": [1, 0], "out": [3, 0], "scratch": [0, 0], "slots": 2 });
        for (key, value) in extra.as_object().expect("an object") {
            step[key] = value.clone();
        }
        step
    };
    vec![
        json!({ "k": "fused", "shape": [8, 16], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [16, 1] }, { "at": [2, 0], "dtype": "i32", "strides": [1, 8] }],
            "ops": [["cast", "f32", 1], ["add", "f32", 0, 2], ["iota", "i32", 1], ["div", "i32", 1, 4], ["const", "f32", 2], ["lt", "f32", 3, 6], ["select", "f32", 7, 3, 6]],
            "out": [{ "at": [3, 0], "dtype": "f32", "strides": [16, 1], "reg": 8 }, { "at": [4, 0], "dtype": "i32", "strides": [1, 8], "reg": 5 }] }),
        json!({ "k": "reduce", "op": "sum", "dtype": "f32", "in": [1, 0], "keep": [8], "keepStrides": [1], "over": [20], "overStrides": [8], "out": [2, 0] }),
        json!({ "k": "argMax", "dtype": "f32", "rows": 8, "cols": 20, "in": [1, 0], "out": [2, 0] }),
        json!({ "k": "dot", "dtype": "f32", "b": 2, "m": 5, "k2": 7, "n": 6, "x": { "at": [1, 0], "strides": [35, 7, 1] }, "y": { "at": [2, 0], "strides": [42, 1, 7] }, "out": { "at": [3, 0], "strides": [30, 6, 1] } }),
        conv("conv", json!({ "weight": { "at": [2, 0], "strides": [54, 54, 18, 6, 3, 1] } })),
        conv("convFilter", json!({ "dy": [2, 0] })),
        conv("conv", json!({ "g": 2, "d": 2, "kd": 2, "weight": { "at": [2, 0], "strides": [108, 54, 18, 6, 3, 1] } })),
        conv("convGroups", json!({ "g": 2, "weight": { "at": [2, 0], "strides": [108, 36, 12, 6, 2, 1] } })),
        conv("convGroupsFilter", json!({ "g": 2, "dy": [2, 0] })),
        window("reduceWindow"),
        window("selectAndScatter"),
        window("windowTake"),
        json!({ "k": "gather", "dtype": "f32", "outer": 2, "size": 8, "inner": 4, "count": 6, "in": [1, 0], "indices": [2, 0], "out": [3, 0] }),
        json!({ "k": "scatterAdd", "dtype": "f32", "outer": 2, "size": 8, "inner": 4, "count": 6, "updates": [1, 0], "indices": [2, 0], "out": [3, 0] }),
        json!({ "k": "scatter", "op": "max", "dtype": "f32", "outer": 2, "size": 8, "inner": 4, "count": 6, "in": [1, 0], "updates": [1, 0], "indices": [2, 0], "out": [3, 0] }),
        json!({ "k": "dynamicSlice", "dtype": "f32", "shape": [8, 8], "sizes": [3, 8], "in": [1, 0], "starts": [[2, 0], [2, 4]], "out": [3, 0] }),
        json!({ "k": "dynamicUpdateSlice", "dtype": "f32", "shape": [8, 8], "sizes": [3, 8], "in": [1, 0], "update": [4, 0], "starts": [[2, 0], [2, 4]], "out": [3, 0] }),
        json!({ "k": "randomBits", "key": [1, 0], "start": [2, 0], "shape": [4, 5], "total": [8, 5], "stream": 1, "out": [3, 0] }),
        json!({ "k": "softmaxCrossEntropy", "dtype": "f32", "rows": 4, "cols": 5, "logits": [1, 0], "labels": [2, 0], "out": [3, 0] }),
        json!({ "k": "softmaxCrossEntropyGrad", "dtype": "f32", "rows": 4, "cols": 5, "logits": [1, 0], "labels": [2, 0], "dy": [4, 0], "out": [3, 0] }),
        json!({ "k": "axisIndex", "axis": 0, "out": [3, 0] }),
        json!({ "k": "collective", "op": "allReduce", "axis": 0, "reduction": "sum", "dtype": "f32", "parts": [{ "in": [1, 0], "out": [2, 0], "count": 9 }], "label": "x" }),
        json!({ "k": "send", "axis": 0, "to": 1, "dtype": "f32", "parts": [{ "in": [1, 0], "count": 9 }], "label": "x" }),
        json!({ "k": "receive", "axis": 0, "from": 1, "dtype": "f32", "parts": [{ "out": [3, 0], "count": 9 }], "label": "x" }),
    ]
}

/// Changes one place of a value.
fn mutate(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(map) if random.below(12) > 0 => {
            let i = random.below(map.len());
            if random.below(30) == 0 {
                let key = map.keys().nth(i).cloned();
                key.and_then(|key| map.remove(&key));
            } else if let Some(inner) = map.values_mut().nth(i) {
                mutate(inner, random);
            }
        }
        Value::Array(items) if !items.is_empty() && random.below(12) > 0 => {
            let i = random.below(items.len());
            match random.below(30) {
                0 => drop(items.remove(i)),
                1 => items.push(items[i].clone()),
                2 => items.swap(i, 0),
                _ => mutate(&mut items[i], random),
            }
        }
        _ => *value = replacement(value, random),
    }
}

fn replacement(old: &Value, random: &mut Random) -> Value {
    const NUMBERS: [i64; 20] =
        [0, 1, 2, 3, 4, 5, 7, 8, 16, 20, -1, -2, -8, 64, 1000, 4092, 4096, 65535, 1 << 31, i64::MAX];
    const WORDS: [&str; 24] = [
        "f32",
        "f64",
        "i32",
        "u32",
        "u8",
        "bool",
        "sum",
        "max",
        "min",
        "and",
        "or",
        "add",
        "div",
        "rem",
        "cast",
        "select",
        "lt",
        "exp",
        "iota",
        "allGather",
        "reduceScatter",
        "inf",
        "nan",
        "",
    ];
    match (old, random.below(10)) {
        (Value::Number(n), 0..=3) => json!(n.as_i64().unwrap_or(0).saturating_add(NUMBERS[random.below(10)])),
        (Value::Number(_), 4..=8) => json!(NUMBERS[random.below(NUMBERS.len())]),
        (Value::String(_), 0..=8) => json!(WORDS[random.below(WORDS.len())]),
        (_, 0) => json!([]),
        (_, 1) => json!({}),
        (_, 2) => Value::Null,
        (_, 3) => json!(1.5),
        (_, 4) => json!(WORDS[random.below(WORDS.len())]),
        _ => json!(NUMBERS[random.below(NUMBERS.len())]),
    }
}

#[test]
fn mutated_programs_never_crash() {
    let mut random = Random(20260827);
    let seeds = seeds();
    let contents: Vec<Vec<u8>> =
        (0..4).map(|_| (0..4096).map(|_| random.below(3) as u8 * (random.below(5) == 0) as u8).collect()).collect();
    let (mut accepted, mut ran) = (0, 0);
    // More rounds are for hunting by hand.
    let rounds = std::env::var("HEDDLE_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12000);
    for round in 0..rounds {
        let mut step = seeds[round % seeds.len()].clone();
        for _ in 0..round / seeds.len() % 4 {
            mutate(&mut step, &mut random);
        }
        // Now and then beside a collective that is under way.
        let mut steps = vec![step];
        if round % 3 == 0 {
            steps.insert(
                0,
                json!({ "k": "collective", "op": "allReduce", "axis": 0, "reduction": "sum", "dtype": "f32",
                "parts": [{ "in": [4, 2048], "out": [4, 3072], "count": 64 }], "flight": 0, "members": 1 }),
            );
            steps.push(json!({ "k": "wait", "flight": 0 }));
            mutate(&mut steps[0], &mut random);
        }
        let text = json!({ "version": 1, "name": "fuzz", "arena": 65536, "buffers": vec![json!({ "bytes": 4096 }); 4], "steps": steps }).to_string();
        let Ok(program) = Program::parse(&text) else { continue };
        accepted += 1;
        if program.total_bytes() > 1 << 30 {
            continue;
        }
        let isa = Isa::available()[round % Isa::available().len()];
        ran += usize::from(run_on(isa, 1 + round % 2, &program, &contents).is_ok());
    }
    assert!(accepted > 3000 && ran > 2000, "{accepted} accepted, {ran} ran");
}

#[test]
fn mutated_headers_never_crash() {
    let mut random = Random(99);
    for _ in 0..3000 {
        let mut whole = json!({ "version": 1, "name": "fuzz", "arena": 64, "buffers": [{ "bytes": 16 }, { "bytes": 16 }], "steps": [fused(json!([2, 0]), json!([1]))] });
        mutate(&mut whole, &mut random);
        let _ = Program::parse(&whole.to_string());
    }
    for text in ["", "null", "[]", "{", "{\"version\":1}", "{\"version\":1,\"arena\":1e30,\"buffers\":[],\"steps\":[]}"]
    {
        assert!(Program::parse(text).is_err());
    }
}
