//! One valid step of each kernel and kind, for four buffers of 4 KiB and an arena of 256 KiB.

use serde_json::{json, Value};

pub const ARENA: usize = 256 << 10;
pub const BYTES: usize = 4096;

/// Buffer 1 holds matrices of 3 x 3 that are symmetric and positive definite, buffer 2 zeros: indices and counts.
pub fn contents() -> Vec<Vec<u8>> {
    let matrix: [f32; 9] = [4.0, 1.0, 0.5, 1.0, 3.0, 1.0, 0.5, 1.0, 2.0];
    let first = (0..BYTES / 4).flat_map(|i| matrix[i % 9].to_le_bytes()).collect();
    vec![first, vec![0; BYTES], vec![0; BYTES], vec![0; BYTES]]
}

fn with(mut step: Value, more: Value) -> Value {
    for (key, value) in more.as_object().expect("an object") {
        step[key] = value.clone();
    }
    step
}

pub fn fused(dtype: &str, shape: &[usize], ops: Value, reg: usize) -> Value {
    let strides = super::strides(shape);
    json!({ "k": "fused", "shape": shape, "in": [{ "at": [1, 0], "dtype": dtype, "strides": strides }], "ops": ops,
        "out": [{ "at": [3, 0], "dtype": dtype, "strides": strides, "reg": reg }] })
}

fn groups() -> Vec<Value> {
    vec![
        json!({ "k": "fused", "shape": [8, 16], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [16, 1] }, { "at": [2, 0], "dtype": "i32", "strides": [1, 8] }],
            "ops": [["cast", "f32", 1], ["add", "f32", 0, 2], ["iota", "i32", 1], ["const", "i32", 3], ["div", "i32", 4, 5], ["const", "f32", 2], ["lt", "f32", 3, 7], ["select", "f32", 8, 3, 7]],
            "out": [{ "at": [3, 0], "dtype": "f32", "strides": [16, 1], "reg": 9 }, { "at": [4, 0], "dtype": "i32", "strides": [1, 8], "reg": 6 }] }),
        fused(
            "i64",
            &[5, 9],
            json!([
                ["const", "i64", "9007199254740993"],
                ["mul", "i64", 0, 1],
                ["shiftRightArithmetic", "i64", 2, 1],
                ["max", "i64", 3, 0]
            ]),
            4,
        ),
        fused(
            "u64",
            &[45],
            json!([
                ["popcount", "u64", 0],
                ["const", "u64", "18446744073709551615"],
                ["rem", "u64", 0, 2],
                ["xor", "u64", 1, 3]
            ]),
            4,
        ),
        fused("i8", &[45], json!([["const", "i8", -3], ["add", "i8", 0, 1], ["cast", "u32", 2], ["cast", "i8", 3]]), 4),
        fused("f16", &[45], json!([["cast", "f32", 0], ["exp", "f32", 1], ["cast", "f16", 2]]), 3),
        fused("bf16", &[45], json!([["cast", "f64", 0], ["sin", "f64", 1], ["cast", "bf16", 2]]), 3),
        fused("f64", &[3, 0, 5], json!([["lgamma", "f64", 0]]), 1),
        json!({ "k": "fusedRows", "shape": [6, 20], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [20, 1] }],
            "ops": [["fold", "f32", "max", 0], ["sub", "f32", 0, 1], ["exp", "f32", 2], ["fold", "f32", "sum", 3], ["div", "f32", 3, 4]],
            "out": [{ "at": [3, 0], "dtype": "f32", "strides": [20, 1], "reg": 5 }, { "at": [4, 0], "dtype": "f32", "strides": [1], "reg": 4 }] }),
        json!({ "k": "fusedColumns", "shape": [20, 6], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [6, 1] }],
            "ops": [["mul", "f32", 0, 0], ["fold", "f32", "sum", 1], ["fold", "f32", "min", 0]],
            "out": [{ "at": [3, 0], "dtype": "f32", "strides": [1], "reg": 2 }, { "at": [4, 0], "dtype": "f32", "strides": [1], "reg": 3 }] }),
        json!({ "k": "reduce", "op": "sum", "dtype": "f32", "in": [1, 0], "keep": [8], "keepStrides": [1], "over": [20], "overStrides": [8], "out": [3, 0] }),
        json!({ "k": "reduce", "op": "max", "dtype": "i64", "in": [1, 0], "keep": [], "keepStrides": [], "over": [300], "overStrides": [1], "out": [3, 0] }),
        json!({ "k": "argMax", "dtype": "f32", "rows": 8, "cols": 20, "in": [1, 0], "out": [3, 0] }),
    ]
}

fn products() -> Vec<Value> {
    let dot = json!({ "k": "dot", "dtype": "f32", "b": 2, "m": 5, "k2": 7, "n": 6, "x": { "at": [1, 0], "strides": [35, 7, 1] },
        "y": { "at": [2, 0], "strides": [42, 1, 7] }, "out": { "at": [3, 0], "strides": [30, 6, 1] } });
    let conv = |k: &str, extra: Value| {
        let plane = json!({ "k": k, "dtype": "f32", "n": 2, "h": 5, "w": 5, "c": 2, "kh": 3, "kw": 3, "o": 3, "oh": 5, "ow": 5, "strides": [1, 1, 1],
            "padding": [[0, 0], [1, 1], [1, 1]], "inputDilation": [1, 1, 1], "kernelDilation": [1, 1, 1], "x": [1, 0], "out": [3, 0], "scratch": [0, 0], "slots": 2 });
        with(plane, extra)
    };
    let solid = json!({ "d": 3, "kd": 2, "od": 2, "n": 1, "c": 1, "o": 2 });
    vec![
        dot.clone(),
        with(dot, json!({ "bias": [4, 0], "relu": true })),
        conv(
            "conv",
            json!({ "weight": { "at": [2, 0], "strides": [54, 54, 18, 6, 3, 1] }, "bias": [4, 0], "relu": true }),
        ),
        conv("convFilter", json!({ "dy": [2, 0] })),
        conv("conv", json!({ "g": 2, "d": 2, "kd": 2, "weight": { "at": [2, 0], "strides": [108, 54, 18, 6, 3, 1] } })),
        with(conv("conv", json!({ "weight": { "at": [2, 0], "strides": [36, 18, 6, 2, 2, 1] } })), solid.clone()),
        with(conv("convFilter", json!({ "dy": [2, 0] })), solid.clone()),
        conv(
            "conv",
            json!({ "h": 3, "w": 3, "inputDilation": [1, 2, 2], "weight": { "at": [2, 0], "strides": [54, 54, 18, 6, 3, 1] } }),
        ),
        conv("convGroups", json!({ "g": 2, "weight": { "at": [2, 0], "strides": [108, 36, 12, 6, 2, 1] } })),
        conv("convGroupsFilter", json!({ "g": 2, "dy": [2, 0] })),
    ]
}

fn windows() -> Vec<Value> {
    let window = |k: &str, extra: Value| {
        let plane = json!({ "k": k, "op": "max", "dtype": "f32", "n": 2, "h": 4, "w": 4, "c": 3, "oh": 2, "ow": 2, "window": [1, 2, 2], "strides": [1, 2, 2],
            "dilation": [1, 1, 2], "padding": [[0, 0], [0, 0], [0, 0]], "in": [1, 0], "out": [3, 0] });
        let source = if k == "reduceWindow" { json!({}) } else { json!({ "source": [2, 0] }) };
        with(with(plane, source), extra)
    };
    let solid = json!({ "d": 3, "od": 2, "window": [2, 2, 2], "strides": [1, 2, 2], "dilation": [1, 1, 1], "padding": [[0, 0], [1, 1], [0, 0]], "oh": 3 });
    vec![
        window("reduceWindow", json!({})),
        window("reduceWindow", with(solid.clone(), json!({ "op": "sum", "dtype": "i64" }))),
        window("reduceWindow", json!({ "op": "and", "dtype": "bool" })),
        window("selectAndScatter", json!({})),
        window("selectAndScatter", with(solid.clone(), json!({ "op": "min", "dtype": "f64" }))),
        window("selectAndScatter", json!({ "dilation": [1, 1, 1], "gate": true })),
        window("windowTake", json!({})),
        window("windowTake", with(solid, json!({ "dtype": "i8" }))),
    ]
}

fn lookups() -> Vec<Value> {
    let table = |k: &str, extra: Value| {
        let table = json!({ "k": k, "dtype": "f32", "outer": 2, "size": 8, "inner": 4, "count": 6, "indices": [2, 0], "out": [3, 0] });
        with(table, extra)
    };
    let scatter = |op: &str, dtype: &str| {
        table("scatter", json!({ "op": op, "dtype": dtype, "in": [1, 0], "updates": [1, 1024] }))
    };
    let part = json!({ "start": [2, 512], "total": 20 });
    let mut steps = vec![
        table("gather", json!({ "in": [1, 0] })),
        table("gather", json!({ "in": [1, 0], "dtype": "f16" })),
        with(table("gather", json!({ "in": [1, 0], "dtype": "u64" })), part.clone()),
        table("scatterAdd", json!({ "updates": [1, 0] })),
        with(scatter("sum", "f32"), json!({ "out": [1, 0] })),
        with(table("scatterAdd", json!({ "updates": [1, 0], "dtype": "i64" })), part),
        json!({ "k": "dynamicSlice", "dtype": "f32", "shape": [8, 8], "sizes": [3, 8], "in": [1, 0], "starts": [[2, 0], [2, 4]], "out": [3, 0] }),
        json!({ "k": "dynamicSlice", "dtype": "bf16", "shape": [8, 8], "sizes": [3, 5], "in": [1, 0], "starts": [[2, 0], [2, 4]], "out": [3, 0] }),
        json!({ "k": "dynamicUpdateSlice", "dtype": "f32", "shape": [8, 8], "sizes": [3, 8], "in": [1, 0], "update": [4, 0], "starts": [[2, 0], [2, 4]], "out": [3, 0] }),
        json!({ "k": "dynamicUpdateSlice", "dtype": "i8", "shape": [64], "sizes": [3], "in": [3, 0], "update": [4, 0], "starts": [[2, 0]], "out": [3, 0] }),
        json!({ "k": "randomBits", "key": [1, 0], "start": [2, 0], "shape": [4, 5], "total": [8, 5], "stream": 1, "out": [3, 0] }),
    ];
    for (op, dtype) in
        [("sum", "f64"), ("prod", "i64"), ("max", "f32"), ("min", "u8"), ("replace", "f16"), ("replace", "bool")]
    {
        steps.push(scatter(op, dtype));
    }
    steps
}

fn orders() -> Vec<Value> {
    let sort = |rows: usize, cols: usize, dtype: &str, other: &str, descending: bool| {
        json!({ "k": "sort", "rows": rows, "cols": cols, "descending": descending,
            "operands": [{ "dtype": dtype, "in": [1, 0], "out": [3, 0] }, { "dtype": other, "in": [2, 0], "out": [4, 0] }] })
    };
    let top = |dtype: &str, rows: usize, cols: usize, count: usize| json!({ "k": "topK", "dtype": dtype, "rows": rows, "cols": cols, "count": count, "in": [1, 0], "out": [[3, 0], [4, 0]] });
    vec![
        sort(4, 30, "f32", "bf16", false),
        sort(3, 40, "i64", "i32", true),
        sort(1, 2000, "i8", "bool", false),
        top("f32", 4, 30, 5),
        top("u64", 2, 50, 50),
        top("u8", 1, 2000, 1024),
    ]
}

fn transforms() -> Vec<Value> {
    let fft = |kind: &str, dtype: &str, batch: usize, length: &[usize]| json!({ "k": "fft", "kind": kind, "dtype": dtype, "batch": batch, "length": length, "in": [1, 0], "out": [3, 0] });
    let factor = |what: &str, m: usize, n: usize, inputs: Value, outputs: Value| json!({ "k": "factor", "what": what, "dtype": "f32", "batch": 4, "m": m, "n": n, "in": inputs, "out": outputs, "lower": true, "transpose": false, "unit": false });
    vec![
        fft("forward", "f32", 3, &[4, 7]),
        fft("inverse", "f64", 2, &[3, 4, 5]),
        fft("fromReal", "f32", 3, &[4, 8]),
        fft("toReal", "f64", 2, &[37]),
        factor("cholesky", 3, 3, json!([[1, 0]]), json!([[3, 0]])),
        factor("triangularSolve", 3, 2, json!([[1, 0], [2, 0]]), json!([[3, 0]])),
        factor("qr", 5, 3, json!([[1, 0]]), json!([[3, 0], [4, 0], [4, 512]])),
        factor("svd", 3, 5, json!([[1, 0]]), json!([[3, 0], [4, 0], [4, 512]])),
        factor("eigh", 3, 3, json!([[1, 0]]), json!([[3, 0], [4, 0]])),
        factor("lu", 3, 3, json!([[1, 0]]), json!([[3, 0], [4, 0], [4, 512]])),
    ]
}

fn rows() -> Vec<Value> {
    let attention = json!({ "k": "attention", "dtype": "f32", "lead": [2], "r": 2, "n": 5, "m": 6, "d": 4, "e": 3, "scale": 0.5, "causal": true,
        "query": { "at": [1, 0], "strides": [40, 20, 4, 1] }, "key": { "at": [1, 1024], "strides": [24, 4, 1] }, "value": { "at": [1, 2048], "strides": [18, 3, 1] },
        "scratch": [0, 0], "slots": 2, "out": [3, 0], "lse": [3, 1024] });
    let masked = json!({ "causal": false, "mask": { "at": [2, 0], "dtype": "bool", "strides": [0, 0, 6, 1] },
        "dropout": { "words": [2, 1024], "start": [2, 2048], "total": [2, 2, 5, 6], "threshold": 2147483648u32, "factor": 2.0 } });
    let added = json!({ "mask": { "at": [2, 0], "dtype": "f32", "strides": [60, 30, 6, 1] } });
    let gradient = json!({ "k": "attentionGrad", "out": null, "delta": [3, 2048], "dy": { "at": [2, 3072], "strides": [30, 15, 3, 1] },
        "dq": [4, 0], "dk": [4, 1024], "dv": [4, 2048] });
    let gradient = with(attention.clone(), gradient);
    vec![
        json!({ "k": "softmaxCrossEntropy", "dtype": "f32", "rows": 4, "cols": 5, "logits": [1, 0], "labels": [2, 0], "out": [3, 0] }),
        json!({ "k": "softmaxCrossEntropyGrad", "dtype": "f32", "rows": 4, "cols": 5, "logits": [1, 0], "labels": [2, 0], "dy": [4, 0], "out": [3, 0] }),
        with(attention.clone(), masked.clone()),
        with(attention.clone(), added),
        with(gradient.clone(), masked),
        attention,
        gradient,
    ]
}

fn calls() -> Vec<Value> {
    let collective = |op: &str, dtype: &str, extra: Value| {
        let call = json!({ "k": "collective", "op": op, "axis": 0, "dtype": dtype, "parts": [{ "in": [1, 0], "out": [3, 0], "count": 9 }], "label": "x" });
        with(call, extra)
    };
    vec![
        json!({ "k": "axisIndex", "axis": 0, "out": [3, 0] }),
        collective("allReduce", "f32", json!({ "reduction": "sum" })),
        collective("allReduce", "bf16", json!({ "reduction": "max" })),
        collective("reduceScatter", "i64", json!({ "reduction": "min" })),
        collective("allGather", "i8", json!({})),
        collective("allToAll", "f16", json!({})),
        collective("broadcast", "u64", json!({})),
        collective("exchange", "f32", json!({ "sends": [[0, 9]], "receives": [[0, 9]], "relative": true })),
        json!({ "k": "send", "axis": 0, "to": 1, "dtype": "f32", "parts": [{ "in": [1, 0], "count": 9 }], "label": "x" }),
        json!({ "k": "receive", "axis": 0, "from": 1, "dtype": "f32", "parts": [{ "out": [3, 0], "count": 9 }], "label": "x" }),
    ]
}

/// Counts to 5 at byte 1024 of buffer 4 and adds row by row; the condition is at byte 1032.
fn nests() -> Vec<Value> {
    let count = |dtype: &str, at: Value| json!({ "at": at, "dtype": dtype, "strides": [] });
    let next = json!({ "k": "fused", "shape": [], "in": [count("i32", json!([4, 1024]))], "ops": [["const", "i32", 1], ["add", "i32", 0, 1]],
        "out": [{ "at": [4, 1024], "dtype": "i32", "strides": [], "reg": 2 }] });
    let small = json!({ "k": "fused", "shape": [], "in": [count("i32", json!([4, 1024]))], "ops": [["const", "i32", 5], ["lt", "i32", 0, 1]],
        "out": [{ "at": [4, 1032], "dtype": "bool", "strides": [], "reg": 2 }] });
    let take = json!({ "k": "dynamicSlice", "dtype": "f32", "shape": [5, 4], "sizes": [1, 4], "in": [1, 0], "starts": [[4, 1028], [2, 0]], "out": [3, 0] });
    let keep = json!({ "k": "dynamicUpdateSlice", "dtype": "f32", "shape": [5, 4], "sizes": [1, 4], "in": [4, 0], "update": [3, 0], "starts": [[4, 1028], [2, 0]], "out": [4, 0] });
    let branch = json!({ "k": "branch", "test": [4, 1032], "steps": [take], "otherwise": [fused("f32", &[4], json!([["neg", "f32", 0]]), 1)] });
    vec![
        json!({ "k": "loop", "count": 5, "reverse": true, "out": [4, 1028], "steps": [take, keep] }),
        json!({ "k": "loop", "out": [4, 1028], "test": [4, 1032], "condition": [small], "steps": [branch.clone(), keep, next] }),
        branch,
    ]
}

pub fn seeds() -> Vec<Value> {
    [groups(), products(), windows(), lookups(), orders(), transforms(), rows(), calls(), nests()].concat()
}
