//! Malformed programs are errors that say where, and mutated ones never crash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::common::damage::{in_ops, name, paths, refusals, replaced};
use crate::common::seeds::{contents, seeds, steps, ARENA, BYTES};
use crate::common::*;
use heddle_core::buffer::Buffer;
use heddle_core::collectives::Alone;
use heddle_core::exec::Device;
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
        (json!({ "k": "nonsense" }), "op 0 (nonsense): there is no kernel nonsense"),
        (json!({ "k": "fused" }), "missing field `shape`"),
        (json!({ "k": "axisIndex", "axis": 0, "out": [2, 0], "axes": 1 }), "unknown field `axes`, there are axis, out"),
        (exchange(json!([[0, 3]]), json!([[0, 4]])), "the counts of [(0, 3)] do not add up to 4 elements"),
        (exchange(json!([[0, 4]]), json!([[0, 5]])), "parts[0].out: f32 of shape [5]"),
        (exchange(json!([[0, 4]]), json!([[0, -1]])), "invalid value"),
        (reduce("and", "f32"), "And of f32 is not supported"),
        (reduce("sum", "bool"), "Sum of bool is not supported"),
    ];
    for (step, text) in cases {
        let error = program(0, &[vec![0; 16], vec![0; 16]], std::slice::from_ref(&step))
            .err()
            .unwrap_or_else(|| panic!("accepted: {step}"));
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn overlaps_are_refused() {
    let mut shifted = fused(json!([1, 4]), json!([1]));
    shifted["shape"] = json!([3]);
    let error = program(0, &[vec![0; 16]], &[shifted]).err().expect("refused");
    assert!(
        error.to_string().contains("out[0] (bytes 4..16 of space 1) overlaps in[0] (bytes 0..12 of space 1)"),
        "{error}"
    );
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
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Bytes behind each buffer that no kernel may touch.
const GUARD: usize = 320;

/// Runs a program on buffers with guards; what it does not say it writes must be as before.
fn guarded(isa: Isa, threads: usize, program: &Program, contents: &[Vec<u8>]) -> heddle_core::Result<()> {
    let mut buffers: Vec<Buffer> = contents.iter().map(|c| Buffer::new(c.len() + GUARD).expect("memory")).collect();
    for (buffer, content) in buffers.iter_mut().zip(contents) {
        let (own, guard) = buffer.as_mut_slice().split_at_mut(content.len());
        own.copy_from_slice(content);
        guard.fill(0xa5);
    }
    let mut device = Device::new(threads, isa, vec![0, 0], Arc::new(Alone));
    // A damaged loop may go on for ever.
    let (control, done) = (device.control.clone(), Arc::new(AtomicBool::new(false)));
    let ended = done.clone();
    if program.steps > 1 {
        std::thread::spawn(move || {
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(1));
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
            control.abort("long enough");
        });
    }
    let result = device.run(program, &buffers.iter().collect::<Vec<_>>());
    done.store(true, Ordering::Relaxed);
    for (i, (buffer, content)) in buffers.iter().zip(contents).enumerate() {
        let (own, guard) = buffer.as_slice().split_at(content.len());
        assert!(guard.iter().all(|byte| *byte == 0xa5), "{} wrote behind buffer {i}", isa.name());
        assert!(program.written[i] || own == content, "{} wrote buffer {i}, which is an input", isa.name());
    }
    result
}

fn parse(steps: &[Value]) -> heddle_core::Result<Program> {
    program(ARENA, &contents(), steps)
}

#[test]
fn every_valid_step_runs() {
    for step in steps() {
        let program = parse(std::slice::from_ref(&step)).unwrap_or_else(|e| panic!("{e}: {step}"));
        for isa in Isa::available() {
            let result = guarded(isa, 2, &program, &contents());
            // There is no other device.
            let alone = ["send", "receive"].contains(&step["k"].as_str().unwrap_or(""));
            assert_eq!(result.is_err(), alone, "{}: {:?}: {step}", isa.name(), result.err());
        }
    }
}

#[test]
fn damage_is_refused() {
    let mut count = 0;
    let mut accepted = Vec::new();
    for seed in seeds() {
        let step = &seed.step;
        for damaged in refusals(&seed) {
            count += 1;
            // Sizes of a collective's outputs are known when it runs.
            let late = |program| step["k"] == "collective" && guarded(Isa::Scalar, 1, &program, &contents()).is_err();
            if parse(std::slice::from_ref(&damaged)).is_ok_and(|program| !late(program)) {
                accepted.push(format!("{damaged}\n  made of {step}"));
            }
        }
    }
    assert!(accepted.is_empty(), "{} accepted:\n{}", accepted.len(), accepted.join("\n"));
    assert!(count > 10_000, "{count}");
}

const DTYPES: [&str; 11] = ["f32", "f64", "f16", "bf16", "i32", "u32", "u8", "i8", "i64", "u64", "bool"];

/// Other dtypes, and values at the limits of what is accepted: an error, or a run within the buffers.
#[test]
fn what_is_not_refused_stays_within_its_buffers() {
    let (mut refused, mut ran) = (0, 0);
    for (i, step) in steps().iter().enumerate() {
        let mut all = Vec::new();
        paths(step, String::new(), &mut all);
        for path in &all {
            let others: Vec<Value> = match step.pointer(path) {
                Some(Value::String(_)) if name(path) == "dtype" || in_ops(path) => {
                    DTYPES.iter().map(|d| json!(d)).collect()
                }
                Some(Value::Number(_)) => {
                    [0i64, 1, 2, -1, 3, 63, 4096, i32::MAX as i64, i64::MIN].map(|n| json!(n)).to_vec()
                }
                Some(Value::Array(_)) => vec![json!([])],
                Some(Value::Bool(old)) => vec![json!(!old)],
                _ => Vec::new(),
            };
            for other in others {
                let Ok(program) = parse(&[replaced(step, path, other)]) else {
                    refused += 1;
                    continue;
                };
                if program.total_bytes() <= 1 << 28 {
                    let isa = Isa::available()[(i + refused) % Isa::available().len()];
                    ran += usize::from(guarded(isa, 1 + ran % 2, &program, &contents()).is_ok());
                }
            }
        }
    }
    assert!(refused > 3000 && ran > 1500, "{refused} refused, {ran} ran");
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
    const WORDS: [&str; 31] = [
        "f32", "f64", "f16", "bf16", "i8", "i64", "u64", "prod", "replace", "i32", "u32", "u8", "bool", "sum", "max",
        "min", "and", "or", "add", "div", "rem", "cast", "select", "lt", "exp", "iota", "allGather", "reduceScatter",
        "inf", "nan", "",
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

/// Changes a few characters of a text.
fn scribbled(text: String, random: &mut Random) -> String {
    const MARKS: &[u8] = b"0123456789-.,:[]{}\"eux ";
    let mut bytes = text.into_bytes();
    for _ in 0..1 + random.below(3) {
        let i = random.below(bytes.len());
        match random.below(4) {
            0 => drop(bytes.remove(i)),
            1 => bytes.insert(i, MARKS[random.below(MARKS.len())]),
            _ => bytes[i] = MARKS[random.below(MARKS.len())],
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn mutated_programs_never_crash() {
    let mut random = Random(20260827);
    let seeds = steps();
    let contents: Vec<Vec<u8>> =
        (0..4).map(|_| (0..BYTES).map(|_| random.below(3) as u8 * (random.below(5) == 0) as u8).collect()).collect();
    let (mut accepted, mut ran) = (0, 0);
    // More rounds are for hunting by hand.
    let rounds = std::env::var("HEDDLE_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(16000);
    for round in 0..rounds {
        let mut step = seeds[round % seeds.len()].clone();
        for _ in 0..round / seeds.len() % 4 {
            mutate(&mut step, &mut random);
        }
        // Now and then beside an asynchronous collective.
        let mut steps = vec![step];
        if round % 3 == 0 {
            steps.insert(
                0,
                json!({ "k": "collective", "op": "allReduce", "axis": 0, "reduction": "sum", "dtype": "f32",
                "parts": [{ "in": [4, 2048], "out": [4, 3072], "count": 64 }], "handle": 0, "members": 1 }),
            );
            steps.push(json!({ "k": "wait", "handle": 0 }));
            mutate(&mut steps[0], &mut random);
        }
        let text = json!({ "version": 1, "name": "fuzz", "arena": ARENA, "buffers": vec![json!({ "bytes": BYTES }); 4], "steps": steps }).to_string();
        let text = if round % 5 == 0 { scribbled(text, &mut random) } else { text };
        let Ok(program) = Program::parse(&text) else { continue };
        accepted += 1;
        if program.total_bytes() > 1 << 30 {
            continue;
        }
        let isa = Isa::available()[round % Isa::available().len()];
        ran += usize::from(guarded(isa, 1 + round % 2, &program, &contents).is_ok());
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
