//! Elementwise groups against naive loops.

use crate::common::*;
use heddle_core::Fault;
use serde_json::{json, Value};

type Oracle = fn(f64) -> f64;

#[test]
fn unary_functions() {
    let sign: Oracle = |a| {
        if a > 0.0 {
            1.0
        } else if a < 0.0 {
            -1.0
        } else {
            a
        }
    };
    let cases: [(&str, Oracle); 18] = [
        ("neg", |a| -a),
        ("abs", f64::abs),
        ("sign", sign),
        ("exp", libm::exp),
        ("expm1", libm::expm1),
        ("log", libm::log),
        ("log1p", libm::log1p),
        ("sqrt", f64::sqrt),
        ("rsqrt", |a| 1.0 / a.sqrt()),
        ("tanh", libm::tanh),
        ("logistic", |a| 1.0 / (1.0 + libm::exp(-a))),
        ("erf", libm::erf),
        ("softplus", |a| a.max(0.0) + libm::log1p(libm::exp(-a.abs()))),
        ("sin", libm::sin),
        ("cos", libm::cos),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("round", f64::round_ties_even),
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
    let ins: Vec<Value> =
        inputs.iter().enumerate().map(|(i, (d, s))| json!({ "at": [i + 1, 0], "dtype": d, "strides": s })).collect();
    let first = inputs.len() + 1;
    let outs: Vec<Value> = outputs
        .iter()
        .enumerate()
        .map(|(i, (d, s, r))| json!({ "at": [first + i, 0], "dtype": d, "strides": s, "reg": r }))
        .collect();
    json!({ "k": "fused", "shape": shape, "in": ins, "ops": ops, "out": outs })
}

fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

#[test]
fn binary_functions() {
    type Oracle2 = fn(f64, f64) -> f64;
    let cases: [(&str, Oracle2); 8] = [
        ("add", |a, b| a + b),
        ("sub", |a, b| a - b),
        ("mul", |a, b| a * b),
        ("div", |a, b| a / b),
        ("rem", |a, b| a % b),
        ("pow", libm::pow),
        ("max", nan_max),
        ("min", |a, b| -nan_max(-a, -b)),
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
            let step =
                fused(&[a.len()], &[(dtype, &[1]), (dtype, &[1])], json!([[name, dtype, 0, 1]]), &[(dtype, &[1], 2)]);
            // Quotients of small divisors are large, and compared against the largest.
            check(
                dtype,
                if dtype == "f32" { 2e-7 } else { 1e-15 },
                0,
                &[encode(dtype, &a), encode(dtype, &b), zeros(dtype, a.len())],
                step,
                &want,
            );
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
        assert_eq!(error.fault, Fault::ZeroDivisor { op: name, dtype: "u8", division: 0, of: 1 });
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
        &[1],
        &[7],
        &[1000],
        &[5000],
        &[3, 5],
        &[100, 32],
        &[40, 1500],
        &[64, 64],
        &[70, 90],
        &[3, 40, 50],
        &[2, 3, 4, 5],
        &[300, 1, 11],
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
    let ops = json!([
        ["lt", "f32", 0, 1],
        ["const", "f32", 2.0],
        ["mul", "f32", 0, 3],
        ["select", "f32", 2, 1, 4],
        ["iota", "f32", shape.len() - 1],
        ["add", "f32", 5, 6]
    ]);
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
    let mut step = fused(
        &[n],
        &[("f64", &[1]), ("f64", &[1]), ("f64", &[1])],
        json!([
            ["const", "f64", 0.9],
            ["mul", "f64", 1, 3],
            ["add", "f64", 4, 2],
            ["const", "f64", 0.1],
            ["mul", "f64", 5, 6],
            ["sub", "f64", 0, 7],
            ["add", "f64", 1, 0]
        ]),
        &[("f64", &[1], 8), ("f64", &[1], 5), ("f64", &[1], 9)],
    );
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
