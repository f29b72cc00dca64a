//! Loops and branches: what they compute, what is refused, how they end.

use std::sync::Arc;
use std::time::Duration;

use heddle_core::buffer::Buffer;
use heddle_core::collectives::Alone;
use heddle_core::exec::Device;
use heddle_core::isa::Isa;
use heddle_core::profile::{HEAD, PER_STEP};
use heddle_core::program::Program;
use heddle_core::Fault;
use serde_json::{json, Value};

const COUNT: [usize; 2] = [0, 0];
const TEST: [usize; 2] = [0, 64];

/// `to = op(from…)` for one i32.
fn scalar(op: &str, from: &[[usize; 2]], to: [usize; 2]) -> Value {
    let inputs: Vec<Value> = from.iter().map(|at| json!({ "at": at, "dtype": "i32", "strides": [] })).collect();
    let mut instruction = vec![json!(op), json!("i32")];
    instruction.extend((0..from.len()).map(|register| json!(register)));
    let dtype = if op == "lt" || op == "eq" { "bool" } else { "i32" };
    let out = json!([{ "at": to, "dtype": dtype, "strides": [], "reg": from.len() }]);
    json!({ "k": "fused", "shape": [], "in": inputs, "ops": [instruction], "out": out })
}

fn parse(steps: Value) -> heddle_core::Result<Program> {
    let buffers = [json!({ "bytes": 4 }), json!({ "bytes": 4 })];
    Program::parse(
        &json!({ "version": 1, "name": "test", "arena": 128, "buffers": buffers, "steps": steps }).to_string(),
    )
}

fn device() -> Device {
    Device::new(1, Isa::Scalar, Vec::new(), Arc::new(Alone))
}

/// Runs steps on two i32 and returns them.
fn run(steps: Value, values: [i32; 2]) -> heddle_core::Result<Vec<f64>> {
    let program = parse(steps)?;
    let buffers: Vec<Buffer> = values.iter().map(|_| Buffer::new(4).expect("memory")).collect();
    for (buffer, value) in buffers.iter().zip(values) {
        unsafe { *buffer.as_ptr().cast::<i32>() = value };
    }
    device().run(&program, &buffers.iter().collect::<Vec<_>>())?;
    Ok(buffers.iter().map(|buffer| unsafe { *buffer.as_ptr().cast::<i32>() } as f64).collect())
}

const X: [usize; 2] = [1, 0];
const Y: [usize; 2] = [2, 0];

#[test]
fn counts_up_and_down() {
    // x = x * y + count: the order of the counts is seen.
    let body = json!([scalar("mul", &[X, Y], X), scalar("add", &[X, COUNT], X)]);
    let up = json!([{ "k": "loop", "count": 3, "reverse": false, "out": COUNT, "steps": body }]);
    let down = json!([{ "k": "loop", "count": 3, "reverse": true, "out": COUNT, "steps": body }]);
    let none = json!([{ "k": "loop", "count": 0, "out": COUNT, "steps": body }]);
    assert_eq!(run(up, [0, 10]).expect("runs"), [12.0, 10.0]);
    assert_eq!(run(down, [0, 10]).expect("runs"), [210.0, 10.0]);
    assert_eq!(run(none, [7, 10]).expect("runs"), [7.0, 10.0]);
}

#[test]
fn ends_when_the_condition_does() {
    let steps = json!([{ "k": "loop", "out": COUNT, "test": TEST, "condition": [scalar("lt", &[X, Y], TEST)],
        "steps": [scalar("add", &[X, X], X)] }]);
    assert_eq!(run(steps.clone(), [3, 50]).expect("runs"), [96.0, 50.0]);
    assert_eq!(run(steps, [60, 50]).expect("runs"), [60.0, 50.0]);
}

#[test]
fn takes_one_branch() {
    let steps = json!([scalar("lt", &[X, Y], TEST), { "k": "branch", "test": TEST, "steps": [scalar("add", &[X, Y], X)],
        "otherwise": [scalar("sub", &[X, Y], X)] }]);
    assert_eq!(run(steps.clone(), [1, 2]).expect("runs"), [3.0, 2.0]);
    assert_eq!(run(steps, [5, 2]).expect("runs"), [3.0, 2.0]);
}

#[test]
fn malformed_ones_are_refused() {
    let inner = |steps: Value| json!([{ "k": "loop", "count": 1, "out": COUNT, "steps": steps }]);
    let mut deep = inner(json!([]));
    for _ in 0..20 {
        deep = inner(deep);
    }
    let cases = [
        (inner(json!([scalar("add", &[[3, 0], X], X)])), "op 0 (loop): op 0 (fused): in[0]: space 3 does not exist"),
        (json!([{ "k": "loop", "out": COUNT, "steps": [] }]), "needs either a count or a test"),
        (
            json!([{ "k": "loop", "count": 1, "test": TEST, "out": COUNT, "steps": [] }]),
            "needs either a count or a test",
        ),
        (json!([{ "k": "loop", "test": TEST, "reverse": true, "out": COUNT, "steps": [] }]), "can run in reverse"),
        (json!([{ "k": "loop", "count": 1u64 << 40, "out": COUNT, "steps": [] }]), "is too large"),
        (json!([{ "k": "loop", "count": 1, "out": [0, 126], "steps": [] }]), "not aligned"),
        (json!([{ "k": "loop", "count": 1, "out": [0, 128], "steps": [] }]), "covers bytes"),
        (json!([{ "k": "branch", "test": [0, 128], "steps": [], "otherwise": [] }]), "covers bytes"),
        (deep, "nested deeper than 16"),
    ];
    for (steps, text) in cases {
        let error = parse(steps.clone()).err().unwrap_or_else(|| panic!("accepted: {steps}"));
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn errors_name_the_iteration() {
    let steps = json!([{ "k": "loop", "count": 9, "out": COUNT, "steps": [scalar("sub", &[Y, COUNT], Y), scalar("div", &[X, Y], X)] }]);
    let error = run(steps, [5, 3]).expect_err("divides by zero");
    assert_eq!(error.fault, Fault::ZeroDivisor { op: "div", dtype: "i32", division: 0, of: 1 });
    let place = &error.place;
    assert_eq!((place.step, place.kernel, place.call), (Some(0), Some("loop"), Some(2)));
    assert_eq!(place.iterations, [2]);
}

#[test]
fn an_endless_loop_can_be_aborted() {
    let steps = json!([scalar("eq", &[X, X], TEST)]);
    let endless = json!([{ "k": "loop", "out": COUNT, "test": TEST, "condition": steps, "steps": [] }]);
    let program = parse(endless).expect("verified");
    let mut device = device();
    let control = device.control.clone();
    let thread = std::thread::spawn(move || {
        let buffers = [Buffer::new(4).expect("memory"), Buffer::new(4).expect("memory")];
        device.run(&program, &[&buffers[0], &buffers[1]])
    });
    std::thread::sleep(Duration::from_millis(50));
    control.abort("enough");
    let error = thread.join().expect("no panic").expect_err("aborted");
    assert_eq!(error.fault, Fault::Aborted { reason: "enough".into() });
}

#[test]
fn a_profile_times_each_step_at_any_depth() {
    let body = json!([scalar("mul", &[X, Y], X), scalar("add", &[X, COUNT], X)]);
    let steps = json!([
        scalar("add", &[X, Y], X),
        { "k": "loop", "count": 3, "reverse": false, "out": COUNT, "steps": body },
        scalar("add", &[X, Y], X),
    ]);
    let program = parse(steps).expect("parses");
    assert_eq!(program.steps, 5);
    let buffers = [Buffer::new(4).expect("memory"), Buffer::new(4).expect("memory")];
    let arguments: Vec<&Buffer> = buffers.iter().collect();
    let mut device = device();
    let times = device.profile(&program, &arguments).expect("runs");
    let (head, steps) = times.split_at(HEAD);
    let [starts, totals, counts] = [0, 1, 2].map(|i| steps.chunks(PER_STEP).map(|s| s[i]).collect::<Vec<_>>());
    assert_eq!(counts, [1.0, 1.0, 3.0, 3.0, 1.0]);
    assert!(starts.is_sorted(), "{starts:?}");
    // What a loop holds is part of its time, and all is part of the run's.
    assert!(totals[2] + totals[3] <= totals[1], "{totals:?}");
    assert!(totals[0] + totals[1] + totals[4] <= head[1], "{totals:?} in {head:?}");
    // A profile does not outlive its run.
    device.run(&program, &arguments).expect("runs");
}
