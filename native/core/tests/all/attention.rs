//! Attention over blocks: bits do not depend on threads, values are those of a naive loop, malformed calls are refused.

use crate::common::*;
use serde_json::{json, Value};

struct Case {
    r: usize,
    n: usize,
    m: usize,
    d: usize,
    e: usize,
    causal: bool,
}

const GROUPS: usize = 2;
const SLOTS: usize = 3;

fn scratch(dtype: &str) -> usize {
    SLOTS * (2 * 64 * 128 * size(dtype) + 4 * 64 * size(dtype) + 4 * 128)
}

/// The call, reading spaces 1 to 3, and the output that is checked last.
fn step(dtype: &str, case: &Case) -> Value {
    let Case { r, n, m, d, e, causal } = *case;
    json!({ "k": "attention", "dtype": dtype, "lead": [GROUPS], "r": r, "n": n, "m": m, "d": d, "e": e, "scale": 0.5, "causal": causal,
        "query": { "at": [1, 0], "strides": strides(&[GROUPS, r, n, d]) },
        "key": { "at": [2, 0], "strides": strides(&[GROUPS, m, d]) },
        "value": { "at": [3, 0], "strides": strides(&[GROUPS, m, e]) },
        "scratch": [0, 0], "slots": SLOTS, "lse": [4, 0], "out": [5, 0] })
}

fn contents(dtype: &str, case: &Case) -> (Vec<Vec<f64>>, Vec<Vec<u8>>) {
    let Case { r, n, m, d, e, .. } = *case;
    let mut random = Random(5 + (n * 31 + m) as u64);
    let given: Vec<Vec<f64>> =
        [GROUPS * r * n * d, GROUPS * m * d, GROUPS * m * e].map(|count| hold(dtype, random.floats(count))).to_vec();
    let mut buffers: Vec<Vec<u8>> = given.iter().map(|values| encode(dtype, values)).collect();
    buffers.extend([zeros(dtype, GROUPS * r * n), zeros(dtype, GROUPS * r * n * e)]);
    (given, buffers)
}

fn naive(case: &Case, given: &[Vec<f64>]) -> Vec<f64> {
    let Case { r, n, m, d, e, causal } = *case;
    let mut out = Vec::new();
    for (g, h, i) in (0..GROUPS).flat_map(|g| (0..r).flat_map(move |h| (0..n).map(move |i| (g, h, i)))) {
        let query = &given[0][((g * r + h) * n + i) * d..][..d];
        let seen = if causal { m.min(i + 1) } else { m };
        let weights: Vec<f64> = (0..seen)
            .map(|j| {
                let key = &given[1][(g * m + j) * d..][..d];
                (0.5 * query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>()).exp()
            })
            .collect();
        let total: f64 = weights.iter().sum();
        out.extend(
            (0..e).map(|c| {
                weights.iter().enumerate().map(|(j, w)| w * given[2][(g * m + j) * e + c]).sum::<f64>() / total
            }),
        );
    }
    out
}

#[test]
fn values_are_those_of_a_naive_loop_whatever_the_threads() {
    for dtype in ["f32", "f64"] {
        for (r, n, m, d, e, causal) in
            [(1, 1, 1, 1, 1, false), (2, 65, 129, 5, 3, true), (1, 130, 20, 8, 17, true), (3, 7, 257, 4, 2, false)]
        {
            let case = Case { r, n, m, d, e, causal };
            let (given, buffers) = contents(dtype, &case);
            check(dtype, tolerance(dtype), scratch(dtype), &buffers, step(dtype, &case), &naive(&case, &given));
        }
    }
}

#[test]
fn malformed_calls_are_refused() {
    let case = Case { r: 1, n: 4, m: 4, d: 2, e: 2, causal: false };
    let (_, buffers) = contents("f32", &case);
    let changed = |field: &str, value: Value| {
        let mut made = step("f32", &case);
        made[field] = value;
        made
    };
    let cases = [
        (changed("n", json!(5)), "query: "),
        (changed("m", json!(0)), "slots and keys must be positive"),
        (changed("slots", json!(0)), "slots and keys must be positive"),
        (changed("dtype", json!("i32")), "attention of i32 is not supported"),
        (changed("out", json!([1, 0])), "overlaps"),
        (changed("scratch", json!([0, 64])), "scratch: "),
        (changed("mask", json!({ "at": [1, 0], "dtype": "u8", "strides": [0, 0, 0, 0] })), "a mask of u8 for f32"),
        (changed("lead", json!([1u64 << 40, 1u64 << 40])), "query: 5 sizes but 4 strides"),
    ];
    for (step, text) in cases {
        let error = program(scratch("f32"), &buffers, std::slice::from_ref(&step))
            .err()
            .unwrap_or_else(|| panic!("accepted: {step}"));
        assert!(error.to_string().contains(text), "{error}");
    }
}
