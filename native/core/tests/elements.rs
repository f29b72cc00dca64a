//! Elementwise groups, reductions, gathers, slices, random bits and cross-entropy against naive loops.

mod common;

use common::*;
use serde_json::{json, Value};

type Oracle = fn(f64) -> f64;

#[test]
fn unary_functions() {
    let sign: Oracle = |a| if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a };
    let cases: [(&str, Oracle); 17] = [
        ("neg", |a| -a), ("abs", f64::abs), ("sign", sign), ("exp", libm::exp), ("expm1", libm::expm1), ("log", libm::log),
        ("log1p", libm::log1p), ("sqrt", f64::sqrt), ("rsqrt", |a| 1.0 / a.sqrt()), ("tanh", libm::tanh),
        ("logistic", |a| 1.0 / (1.0 + libm::exp(-a))), ("erf", libm::erf), ("sin", libm::sin), ("cos", libm::cos),
        ("floor", f64::floor), ("ceil", f64::ceil), ("round", f64::round_ties_even),
    ];
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1.5, -2.5, 1e-20, 3.0];
    for (name, oracle) in cases {
        for dtype in ["f32", "f64"] {
            let mut values = special.to_vec();
            values.extend(Random(3).floats(3000).iter().map(|v| v * 4.0));
            let values = hold(dtype, values);
            let want: Vec<f64> = hold(dtype, values.iter().map(|v| oracle(*v)).collect());
            let step = fused(&[values.len()], &[(dtype, &[1])], json!([[name, dtype, 0]]), &[(dtype, &[1], 1)]);
            let tolerance = if dtype == "f32" { 3e-7 } else { 2e-15 };
            check(dtype, tolerance, 0, &[encode(dtype, &values), zeros(dtype, values.len())], step, &want);
        }
    }
}

/// Inputs are buffers 1…, outputs the ones after them.
fn fused(shape: &[usize], inputs: &[(&str, &[isize])], ops: Value, outputs: &[(&str, &[isize], usize)]) -> Value {
    let ins: Vec<Value> = inputs.iter().enumerate().map(|(i, (d, s))| json!({ "at": [i + 1, 0], "dtype": d, "strides": s })).collect();
    let first = inputs.len() + 1;
    let outs: Vec<Value> =
        outputs.iter().enumerate().map(|(i, (d, s, r))| json!({ "at": [first + i, 0], "dtype": d, "strides": s, "reg": r })).collect();
    json!({ "k": "fused", "shape": shape, "in": ins, "ops": ops, "out": outs })
}

fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[test]
fn binary_functions() {
    type Oracle2 = fn(f64, f64) -> f64;
    let cases: [(&str, Oracle2); 8] = [
        ("add", |a, b| a + b), ("sub", |a, b| a - b), ("mul", |a, b| a * b), ("div", |a, b| a / b), ("rem", |a, b| a % b),
        ("pow", libm::pow), ("max", nan_max), ("min", |a, b| -nan_max(-a, -b)),
    ];
    for (name, oracle) in cases {
        for dtype in ["f32", "f64"] {
            let mut random = Random(5);
            let mut a = random.floats(2000);
            let mut b = random.floats(2000);
            a.extend([f64::NAN, 1.0, f64::NAN, f64::INFINITY, 0.0, -0.0]);
            b.extend([1.0, f64::NAN, f64::NAN, 2.0, 0.0, 0.0]);
            let (a, b) = (hold(dtype, a), hold(dtype, b));
            let want = hold(dtype, a.iter().zip(&b).map(|(a, b)| oracle(*a, *b)).collect());
            let step = fused(&[a.len()], &[(dtype, &[1]), (dtype, &[1])], json!([[name, dtype, 0, 1]]), &[(dtype, &[1], 2)]);
            // Quotients of small divisors are large, and compared against the largest.
            check(dtype, if dtype == "f32" { 2e-7 } else { 1e-15 }, 0, &[encode(dtype, &a), encode(dtype, &b), zeros(dtype, a.len())], step, &want);
        }
    }
}

#[test]
fn integers() {
    let a = [7.0, -7.0, 2147483647.0, -2147483648.0, 5.0, 0.0];
    let b = [2.0, 2.0, 1.0, -1.0, 40.0, 3.0];
    let cases: [(&str, [f64; 6]); 9] = [
        ("add", [9.0, -5.0, -2147483648.0, 2147483647.0, 45.0, 3.0]),
        ("div", [3.0, -3.0, 2147483647.0, -2147483648.0, 0.0, 0.0]),
        ("rem", [1.0, -1.0, 0.0, 0.0, 5.0, 0.0]),
        ("mul", [14.0, -14.0, 2147483647.0, -2147483648.0, 200.0, 0.0]),
        ("max", [7.0, 2.0, 2147483647.0, -1.0, 40.0, 3.0]),
        ("and", [2.0, 0.0, 1.0, -2147483648.0, 0.0, 0.0]),
        ("xor", [5.0, -5.0, 2147483646.0, 2147483647.0, 45.0, 3.0]),
        ("shiftLeft", [28.0, -28.0, -2.0, 0.0, 0.0, 0.0]),
        ("shiftRight", [1.0, -2.0, 1073741823.0, -1.0, 0.0, 0.0]),
    ];
    for (name, want) in cases {
        let step = fused(&[6], &[("i32", &[1]), ("i32", &[1])], json!([[name, "i32", 0, 1]]), &[("i32", &[1], 2)]);
        check("i32", 0.0, 0, &[encode("i32", &a), encode("i32", &b), zeros("i32", 6)], step, &want);
    }
    for name in ["div", "rem"] {
        let step = fused(&[2], &[("u8", &[1]), ("u8", &[1])], json!([[name, "u8", 0, 1]]), &[("u8", &[1], 2)]);
        let error = run_all(0, &[vec![1, 2], vec![1, 0], vec![0, 0]], &[step]).expect_err("zero divisor");
        assert!(error.0.contains("by zero"), "{error}");
    }
}

#[test]
fn casts_saturate_and_wrap() {
    let cases: [(&str, &str, &[f64], &[f64]); 7] = [
        ("f32", "i32", &[1.9, -1.9, f64::NAN, 1e20, -1e20], &[1.0, -1.0, 0.0, 2147483647.0, -2147483648.0]),
        ("f64", "u8", &[255.5, -3.0, 300.0, f64::NAN], &[255.0, 0.0, 255.0, 0.0]),
        ("f32", "u32", &[-1.0, 5e9, 3.7], &[0.0, 4294967295.0, 3.0]),
        ("i32", "u8", &[-1.0, 256.0, 257.0], &[255.0, 0.0, 1.0]),
        ("i32", "u32", &[-1.0, 5.0], &[4294967295.0, 5.0]),
        ("f32", "bool", &[0.0, -0.0, 0.5, f64::NAN], &[0.0, 0.0, 1.0, 1.0]),
        ("bool", "f64", &[0.0, 1.0], &[0.0, 1.0]),
    ];
    for (from, to, values, want) in cases {
        let n = values.len();
        let step = fused(&[n], &[(from, &[1])], json!([["cast", to, 0]]), &[(to, &[1], 1)]);
        check(to, 0.0, 0, &[encode(from, values), zeros(to, n)], step, want);
    }
}

/// A group with broadcasts, a comparison and a select over every form of view.
#[test]
fn views_of_all_forms() {
    let shapes: [&[usize]; 12] = [
        &[1], &[7], &[1000], &[5000], &[3, 5], &[100, 32], &[40, 1500], &[64, 64], &[70, 90], &[3, 40, 50], &[2, 3, 4, 5], &[300, 1, 11],
    ];
    for shape in shapes {
        let rank = shape.len();
        let whole = strides(shape);
        let mut orders: Vec<Vec<isize>> = vec![whole.clone()];
        let mut reversed = vec![1isize; rank];
        (1..rank).for_each(|i| reversed[i] = reversed[i - 1] * shape[i - 1] as isize);
        orders.push(reversed);
        orders.push(whole.iter().enumerate().map(|(i, s)| if i == 0 { 0 } else { *s }).collect());
        orders.push(whole.iter().enumerate().map(|(i, s)| if i + 1 == rank { 0 } else { *s }).collect());
        orders.push(vec![0; rank]);
        for (x, y, out) in [(0, 1, 0), (1, 1, 0), (0, 2, 1), (3, 0, 0), (2, 4, 0), (1, 3, 1), (0, 0, 0), (4, 4, 1)] {
            view_case(shape, &orders[x], &orders[y], &orders[out]);
        }
    }
}

fn view_case(shape: &[usize], x: &[isize], y: &[isize], out: &[isize]) {
    let n: usize = shape.iter().product();
    let mut random = Random(23);
    let (a, b) = (hold("f32", random.floats(n)), hold("f32", random.floats(n)));
    let mut want = vec![0.0; n];
    let mut flags = vec![0.0; n];
    for i in 0..n {
        let mut rest = i;
        let (mut px, mut py, mut po, mut last) = (0, 0, 0, 0);
        for d in (0..shape.len()).rev() {
            let at = (rest % shape[d]) as isize;
            rest /= shape[d];
            px += at * x[d];
            py += at * y[d];
            po += at * out[d];
            if d + 1 == shape.len() {
                last = at;
            }
        }
        let (va, vb) = (a[px as usize], b[py as usize]);
        want[po as usize] = (if va < vb { vb } else { va * 2.0 }) + last as f64;
        flags[i] = f64::from(u8::from(va < vb));
    }
    let want = hold("f32", want);
    let ops = json!([["lt", "f32", 0, 1], ["const", "f32", 2.0], ["mul", "f32", 0, 3], ["select", "f32", 2, 1, 4],
        ["iota", "f32", shape.len() - 1], ["add", "f32", 5, 6]]);
    let whole = strides(shape);
    let step = fused(shape, &[("f32", x), ("f32", y)], ops.clone(), &[("f32", out, 7)]);
    check("f32", 1e-7, 0, &[encode("f32", &a), encode("f32", &b), zeros("f32", n)], step, &want);
    let step = fused(shape, &[("f32", x), ("f32", y)], ops, &[("f32", out, 7), ("bool", &whole, 2)]);
    check("bool", 0.0, 0, &[encode("f32", &a), encode("f32", &b), zeros("f32", n), zeros("bool", n)], step, &flags);
}

#[test]
fn outputs_may_replace_inputs() {
    // p, v → p - 0.1 (0.9 v + g), 0.9 v + g, in place, with the old p read again after the new v is written.
    let n = 3000;
    let mut random = Random(29);
    let (p, v, g) = (random.floats(n), random.floats(n), random.floats(n));
    let mut step = fused(&[n], &[("f64", &[1]), ("f64", &[1]), ("f64", &[1])],
        json!([["const", "f64", 0.9], ["mul", "f64", 1, 3], ["add", "f64", 4, 2], ["const", "f64", 0.1], ["mul", "f64", 5, 6], ["sub", "f64", 0, 7], ["add", "f64", 1, 0]]),
        &[("f64", &[1], 8), ("f64", &[1], 5), ("f64", &[1], 9)]);
    step["out"][0]["at"] = json!([1, 0]);
    step["out"][1]["at"] = json!([2, 0]);
    step["out"][2]["at"] = json!([4, 0]);
    let contents = [encode("f64", &p), encode("f64", &v), encode("f64", &g), zeros("f64", n)];
    for (_, buffers) in run_all(0, &contents, &[step]).expect("runs") {
        let (new_p, new_v, sum) = (decode("f64", &buffers[0]), decode("f64", &buffers[1]), decode("f64", &buffers[3]));
        for i in 0..n {
            let want = v[i] * 0.9 + g[i];
            assert_eq!(new_v[i], want);
            assert_eq!(new_p[i], p[i] - want * 0.1);
            assert_eq!(sum[i], v[i] + p[i]);
        }
    }
}

#[test]
fn registers_are_many() {
    // A chain where 60 values stay live to the end.
    let mut ops: Vec<Value> = (0..60).map(|i| json!(["add", "f32", i, 0])).collect();
    ops.extend((0..60).map(|i| json!(["add", "f32", 60 + i, 60 - i])));
    let step = fused(&[2000], &[("f32", &[1])], json!(ops), &[("f32", &[1], 120)]);
    // Register i holds i + 1.
    let want: f64 = 61.0 + (2..=61).map(f64::from).sum::<f64>();
    check("f32", 1e-6, 0, &[encode("f32", &[1.0; 2000]), zeros("f32", 2000)], step, &vec![want; 2000]);
}

#[test]
fn reductions() {
    let cases: [(&[usize], &[isize], &[usize], &[isize]); 12] = [
        (&[], &[], &[10], &[1]), (&[], &[], &[100000], &[1]), (&[32], &[1], &[5000], &[32]), (&[128], &[700], &[700], &[1]),
        (&[3, 5], &[20, 1], &[4], &[5]), (&[5], &[7], &[4, 7], &[35, 1]), (&[300], &[1], &[300], &[300]), (&[6], &[1], &[2, 4], &[24, 6]),
        (&[4], &[0], &[9], &[1]), (&[2, 3], &[1, 2], &[5], &[6]), (&[1], &[0], &[200, 300], &[300, 1]), (&[7], &[1], &[], &[]),
    ];
    for (keep, keep_strides, over, over_strides) in cases {
        for (op, dtype) in [("sum", "f32"), ("sum", "f64"), ("max", "f32"), ("min", "f64"), ("sum", "i32"), ("max", "u8"), ("and", "bool"), ("or", "bool")] {
            reduce_case(op, dtype, keep, keep_strides, over, over_strides);
        }
    }
}

fn fold(op: &str, values: &[f64]) -> f64 {
    match op {
        "sum" => values.iter().sum(),
        "max" | "or" => values.iter().copied().fold(f64::NEG_INFINITY, nan_max),
        _ => -values.iter().map(|v| -v).fold(f64::NEG_INFINITY, nan_max),
    }
}

fn reduce_case(op: &str, dtype: &str, keep: &[usize], keep_strides: &[isize], over: &[usize], over_strides: &[isize]) {
    let offsets = |shape: &[usize], strides: &[isize]| -> Vec<isize> {
        (0..shape.iter().product::<usize>())
            .map(|mut i| {
                (0..shape.len()).rev().map(|d| {
                    let at = (i % shape[d]) as isize * strides[d];
                    i /= shape[d];
                    at
                }).sum()
            })
            .collect()
    };
    let (kept, folded) = (offsets(keep, keep_strides), offsets(over, over_strides));
    let n = (kept.iter().max().unwrap_or(&0) + folded.iter().max().unwrap_or(&0)) as usize + 1;
    let mut random = Random(31);
    let input: Vec<f64> = (0..n)
        .map(|_| match dtype {
            "f32" | "f64" => random.float(),
            "bool" => f64::from(u8::from(random.below(9) > 0)),
            _ => random.below(100) as f64,
        })
        .collect();
    let input = hold(dtype, input);
    let want: Vec<f64> = kept.iter().map(|k| fold(op, &folded.iter().map(|o| input[(k + o) as usize]).collect::<Vec<_>>())).collect();
    let step = json!({ "k": "reduce", "op": op, "dtype": dtype, "in": [1, 0], "keep": keep, "keepStrides": keep_strides,
        "over": over, "overStrides": over_strides, "out": [2, 0] });
    check(dtype, tolerance(dtype), 0, &[encode(dtype, &input), zeros(dtype, want.len())], step, &want);
}

#[test]
fn reductions_of_nothing_and_of_nan() {
    let empty = |op: &str, dtype: &str| json!({ "k": "reduce", "op": op, "dtype": dtype, "in": [1, 0], "keep": [2], "keepStrides": [1], "over": [0], "overStrides": [2], "out": [2, 0] });
    check("f32", 0.0, 0, &[vec![], encode("f32", &[5.0, 5.0])], empty("sum", "f32"), &[0.0, 0.0]);
    check("f64", 0.0, 0, &[vec![], encode("f64", &[5.0, 5.0])], empty("max", "f64"), &[f64::NEG_INFINITY; 2]);
    check("i32", 0.0, 0, &[vec![], encode("i32", &[5.0, 5.0])], empty("min", "i32"), &[2147483647.0; 2]);
    check("bool", 0.0, 0, &[vec![], vec![0, 0]], empty("and", "bool"), &[1.0, 1.0]);
    for at in [0, 70, 199] {
        let mut values = vec![1.0; 200];
        values[at] = f64::NAN;
        let step = json!({ "k": "reduce", "op": "max", "dtype": "f32", "in": [1, 0], "keep": [], "keepStrides": [], "over": [200], "overStrides": [1], "out": [2, 0] });
        check("f32", 0.0, 0, &[encode("f32", &values), zeros("f32", 1)], step, &[f64::NAN]);
        let step = json!({ "k": "argMax", "dtype": "f32", "rows": 1, "cols": 200, "in": [1, 0], "out": [2, 0] });
        check("i32", 0.0, 0, &[encode("f32", &values), zeros("i32", 1)], step, &[at as f64]);
    }
}

#[test]
fn positions_of_maxima() {
    let rows = [3.0, 9.0, 9.0, 1.0, 5.0, 5.0, 5.0, 5.0, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
    let step = json!({ "k": "argMax", "dtype": "f32", "rows": 3, "cols": 4, "in": [1, 0], "out": [2, 0] });
    check("i32", 0.0, 0, &[encode("f32", &rows), zeros("i32", 3)], step, &[1.0, 0.0, 0.0]);
}

#[test]
fn gathers_and_scatters() {
    let mut random = Random(37);
    for (outer, size, inner, count, dtype) in [(1, 50, 16, 200, "f32"), (3, 7, 1, 5, "f64"), (2, 10, 3, 40, "u8"), (1, 3000, 20, 5000, "i32")] {
        let input: Vec<f64> = (0..outer * size * inner).map(|_| random.below(100) as f64).collect();
        let indices: Vec<f64> = (0..outer * count).map(|_| random.below(size) as f64).collect();
        let updates: Vec<f64> = (0..outer * count * inner).map(|_| random.below(2) as f64).collect();
        let mut gathered = vec![0.0; outer * count * inner];
        let mut scattered = vec![0.0; outer * size * inner];
        for (o, p, i) in (0..outer).flat_map(|o| (0..count).flat_map(move |p| (0..inner).map(move |i| (o, p, i)))) {
            let row = (o * size + indices[o * count + p] as usize) * inner + i;
            let place = (o * count + p) * inner + i;
            gathered[place] = input[row];
            scattered[row] += updates[place];
        }
        let step = json!({ "k": "gather", "dtype": dtype, "outer": outer, "size": size, "inner": inner, "count": count, "in": [1, 0], "indices": [2, 0], "out": [3, 0] });
        check(dtype, 0.0, 0, &[encode(dtype, &input), encode("i32", &indices), zeros(dtype, gathered.len())], step.clone(), &gathered);
        let scatter = json!({ "k": "scatterAdd", "dtype": dtype, "outer": outer, "size": size, "inner": inner, "count": count, "updates": [1, 0], "indices": [2, 0], "out": [3, 0] });
        check(dtype, 0.0, 0, &[encode(dtype, &updates), encode("i32", &indices), zeros(dtype, scattered.len())], scatter.clone(), &scattered);
        let mut wrong = indices.clone();
        wrong[count - 1] = size as f64;
        for (step, data) in [(step, &input), (scatter, &updates)] {
            let n = if step["k"] == "gather" { gathered.len() } else { scattered.len() };
            let error = run_all(0, &[encode(dtype, data), encode("i32", &wrong), zeros(dtype, n)], &[step]).expect_err("outside");
            let text = format!("index {size} at position [0, {}] is outside [0, {size})", count - 1);
            assert!(error.0.contains(&text), "{error}");
        }
    }
}

#[test]
fn slices_at_run_time() {
    let input: Vec<f64> = (0..60).map(f64::from).collect();
    let slice = json!({ "k": "dynamicSlice", "dtype": "f32", "shape": [3, 4, 5], "sizes": [2, 2, 5], "in": [1, 0], "starts": [[2, 0], [2, 4], [2, 8]], "out": [3, 0] });
    // The first start is clamped from 9 to 1, the last from -2 to 0.
    let starts = encode("i32", &[9.0, 1.0, -2.0]);
    let want: Vec<f64> = [25, 30, 45, 50].iter().flat_map(|r| (0..5).map(move |i| (r + i) as f64)).collect();
    check("f32", 0.0, 0, &[encode("f32", &input), starts.clone(), zeros("f32", 20)], slice, &want);
    let update = json!({ "k": "dynamicUpdateSlice", "dtype": "f32", "shape": [3, 4, 5], "sizes": [1, 2, 2], "in": [1, 0], "update": [3, 0], "starts": [[2, 0], [2, 4], [2, 8]], "out": [4, 0] });
    let mut want = input.clone();
    [(2, 1, 0), (2, 1, 1), (2, 2, 0), (2, 2, 1)].iter().for_each(|(a, b, c)| want[a * 20 + b * 5 + c] = -1.0);
    check("f32", 0.0, 0, &[encode("f32", &input), starts.clone(), encode("f32", &[-1.0; 4]), zeros("f32", 60)], update.clone(), &want);
    let mut in_place = update;
    in_place["out"] = json!([1, 0]);
    for (_, buffers) in run_all(0, &[encode("f32", &input), starts, encode("f32", &[-1.0; 4])], &[in_place]).expect("runs") {
        assert_eq!(decode("f32", &buffers[0]), want);
    }
}

#[test]
fn random_bits_depend_on_the_global_index() {
    let key = encode("u32", &[123.0, 456.0]);
    let draw = |start: [f64; 2], shape: [usize; 2]| {
        let step = json!({ "k": "randomBits", "key": [1, 0], "start": [2, 0], "shape": shape, "total": [50, 700], "stream": 4, "out": [3, 0] });
        let contents = [key.clone(), encode("i32", &start), zeros("u32", shape[0] * shape[1])];
        let results = run_all(0, &contents, &[step]).expect("runs");
        assert!(results.windows(2).all(|w| w[0].1 == w[1].1), "instruction sets differ");
        decode("u32", &results[0].1[2])
    };
    let whole = draw([0.0, 0.0], [50, 700]);
    let part = draw([7.0, 13.0], [20, 333]);
    for (r, c) in (0..20).flat_map(|r| (0..333).map(move |c| (r, c))) {
        assert_eq!(part[r * 333 + c], whole[(r + 7) * 700 + c + 13]);
    }
    let rows = draw([40.0, 0.0], [10, 700]);
    assert_eq!(rows, whole[40 * 700..]);
    let mean = whole.iter().sum::<f64>() / whole.len() as f64 / 4294967296.0;
    assert!((mean - 0.5).abs() < 0.01, "{mean}");
}

#[test]
fn cross_entropy() {
    for (rows, cols, dtype) in [(5, 10, "f32"), (3, 1000, "f64"), (2, 1, "f32"), (300, 17, "f64")] {
        let mut random = Random(41);
        let logits = hold(dtype, random.floats(rows * cols).iter().map(|v| v * 30.0).collect());
        let labels: Vec<f64> = (0..rows).map(|_| random.below(cols) as f64).collect();
        let dy = hold(dtype, random.floats(rows));
        let (mut loss, mut gradient) = (vec![0.0; rows], vec![0.0; rows * cols]);
        for r in 0..rows {
            let row = &logits[r * cols..][..cols];
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| libm::exp(x - top)).sum();
            loss[r] = top - row[labels[r] as usize] + libm::log(sum);
            for c in 0..cols {
                let hit = f64::from(u8::from(c == labels[r] as usize));
                gradient[r * cols + c] = (libm::exp(row[c] - top) / sum - hit) * dy[r];
            }
        }
        let tolerance = if dtype == "f32" { 1e-6 } else { 1e-14 };
        let (l, t) = (encode(dtype, &logits), encode("i32", &labels));
        let step = json!({ "k": "softmaxCrossEntropy", "dtype": dtype, "rows": rows, "cols": cols, "logits": [1, 0], "labels": [2, 0], "out": [3, 0] });
        check(dtype, tolerance, 0, &[l.clone(), t.clone(), zeros(dtype, rows)], step.clone(), &loss);
        let grad = json!({ "k": "softmaxCrossEntropyGrad", "dtype": dtype, "rows": rows, "cols": cols, "logits": [1, 0], "labels": [2, 0], "dy": [3, 0], "out": [4, 0] });
        check(dtype, tolerance, 0, &[l.clone(), t, encode(dtype, &dy), zeros(dtype, rows * cols)], grad, &gradient);
        let error = run_all(0, &[l, encode("i32", &vec![cols as f64; rows]), zeros(dtype, rows)], &[step]).expect_err("label");
        assert!(error.0.contains(&format!("label {cols} at row 0 is outside [0, {cols})")), "{error}");
    }
}

#[test]
fn coordinates_and_lone_collectives() {
    let step = json!({ "k": "axisIndex", "axis": 1, "out": [1, 0] });
    check("i32", 0.0, 0, &[zeros("i32", 1)], step, &[5.0]);
    let step = json!({ "k": "collective", "op": "allReduce", "axis": 0, "reduction": "sum", "dtype": "f32", "parts": [{ "in": [1, 0], "out": [2, 0], "count": 3 }], "label": "x" });
    check("f32", 0.0, 0, &[encode("f32", &[1.0, 2.0, 3.0]), zeros("f32", 3)], step, &[1.0, 2.0, 3.0]);
}
