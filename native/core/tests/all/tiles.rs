//! Register tiles at all their edges, and what is done to results in cache, bit by bit.

use crate::common::*;
use heddle_core::isa::Isa;
use serde_json::{json, Value};

fn f32s(bytes: &[u8]) -> Vec<f32> {
    decode("f32", bytes).into_iter().map(|v| v as f32).collect()
}

/// An element of a product is one chain of multiply-adds for each block of the contracted dim: equal ones of at most 256 steps.
fn chain(k: usize, x: impl Fn(usize) -> f32, y: impl Fn(usize) -> f32) -> f32 {
    let length = k.div_ceil(k.div_ceil(256)).next_multiple_of(4);
    let block = |from: usize| (from..k.min(from + length)).fold(0.0f32, |sum, p| x(p).mul_add(y(p), sum));
    (length..k).step_by(length).fold(block(0), |sum, from| sum + block(from))
}

fn strides(rows: usize, columns: usize, transposed: bool) -> [usize; 3] {
    if transposed {
        [0, 1, rows]
    } else {
        [0, columns, 1]
    }
}

fn tile_case(m: usize, k: usize, n: usize, flags: usize) {
    let mut random = Random(5 + (m * 131 + k * 17 + n) as u64);
    let (x, y) = (hold("f32", random.floats(m * k)), hold("f32", random.floats(k * n)));
    let (xs, ys) = (strides(m, k, flags & 1 > 0), strides(k, n, flags & 2 > 0));
    let step = json!({ "k": "dot", "dtype": "f32", "b": 1, "m": m, "k2": k, "n": n, "x": { "at": [1, 0], "strides": xs },
        "y": { "at": [2, 0], "strides": ys }, "out": { "at": [3, 0], "strides": [0, n, 1] } });
    let contents = [encode("f32", &x), encode("f32", &y), zeros("f32", m * n)];
    for (isa, buffers) in run_all(0, &contents, &[step]).expect("runs") {
        if isa == Isa::Scalar {
            continue;
        }
        for (at, got) in f32s(&buffers[2]).into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want = chain(k, |p| x[i * xs[1] + p * xs[2]] as f32, |p| y[p * ys[1] + j * ys[2]] as f32);
            assert!(got.to_bits() == want.to_bits(), "{}: {m}x{k}x{n} {flags} at {i},{j}", isa.name());
        }
    }
}

#[test]
fn every_height_width_and_turn_of_the_tile() {
    for m in 2..=30 {
        tile_case(m, 9, 33, m % 4);
    }
    for n in 2..=66 {
        tile_case(15, 6, n, n % 4);
    }
    for k in (1..=10).chain([255, 256, 257, 513]) {
        (0..4).for_each(|flags| tile_case(14, k, 32, flags));
    }
}

#[test]
fn slivers_in_groups() {
    for n in [256, 257, 300, 512, 545] {
        tile_case(40, 20, n, 0);
        tile_case(40, 300, n, 1);
    }
    // Rows that lie a multiple of 1024 bytes apart are copied.
    tile_case(30, 256, 100, 0);
}

/// Both ways of saying the same must give the same bits on every instruction set. The output is the last buffer.
fn same(arena: usize, contents: &[Vec<u8>], apart: &[Value], whole: Value) {
    let apart = run_all(arena, contents, apart).expect("runs apart");
    let whole = run_all(arena, contents, std::slice::from_ref(&whole)).unwrap_or_else(|e| panic!("{e}: {whole}"));
    for ((isa, one), (_, other)) in apart.iter().zip(&whole) {
        assert!(one.last() == other.last(), "{}", isa.name());
    }
}

/// `max(out + bias, 0)` as a fused step over rows of `n`.
fn finish(at: [usize; 2], bias: Option<usize>, relu: bool, rows: usize, n: usize) -> Value {
    let mut inputs = vec![json!({ "at": at, "dtype": "f32", "strides": [n, 1] })];
    let mut ops = Vec::new();
    if let Some(space) = bias {
        inputs.push(json!({ "at": [space, 0], "dtype": "f32", "strides": [0, 1] }));
        ops.push(json!(["add", "f32", 0, 1]));
    }
    let mut last = inputs.len() + ops.len() - 1;
    if relu {
        ops.extend([json!(["const", "f32", 0]), json!(["max", "f32", last, last + 1])]);
        last += 2;
    }
    let out = json!([{ "at": at, "dtype": "f32", "strides": [n, 1], "reg": last }]);
    json!({ "k": "fused", "shape": [rows, n], "in": inputs, "ops": ops, "out": out })
}

const FORMS: [(Option<usize>, bool); 3] = [(Some(3), true), (Some(3), false), (None, true)];

fn with(step: &Value, bias: Option<usize>, relu: bool) -> Value {
    let mut step = step.clone();
    step["relu"] = json!(relu);
    if let Some(space) = bias {
        step["bias"] = json!([space, 0]);
    }
    step
}

#[test]
fn products_finish_like_a_fused_step() {
    // The last one is cut into pieces of the contracted dim; the first has elements that are -0, 0 and NaN.
    for (m, k, n) in [(3, 1, 5), (128, 70, 40), (300, 300, 300), (1, 30, 9), (40, 50, 1), (12, 20000, 9)] {
        let mut random = Random(3);
        let mut x = random.floats(m * k);
        (x[0], x[m * k - 1]) = (-0.0, if k == 1 { f64::NAN } else { 0.5 });
        let mut bias = random.floats(n);
        bias[0] = -0.0;
        let contents =
            [encode("f32", &x), encode("f32", &random.floats(k * n)), encode("f32", &bias), zeros("f32", m * n)];
        let step = json!({ "k": "dot", "dtype": "f32", "b": 1, "m": m, "k2": k, "n": n,
            "x": { "at": [1, 0], "strides": [0, k, 1] }, "y": { "at": [2, 0], "strides": [0, n, 1] },
            "out": { "at": [4, 0], "strides": [0, n, 1] } });
        for (bias, relu) in FORMS {
            let apart = [step.clone(), finish([4, 0], bias, relu, m, n)];
            same(0, &contents, &apart, with(&step, bias, relu));
        }
    }
}

#[test]
fn convolutions_finish_like_a_fused_step() {
    for (c, o, kernel, padding) in [(1, 32, 5, 2), (3, 40, 3, 1), (8, 5, 1, 0)] {
        let (n, side) = (3, 9);
        let mut random = Random(9);
        let contents = [
            encode("f32", &random.floats(n * side * side * c)),
            encode("f32", &random.floats(kernel * kernel * c * o)),
            encode("f32", &random.floats(o)),
            zeros("f32", n * side * side * o),
        ];
        let taps = kernel * kernel * c;
        let step = json!({ "k": "conv", "dtype": "f32", "n": n, "h": side, "w": side, "c": c, "kh": kernel, "kw": kernel,
            "o": o, "oh": side, "ow": side, "strides": [1, 1, 1], "padding": [[0, 0], [padding, padding], [padding, padding]],
            "inputDilation": [1, 1, 1], "kernelDilation": [1, 1, 1], "x": [1, 0],
            "weight": { "at": [2, 0], "strides": [0, 0, kernel * c * o, c * o, o, 1] }, "out": [4, 0], "scratch": [0, 0],
            "slots": 2 });
        let arena = (taps * o * 4).next_multiple_of(64) + 2 * (side * side * taps * 4).next_multiple_of(64);
        for (bias, relu) in FORMS {
            let apart = [step.clone(), finish([4, 0], bias, relu, n * side * side, o)];
            same(arena, &contents, &apart, with(&step, bias, relu));
        }
    }
}

#[test]
fn a_gated_scatter_is_the_scatter_and_a_choice() {
    // Windows that fill the input, also with a narrower last one, and channels in whole groups and not.
    for (h, w, c, window, op) in [(4, 6, 32, [2, 2], "max"), (5, 7, 40, [2, 3], "max"), (6, 3, 3, [3, 1], "min")] {
        let (h, w): (usize, usize) = (h, w);
        let out = [h.div_ceil(window[0]), w.div_ceil(window[1])];
        let (n, mut random) = (3, Random(21));
        let mut input = random.floats(n * h * w * c);
        for v in input.iter_mut() {
            // Ties, zeros of both signs and NaN.
            *v = [*v, 0.0, -0.0, 0.5, f64::NAN][random.below(if c == 3 { 5 } else { 4 })];
        }
        let mut source = random.floats(n * out[0] * out[1] * c);
        source[0] = -0.0;
        let padding = [[0, out[0] * window[0] - h], [0, out[1] * window[1] - w]];
        let contents = [encode("f32", &source), encode("f32", &input)];
        let room = n * h * w * c * 4;
        let step = |at: [usize; 2]| {
            json!({ "k": "selectAndScatter", "op": op, "dtype": "f32", "n": n, "h": h, "w": w, "c": c, "oh": out[0],
                "ow": out[1], "window": [1, window[0], window[1]], "strides": [1, window[0], window[1]], "dilation": [1, 1, 1],
                "padding": [[0, 0], padding[0], padding[1]], "in": [2, 0], "source": [1, 0],
                "out": at })
        };
        let flat = |at: [usize; 2]| json!({ "at": at, "dtype": "f32", "strides": [1] });
        let mut made = flat([2, 0]);
        made["reg"] = json!(4);
        let choice = json!({ "k": "fused", "shape": [n * h * w * c], "in": [flat([2, 0]), flat([0, 0])], "out": [made],
            "ops": [["const", "f32", 0], ["le", "f32", 0, 2], ["select", "f32", 3, 2, 1]] });
        let mut gated = step([2, 0]);
        gated["gate"] = json!(true);
        same(room, &contents, &[step([0, 0]), choice], gated);
    }
}
