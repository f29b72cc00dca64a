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

fn scratch(dtype: &str, case: &Case) -> usize {
    SLOTS * (32 * (2 * 128 + case.d + case.e) * size(dtype) + 4 * 128)
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

/// The weights of a query, and its place among the queries of all heads.
fn weights(case: &Case, given: &[Vec<f64>], (g, h, i): (usize, usize, usize)) -> (usize, Vec<f64>) {
    let Case { r, n, m, d, causal, .. } = *case;
    let at = (g * r + h) * n + i;
    let query = &given[0][at * d..][..d];
    let seen = if causal { m.min(i + 1) } else { m };
    let power = |j: usize| {
        let key = &given[1][(g * m + j) * d..][..d];
        (0.5 * query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>()).exp()
    };
    (at, (0..seen).map(power).collect())
}

fn places(case: &Case) -> impl Iterator<Item = (usize, usize, usize)> {
    let Case { r, n, .. } = *case;
    (0..GROUPS).flat_map(move |g| (0..r).flat_map(move |h| (0..n).map(move |i| (g, h, i))))
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
    let Case { m, e, .. } = *case;
    let mut out = Vec::new();
    for (g, h, i) in places(case) {
        let (_, weights) = weights(case, given, (g, h, i));
        let total: f64 = weights.iter().sum();
        out.extend(
            (0..e).map(|c| {
                weights.iter().enumerate().map(|(j, w)| w * given[2][(g * m + j) * e + c]).sum::<f64>() / total
            }),
        );
    }
    out
}

/// The log of each sum, `delta`, and the gradients of query, key and value.
fn naive_gradient(case: &Case, given: &[Vec<f64>], dy: &[f64]) -> [Vec<f64>; 5] {
    let Case { m, d, e, .. } = *case;
    let [mut lse, mut delta] = [vec![], vec![]];
    let [mut dq, mut dk, mut dv] = [0, 1, 2].map(|k: usize| vec![0.0; given[k].len()]);
    for (g, h, i) in places(case) {
        let (at, weights) = weights(case, given, (g, h, i));
        let total: f64 = weights.iter().sum();
        let (dy, key) = (&dy[at * e..][..e], |j: usize| g * m + j);
        let dp = |j: usize| (0..e).map(|c| dy[c] * given[2][key(j) * e + c]).sum::<f64>();
        let mean = weights.iter().enumerate().map(|(j, w)| w / total * dp(j)).sum::<f64>();
        lse.push(total.ln());
        delta.push(mean);
        for (j, w) in weights.iter().enumerate() {
            let ds = 0.5 * w / total * (dp(j) - mean);
            (0..e).for_each(|c| dv[key(j) * e + c] += w / total * dy[c]);
            (0..d).for_each(|c| dq[at * d + c] += ds * given[1][key(j) * d + c]);
            (0..d).for_each(|c| dk[key(j) * d + c] += ds * given[0][at * d + c]);
        }
    }
    [lse, delta, dq, dk, dv]
}

#[test]
fn values_are_those_of_a_naive_loop_whatever_the_threads() {
    for dtype in ["f32", "f64"] {
        for (r, n, m, d, e, causal) in
            [(1, 1, 1, 1, 1, false), (2, 65, 129, 5, 3, true), (1, 130, 20, 8, 17, true), (3, 7, 257, 4, 2, false)]
        {
            let case = Case { r, n, m, d, e, causal };
            let (given, buffers) = contents(dtype, &case);
            check(dtype, tolerance(dtype), scratch(dtype, &case), &buffers, step(dtype, &case), &naive(&case, &given));
        }
    }
}

#[test]
fn gradients_are_those_of_a_naive_loop_whatever_the_slots() {
    for dtype in ["f32", "f64"] {
        for (r, n, m, d, e, causal) in [(2, 65, 129, 5, 3, true), (1, 130, 20, 8, 17, true), (3, 7, 257, 4, 2, false)] {
            let case = Case { r, n, m, d, e, causal };
            let (given, mut buffers) = contents(dtype, &case);
            let dy = hold(dtype, Random(3).floats(GROUPS * r * n * e));
            let [lse, delta, want @ ..] = naive_gradient(&case, &given, &dy);
            buffers.truncate(3);
            buffers.extend([&lse, &delta, &dy].map(|values| encode(dtype, values)));
            buffers.extend(want.iter().map(|values| zeros(dtype, values.len())));
            // One slot has a group for each task; with three, tasks are parts of groups.
            let results = [1, SLOTS].map(|slots| {
                let mut call = step(dtype, &case);
                let extra = json!({ "k": "attentionGrad", "slots": slots, "lse": [4, 0], "delta": [5, 0],
                    "dy": { "at": [6, 0], "strides": strides(&[GROUPS, r, n, e]) }, "dq": [7, 0], "dk": [8, 0], "dv": [9, 0] });
                let fields = call.as_object_mut().expect("a call");
                fields.remove("out");
                fields.extend(extra.as_object().expect("fields").clone());
                run_all(scratch(dtype, &case), &buffers, &[call]).unwrap_or_else(|e| panic!("{e}"))
            });
            assert!(results[0] == results[1], "bits depend on the slots");
            for (isa, buffers) in &results[0] {
                let got = buffers[6..].iter().flat_map(|bytes| decode(dtype, bytes));
                for (g, w) in got.zip(want.iter().flatten()) {
                    let near = (g - w).abs() <= tolerance(dtype) * w.abs().max(1.0);
                    assert!(near, "{}: {g}, not {w}", isa.name());
                }
            }
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
        let error = program(scratch("f32", &case), &buffers, std::slice::from_ref(&step))
            .err()
            .unwrap_or_else(|| panic!("accepted: {step}"));
        assert!(error.to_string().contains(text), "{error}");
    }
}
