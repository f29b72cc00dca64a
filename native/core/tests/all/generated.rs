//! Generated kernels against the interpreter of tiles: the same bits, on random groups and on every edge of a row.
#![cfg(target_arch = "x86_64")]

use crate::common::groups::{compare, values, Group, BINARY, UNARY};
use crate::common::*;
use heddle_core::dtype::DType;
use heddle_core::generate::{kept, kernel, Description, Generate, Instruction, View};
use heddle_core::isa::Isa;
use serde_json::json;

/// Offsets a buffer of a view needs.
fn elements(shape: &[usize], strides: &[isize]) -> usize {
    shape.iter().zip(strides).map(|(n, s)| (n - 1) * *s as usize).sum::<usize>() + 1
}

fn random_case(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let double = random.below(3) == 0;
    let shape: Vec<usize> = match random.below(4) {
        0 => vec![1 + random.below(70)],
        1 => vec![1 + random.below(9000)],
        2 => vec![1 + random.below(20), 1 + random.below(100)],
        _ => vec![1 + random.below(4), 1 + random.below(6), 1 + random.below(60)],
    };
    let whole = strides(&shape);
    let mut inputs = vec!["f32", "f32", "bool", "i32", "u32", "u8", "i8", "f16", "bf16"];
    if double {
        inputs.extend(["f64", "f64"]);
    }
    if double || random.below(4) == 0 {
        inputs.extend(["i64", "u64"]);
    }
    let (mut ins, mut contents) = (Vec::new(), Vec::new());
    for (i, dtype) in inputs.iter().enumerate() {
        let view: Vec<isize> = match random.below(5) {
            0 => vec![0; shape.len()],
            // Constant along rows, or the same row again.
            1 => whole.iter().enumerate().map(|(d, s)| if d + 1 == shape.len() { 0 } else { *s }).collect(),
            2 => whole.iter().enumerate().map(|(d, s)| if d + 1 < shape.len() { 0 } else { *s }).collect(),
            _ => whole.clone(),
        };
        contents.push(values(&mut random, dtype, elements(&shape, &view)));
        ins.push(json!({ "at": [i + 1, 0], "dtype": dtype, "strides": view }));
    }
    let steps = 3 + random.below(25);
    let mut group = Group { random, dtypes: inputs.clone(), ops: Vec::new() };
    (0..steps).for_each(|_| group.step(double));
    let mut outs = Vec::new();
    let mut all = inputs.clone();
    for k in 0..1 + group.random.below(3) {
        let reg = group.dtypes.len() - 1 - group.random.below(steps.min(6));
        let dtype = group.dtypes[reg];
        contents.push(vec![0; shape.iter().product::<usize>() * size(dtype)]);
        outs.push(json!({ "at": [inputs.len() + 1 + k, 0], "dtype": dtype, "strides": whole, "reg": reg }));
        all.push(dtype);
    }
    let step = json!({ "k": "fused", "shape": shape, "in": ins, "ops": group.ops, "out": outs });
    compare(&step, &all, &contents, &format!("seed {seed}"));
}

#[test]
fn random_groups() {
    (0..400).for_each(random_case);
    assert!(kept() > 100, "only {} kernels were generated", kept());
}

/// Every function has a kernel of its own, for numbers of every size.
#[test]
fn every_function() {
    let mut random = Random(13);
    let n = 2000;
    for dtype in ["f32", "f64"] {
        let mut x = random.floats(n);
        for (i, x) in x.iter_mut().enumerate() {
            *x *= 2f64.powi([0, 0, 1, 3, -12, 9, 40, 100, -130, 126][i % 10]);
        }
        let contents = [encode(dtype, &x), encode(dtype, &random.floats(n)), zeros(dtype, n)];
        for (name, inputs) in UNARY.iter().map(|f| (*f, vec![0])).chain(BINARY.iter().map(|f| (*f, vec![0, 1]))) {
            let view = |at: usize| json!({ "at": [at, 0], "dtype": dtype, "strides": [1], "reg": 2 });
            let mut op = vec![json!(name), json!(dtype)];
            op.extend(inputs.iter().map(|i| json!(i)));
            let step = json!({ "k": "fused", "shape": [n], "in": as_inputs([view(1), view(2)]), "out": [view(3)], "ops": [op] });
            compare(&step, &[dtype; 3], &contents, name);
            let along = View { dtype: dtype_of(dtype), along: true, streamed: false, fetched: 1 << 12, lanes: None };
            let mut registers: Vec<_> = (0..2).map(|i| (Instruction::Input(i), dtype_of(dtype))).collect();
            registers.push((Instruction::Compute(name.into(), inputs), dtype_of(dtype)));
            let description = Description { views: vec![along; 3], registers, outputs: vec![(2, 2)] };
            for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar) {
                assert!(kernel(&description, isa).is_some(), "{name} of {dtype}, {}", isa.name());
            }
        }
    }
}

/// The interpreter takes fewer steps for tiles whose numbers are all below 2^(2p + 1), with p bits to a number.
#[test]
fn periods_of_near_numbers() {
    let mut random = Random(17);
    let n = 3000;
    for (dtype, limit) in [("f32", 2f64.powi(49)), ("f64", 2f64.powi(107))] {
        let mut x: Vec<f64> = random.floats(n).iter().enumerate().map(|(i, x)| x * 2f64.powi(i as i32 / 60)).collect();
        // Tiles with one number that is not near, and with the last one that is.
        x[n - 1] = limit;
        x[n / 2] = limit * (1.0 - 2f64.powi(-20));
        let contents = [encode(dtype, &x), zeros(dtype, n)];
        for name in ["sin", "cos", "tan"] {
            let view = |at: usize| json!({ "at": [at, 0], "dtype": dtype, "strides": [1], "reg": 1 });
            let op = json!([name, dtype, 0]);
            let step = json!({ "k": "fused", "shape": [n], "in": as_inputs([view(1)]), "out": [view(2)], "ops": [op] });
            compare(&step, &[dtype; 2], &contents, name);
        }
    }
}

fn dtype_of(name: &str) -> DType {
    if name == "f32" {
        DType::F32
    } else {
        DType::F64
    }
}

/// Turns with a huge number, wherever it is, take the longer way to the same bits; folds start again from what they held.
#[test]
fn huge_numbers_among_near_ones() {
    let mut random = Random(17);
    for (dtype, huge) in [("f32", 1e30), ("f64", 1e300), ("f64", f64::NAN)] {
        for n in [1usize, 15, 16, 31, 64, 65, 80, 200] {
            for at in (0..n).step_by(7).map(Some).chain([None, Some(n - 1)]) {
                let mut x = random.floats(n);
                if let Some(at) = at {
                    x[at] = huge;
                }
                let view = |at: usize, reg: usize| json!({ "at": [at, 0], "dtype": dtype, "strides": [1], "reg": reg });
                let ops = json!([
                    ["sin", dtype, 0],
                    ["mul", dtype, 0, 0],
                    ["cos", dtype, 2],
                    ["tan", dtype, 0],
                    ["add", dtype, 1, 3]
                ]);
                let step = json!({ "k": "fused", "shape": [n], "in": as_inputs([view(1, 0)]), "ops": ops, "out": [view(2, 5), view(3, 4)] });
                let contents = [encode(dtype, &x), zeros(dtype, n), zeros(dtype, n)];
                compare(&step, &[dtype; 3], &contents, &format!("{n} of {dtype}, {huge} at {at:?}"));
                let rows = json!({ "k": "fusedRows", "shape": [1, n], "in": [{ "at": [1, 0], "dtype": dtype, "strides": [n, 1] }],
                    "ops": [["sin", dtype, 0], ["fold", dtype, "sum", 1], ["sub", dtype, 0, 2]],
                    "out": [{ "at": [2, 0], "dtype": dtype, "strides": [n, 1], "reg": 3 }, { "at": [3, 0], "dtype": dtype, "strides": [1], "reg": 2 }] });
                compare(&rows, &[dtype; 3], &contents, &format!("row of {n} of {dtype}, {huge} at {at:?}"));
            }
        }
    }
}

/// Copies, conversions to and from f32, and integers of each width, at every length of a row.
#[test]
fn every_length_of_a_row_of_each_dtype() {
    let mut random = Random(9);
    for dtype in ["f16", "bf16", "i8", "u8", "i64", "u64"] {
        let ops = match dtype {
            "f16" | "bf16" => json!([["cast", "f32", 0], ["neg", "f32", 2], ["cast", dtype, 3]]),
            _ => json!([["add", dtype, 0, 1], ["sub", dtype, 0, 2], ["xor", dtype, 3, 1]]),
        };
        for n in 1..=40 {
            let view = |at: usize, stride: isize| json!({ "at": [at, 0], "dtype": dtype, "strides": [n, stride] });
            let out = |at: usize, reg: usize| json!({ "at": [at, 0], "dtype": dtype, "strides": [n, 1], "reg": reg });
            let step = json!({ "k": "fused", "shape": [2, n], "in": [view(1, 1), view(2, 0)], "ops": ops,
                "out": [out(3, 4), out(4, 0), out(5, 1)] });
            let (x, y) = (values(&mut random, dtype, 2 * n), values(&mut random, dtype, 2 * n));
            let contents = [x, y, zeros(dtype, 2 * n), zeros(dtype, 2 * n), zeros(dtype, 2 * n)];
            compare(&step, &[dtype; 5], &contents, &format!("{dtype}, rows of {n}"));
        }
    }
}

#[test]
fn every_length_of_a_row() {
    let ops = json!([["exp", "f32", 0], ["lt", "f32", 0, 1], ["select", "f32", 3, 2, 1], ["max", "f32", 4, 1]]);
    let mut random = Random(7);
    for n in 1..=150 {
        for (rows, second) in [(1, 1isize), (3, 1), (3, 0)] {
            let shape = [rows, n];
            let (x, y) = (values(&mut random, "f32", rows * n), values(&mut random, "f32", rows * n));
            let step = json!({ "k": "fused", "shape": shape, "ops": ops,
                "in": [{ "at": [1, 0], "dtype": "f32", "strides": [n, 1] }, { "at": [2, 0], "dtype": "f32", "strides": [second * n as isize, second] }],
                "out": [{ "at": [3, 0], "dtype": "f32", "strides": [n, 1], "reg": 5 }, { "at": [4, 0], "dtype": "bool", "strides": [n, 1], "reg": 3 }] });
            let contents = [x, y, zeros("f32", rows * n), vec![7; rows * n]];
            compare(&step, &["f32", "f32", "f32", "bool"], &contents, &format!("rows of {n}"));
        }
    }
}

#[test]
fn large_outputs_are_streamed() {
    // More than the 16 MiB above which outputs pass the caches; rows end within a vector.
    for (shape, dtype) in [(vec![3_000_001], "f32"), (vec![1000, 2112], "f32"), (vec![1_500_003], "f64")] {
        let n: usize = shape.iter().product();
        let whole = strides(&shape);
        let view = |at: usize| json!({ "at": [at, 0], "dtype": dtype, "strides": whole });
        let mut out = view(3);
        out["reg"] = json!(3);
        let step = json!({ "k": "fused", "shape": shape, "in": [view(1), view(2)], "out": [out],
            "ops": [["mul", dtype, 0, 1], ["add", dtype, 2, 0]] });
        let mut random = Random(11);
        let contents = [encode(dtype, &random.floats(n)), encode(dtype, &random.floats(n)), zeros(dtype, n)];
        compare(&step, &[dtype; 3], &contents, "streamed");
    }
}

#[test]
fn pages_are_never_writable_and_executable() {
    random_case(3);
    assert!(kept() > 0);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let flags = maps.lines().filter_map(|line| line.split_whitespace().nth(1));
    let both: Vec<&str> = flags.filter(|f| f.contains('w') && f.contains('x')).collect();
    assert!(both.is_empty(), "writable and executable pages: {maps}");
    // Code of kernels: executable, private, of no file.
    let mut anonymous = maps.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
    assert!(anonymous.any(|f| f.len() == 5 && f[1] == "r-xp"), "no page of generated code: {maps}");
}

#[test]
fn kept_kernels_are_bounded_and_shared() {
    let view = |at: usize| json!({ "at": [at, 0], "dtype": "f32", "strides": [1], "reg": 2 });
    let load = |value: f64, n: usize| {
        let step = json!({ "k": "fused", "shape": [n], "in": as_inputs([view(1)]), "out": [view(2)],
            "ops": [["const", "f32", value], ["add", "f32", 0, 1]] });
        program_with(0, &[zeros("f32", n), zeros("f32", n)], &[step], Generate::On).expect("program")
    };
    (0..1200).for_each(|i| drop(load(f64::from(i), 64)));
    assert!(kept() <= 512, "{} kernels are kept", kept());
}

#[test]
fn the_switch_of_generated_kernels_refuses_unknown_values() {
    assert_eq!(Generate::parse(None).expect("legal"), Generate::On);
    assert_eq!(Generate::parse(Some("on")).expect("legal"), Generate::On);
    assert_eq!(Generate::parse(Some("off")).expect("legal"), Generate::Off);
    let error = Generate::parse(Some("maybe")).expect_err("malformed");
    assert!(error.to_string().contains("maybe"), "{error}");
}
