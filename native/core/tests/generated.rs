//! Generated kernels against the interpreter of tiles: the same bits, on random groups and on every edge of a row.
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use heddle_core::generate::{kept, Generate};
use heddle_core::isa::Isa;
use serde_json::{json, Value};

const UNARY: [&str; 16] = [
    "neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "logistic", "erf", "floor", "ceil",
    "round", "softplus",
];
const BINARY: [&str; 6] = ["add", "sub", "mul", "div", "max", "min"];
const COMPARE: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const INTEGER: [&str; 10] = ["add", "sub", "mul", "max", "min", "and", "or", "xor", "shiftLeft", "shiftRight"];

struct Group {
    random: Random,
    dtypes: Vec<&'static str>,
    ops: Vec<Value>,
}

impl Group {
    fn pick(&mut self, dtype: &str) -> usize {
        let of: Vec<usize> = (0..self.dtypes.len()).filter(|i| self.dtypes[*i] == dtype).collect();
        // Mostly recent ones, so that values die and registers are reused; now and then an old one.
        let back = if self.random.below(4) == 0 { of.len() } else { of.len().min(4) };
        of[of.len() - 1 - self.random.below(back)]
    }

    fn push(&mut self, op: Value, dtype: &'static str) {
        self.ops.push(op);
        self.dtypes.push(dtype);
    }

    fn step(&mut self, double: bool) {
        let float = if double && self.random.below(2) == 0 { "f64" } else { "f32" };
        let unary: &[&str] = if float == "f64" { &UNARY[..6] } else { &UNARY };
        match self.random.below(12) {
            0..4 => {
                let (name, x) = (unary[self.random.below(unary.len())], self.pick(float));
                self.push(json!([name, float, x]), float);
            }
            4..7 => {
                let (name, x, y) = (BINARY[self.random.below(6)], self.pick(float), self.pick(float));
                self.push(json!([name, float, x, y]), float);
            }
            7 => {
                let (name, x, y) = (COMPARE[self.random.below(6)], self.pick(float), self.pick(float));
                self.push(json!([name, float, x, y]), "bool");
            }
            8 => {
                let (c, x, y) = (self.pick("bool"), self.pick(float), self.pick(float));
                self.push(json!(["select", float, c, x, y]), float);
            }
            9 => {
                let dtype = ["i32", "u32"][self.random.below(2)];
                let (name, x, y) = (INTEGER[self.random.below(10)], self.pick(dtype), self.pick(dtype));
                self.push(json!([name, dtype, x, y]), dtype);
                let (name, x, y) = (COMPARE[self.random.below(6)], self.pick(dtype), self.pick(dtype));
                self.push(json!([name, dtype, x, y]), "bool");
            }
            10 => {
                let (from, to) =
                    [("f32", "i32"), ("i32", "f32"), ("bool", "f32"), ("i32", "u32"), ("f32", "bool"), ("u8", "f32")]
                        [self.random.below(6)];
                let x = self.pick(from);
                self.push(json!(["cast", to, x]), to);
            }
            _ => {
                let name = ["and", "or", "xor", "eq", "lt", "ge"][self.random.below(6)];
                let (x, y) = (self.pick("bool"), self.pick("bool"));
                self.push(json!([name, "bool", x, y]), "bool");
                let value = [0.0, -0.0, 0.5, 1.0, -3.0, 1e30][self.random.below(6)];
                self.push(json!(["const", float, value]), float);
            }
        }
    }
}

/// Floats of every sort: ordinary, tiny, huge, special.
fn floats(random: &mut Random, n: usize) -> Vec<f64> {
    let special =
        [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, -3e-45, 3e38, f64::from(f32::MIN_POSITIVE)];
    (0..n)
        .map(|_| match random.below(8) {
            0 => special[random.below(special.len())],
            1 => f64::from(f32::from_bits(random.bits() as u32)),
            _ => random.float() * 5.0,
        })
        .collect()
}

fn values(random: &mut Random, dtype: &str, n: usize) -> Vec<u8> {
    match dtype {
        "f32" | "f64" => encode(dtype, &floats(random, n)),
        "bool" => (0..n).map(|_| random.below(2) as u8).collect(),
        "u8" => (0..n).map(|_| random.below(256) as u8).collect(),
        _ => (0..n).flat_map(|_| (random.bits() as u32 >> random.below(30)).to_le_bytes()).collect(),
    }
}

/// Bits, with every NaN the same: their payloads depend on the order of operands.
fn canonical(dtype: &str, bytes: &[u8]) -> Vec<u64> {
    let values = bytes.chunks_exact(size(dtype));
    values
        .map(|c| {
            let mut word = [0; 8];
            word[..c.len()].copy_from_slice(c);
            let bits = u64::from_le_bytes(word);
            match dtype {
                "f32" if f32::from_bits(bits as u32).is_nan() => u64::MAX,
                "f64" if f64::from_bits(bits).is_nan() => u64::MAX,
                _ => bits,
            }
        })
        .collect()
}

/// Runs by every instruction set, generated and interpreted, and wants the same everywhere.
fn compare(step: &Value, dtypes: &[&str], contents: &[Vec<u8>], what: &str) {
    let on = program_with(0, contents, std::slice::from_ref(step), Generate::On).expect("program");
    let off = program_with(0, contents, std::slice::from_ref(step), Generate::Off).expect("program");
    let mut want: Option<Vec<Vec<u64>>> = None;
    for isa in Isa::available() {
        for (program, threads) in [(&off, 1), (&on, 1), (&on, 3)] {
            let buffers = run_on(isa, threads, program, contents).expect("runs");
            let got: Vec<Vec<u64>> = buffers.iter().zip(dtypes).map(|(b, d)| canonical(d, b)).collect();
            let want = want.get_or_insert_with(|| got.clone());
            for (b, (got, want)) in got.iter().zip(want.iter()).enumerate() {
                let at = got.iter().zip(want.iter()).position(|(g, w)| g != w);
                assert!(
                    at.is_none(),
                    "{what}, {}: buffer {b} ({}) differs at {at:?}: {:x?} for {:x?}: {step}",
                    isa.name(),
                    dtypes[b],
                    at.map(|i| got[i]),
                    at.map(|i| want[i])
                );
            }
        }
    }
}

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
    let mut inputs = vec!["f32", "f32", "bool", "i32", "u32", "u8"];
    if double {
        inputs.extend(["f64", "f64"]);
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

#[test]
fn every_length_of_a_row() {
    let ops = json!([["exp", "f32", 0], ["lt", "f32", 0, 1], ["select", "f32", 3, 2, 1], ["max", "f32", 4, 1]]);
    let mut random = Random(7);
    for n in 1..=80 {
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
        let step = json!({ "k": "fused", "shape": [n], "in": [view(1)], "out": [view(2)],
            "ops": [["const", "f32", value], ["add", "f32", 0, 1]] });
        program_with(0, &[zeros("f32", n), zeros("f32", n)], &[step], Generate::On).expect("program")
    };
    (0..1200).for_each(|i| drop(load(f64::from(i), 64)));
    assert!(kept() <= 512, "{} kernels are kept", kept());
}
