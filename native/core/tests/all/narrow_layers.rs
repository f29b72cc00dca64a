//! Layers in bytes, whose three steps may run as one: the bits are those of the steps alone, on every instruction set, and memory that
//! another step reads is there.

use crate::common::*;
use serde_json::{json, Value};

/// Where things lie in the arena; each has room for 128 x 512 numbers.
const X: usize = 0;
const BYTES: usize = 1 << 18;
const SUMS: usize = 2 << 18;
const ZERO: usize = 3 << 18;
const RESULT: usize = 4 << 18;
const ARENA: usize = 5 << 18;

fn view(at: [usize; 2], dtype: &str, strides: &[usize]) -> Value {
    json!({ "at": at, "dtype": dtype, "strides": strides })
}

fn output(at: [usize; 2], dtype: &str, strides: &[usize], reg: usize) -> Value {
    json!({ "at": at, "dtype": dtype, "strides": strides, "reg": reg })
}

/// Rows, contracted dim, columns; where the result is; what stands between the steps; and what comes behind them.
struct Case {
    sizes: [usize; 3],
    result: [usize; 2],
    folds: bool,
    between: Vec<Value>,
    behind: Vec<Value>,
}

/// Buffers: x, weights, sums of the weights, bias, scale and zero point, results, largest, least, and numbers for other steps.
fn steps(case: &Case) -> Vec<Value> {
    let [m, k, n] = case.sizes;
    let given = json!({ "k": "fused", "shape": [m, k], "in": [view([1, 0], "f32", &[k, 1])], "ops": [],
        "out": [output([0, X], "f32", &[k, 1], 0)] });
    let quantise = json!({ "k": "fused", "shape": [m, k],
        "in": [view([0, X], "f32", &[k, 1]), view([5, 0], "f32", &[0, 0]), view([5, 4], "f32", &[0, 0])],
        "ops": [["div", "f32", 0, 1], ["round", "f32", 3], ["add", "f32", 4, 2], ["const", "f32", 0], ["max", "f32", 5, 6],
            ["const", "f32", 255], ["min", "f32", 7, 8], ["cast", "u8", 9]],
        "out": [output([0, BYTES], "u8", &[k, 1], 10)] });
    let product = json!({ "k": "narrowDot", "dtype": "i32", "b": 1, "m": m, "k2": k, "n": n,
        "x": view([0, BYTES], "u8", &[m * k, k, 1]), "y": view([2, 0], "i8", &[n * k, 1, k]),
        "out": { "at": [0, SUMS], "strides": [m * n, n, 1] } });
    // It stands between the product and what reads it, on memory of the bytes where these are no longer read.
    let zero = json!({ "k": "fused", "shape": [n], "in": [view([3, 0], "i32", &[1])], "ops": [["mul", "i32", 0, 0]],
        "out": [output([0, ZERO], "i32", &[1], 1)] });
    let mut follows = json!({ "k": if case.folds { "fusedRows" } else { "fused" }, "shape": [m, n],
        "in": [view([0, SUMS], "i32", &[n, 1]), view([0, ZERO], "i32", &[0, 1]), view([5, 8], "f32", &[0, 0]),
            view([4, 0], "f32", &[0, 1])],
        "ops": [["sub", "i32", 0, 1], ["cast", "f32", 4], ["mul", "f32", 5, 2], ["add", "f32", 6, 3], ["const", "f32", 0],
            ["max", "f32", 7, 8]],
        "out": [output(case.result, "f32", &[n, 1], 9)] });
    if case.folds {
        follows["ops"]
            .as_array_mut()
            .expect("ops")
            .extend([json!(["fold", "f32", "max", 9]), json!(["fold", "f32", "min", 7])]);
        follows["out"]
            .as_array_mut()
            .expect("outputs")
            .extend([output([7, 0], "f32", &[1], 10), output([8, 0], "f32", &[1], 11)]);
    }
    let mut all = vec![given, quantise, product, zero];
    all.extend(case.between.clone());
    all.push(follows);
    all.extend(case.behind.clone());
    all
}

fn run(case: &Case) -> Vec<Vec<u8>> {
    let [m, k, n] = case.sizes;
    let mut random = Random(7 + (m * 31 + k * 17 + n) as u64);
    let bytes: Vec<f64> = (0..n * k).map(|_| random.below(255) as f64 - 127.0).collect();
    let whole: Vec<f64> = (0..n).map(|_| random.below(100) as f64 - 50.0).collect();
    let contents = [
        encode("f32", &random.floats(m * k)),
        encode("i8", &bytes),
        encode("i32", &whole),
        encode("f32", &random.floats(n)),
        encode("f32", &[1.7 / 255.0, 120.0, 0.0013]),
        zeros("f32", m * n),
        zeros("f32", m),
        zeros("f32", m),
        zeros("i32", m * n.max(k)),
    ];
    let mut all = run_all(ARENA, &contents, &steps(case)).expect("runs");
    let (isa, first) = all.remove(0);
    for (other, buffers) in all {
        assert!(buffers == first, "{} and {} differ: {:?}", isa.name(), other.name(), case.sizes);
    }
    first
}

#[test]
fn layers_have_the_bits_of_their_steps() {
    let sizes = [
        [128, 512, 512],
        [128, 64, 256],
        [16, 192, 64],
        [48, 512, 96],
        [33, 128, 32],
        [2, 70, 128],
        [1, 64, 64],
        [128, 100, 40],
    ];
    for (sizes, folds) in sizes.into_iter().flat_map(|sizes| [(sizes, false), (sizes, true)]) {
        // The result may lie on the layer's input, which is no longer needed.
        for result in [[6, 0], [0, RESULT], [0, X]] {
            let [m, _, n] = sizes;
            let copy = json!({ "k": "fused", "shape": [m, n], "in": [view(result, "f32", &[n, 1])], "ops": [],
                "out": [output([6, 0], "f32", &[n, 1], 0)] });
            let behind = if result == [6, 0] { Vec::new() } else { vec![copy] };
            let buffers = run(&Case { sizes, result, folds, between: Vec::new(), behind });
            let results = decode("f32", &buffers[5]);
            assert!(results.iter().any(|value| *value > 0.0));
            if folds {
                let largest = results.chunks(n).map(|row| row.iter().copied().fold(0.0, f64::max));
                assert!(decode("f32", &buffers[6]).into_iter().eq(largest));
            }
        }
    }
}

#[test]
fn what_other_steps_read_is_there() {
    let [m, k, n] = [128, 128, 64];
    let case = |between: Vec<Value>, behind: Vec<Value>| {
        run(&Case { sizes: [m, k, n], result: [6, 0], folds: true, between, behind })
    };
    let plain = case(Vec::new(), Vec::new());
    let read = |at: usize, dtype: &str, shape: [usize; 2], ops: Value| {
        let reg = ops.as_array().expect("ops").len();
        json!({ "k": "fused", "shape": shape, "in": [view([0, at], dtype, &[shape[1], 1])], "ops": ops,
            "out": [output([9, 0], "i32", &[shape[1], 1], reg)] })
    };
    let (sums, bytes) = (read(SUMS, "i32", [m, n], json!([])), read(BYTES, "u8", [m, k], json!([["cast", "i32", 0]])));
    let mut seen = Vec::new();
    for step in [&sums, &bytes] {
        for (between, behind) in [(vec![], vec![step.clone()]), (vec![step.clone()], vec![])] {
            let buffers = case(between, behind);
            assert!(buffers[..8] == plain[..8]);
            assert!(decode("i32", &buffers[8]).iter().any(|value| *value != 0.0));
            seen.push(buffers[8].clone());
        }
    }
    assert!(seen[0] == seen[1] && seen[2] == seen[3]);
    // A step that changes what the layer reads comes behind it, though it stands before the end of the layer.
    let spoil = |at: [usize; 2], dtype: &str, shape: [usize; 2]| json!({ "k": "fused", "shape": shape, "in": [], "ops": [["const", dtype, 1]], "out": [output(at, dtype, &[shape[1], 1], 0)] });
    for step in [spoil([0, X], "f32", [m, k]), spoil([2, 0], "i8", [n, k])] {
        assert!(case(vec![step], Vec::new())[5..8] == plain[5..8]);
    }
    // Memory that is written anew behind the layer may be read again.
    let anew = case(Vec::new(), vec![spoil([0, SUMS], "i32", [m, n]), sums]);
    assert!(decode("i32", &anew[8])[..m * n].iter().all(|value| *value == 1.0));
}
