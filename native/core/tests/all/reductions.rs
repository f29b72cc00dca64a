//! Reductions, gathers, slices, random bits and cross-entropy against naive loops.

use crate::common::*;
use heddle_core::kernels::random;
use heddle_core::Fault;
use serde_json::json;

fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

#[test]
fn reductions() {
    type View = (&'static [usize], &'static [isize]);
    let cases: [(View, View); 12] = [
        ((&[], &[]), (&[10], &[1])),
        ((&[], &[]), (&[100000], &[1])),
        ((&[32], &[1]), (&[5000], &[32])),
        ((&[128], &[700]), (&[700], &[1])),
        ((&[3, 5], &[20, 1]), (&[4], &[5])),
        ((&[5], &[7]), (&[4, 7], &[35, 1])),
        ((&[300], &[1]), (&[300], &[300])),
        ((&[6], &[1]), (&[2, 4], &[24, 6])),
        ((&[4], &[0]), (&[9], &[1])),
        ((&[2, 3], &[1, 2]), (&[5], &[6])),
        ((&[1], &[0]), (&[200, 300], &[300, 1])),
        ((&[7], &[1]), (&[], &[])),
    ];
    for ((keep, keep_strides), (over, over_strides)) in cases {
        for (op, dtype) in [
            ("sum", "f32"),
            ("sum", "f64"),
            ("max", "f32"),
            ("min", "f64"),
            ("sum", "i32"),
            ("max", "u8"),
            ("and", "bool"),
            ("or", "bool"),
        ] {
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
                (0..shape.len())
                    .rev()
                    .map(|d| {
                        let at = (i % shape[d]) as isize * strides[d];
                        i /= shape[d];
                        at
                    })
                    .sum()
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
    let want: Vec<f64> =
        kept.iter().map(|k| fold(op, &folded.iter().map(|o| input[(k + o) as usize]).collect::<Vec<_>>())).collect();
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
    let rows = [
        3.0,
        9.0,
        9.0,
        1.0,
        5.0,
        5.0,
        5.0,
        5.0,
        f64::NEG_INFINITY,
        f64::NEG_INFINITY,
        f64::NEG_INFINITY,
        f64::NEG_INFINITY,
    ];
    let step = json!({ "k": "argMax", "dtype": "f32", "rows": 3, "cols": 4, "in": [1, 0], "out": [2, 0] });
    check("i32", 0.0, 0, &[encode("f32", &rows), zeros("i32", 3)], step, &[1.0, 0.0, 0.0]);
}

#[test]
fn gathers_and_scatters() {
    let mut random = Random(37);
    for (outer, size, inner, count, dtype) in
        [(1, 50, 16, 200, "f32"), (3, 7, 1, 5, "f64"), (2, 10, 3, 40, "u8"), (1, 3000, 20, 5000, "i32")]
    {
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
        check(
            dtype,
            0.0,
            0,
            &[encode(dtype, &input), encode("i32", &indices), zeros(dtype, gathered.len())],
            step.clone(),
            &gathered,
        );
        let scatter = json!({ "k": "scatterAdd", "dtype": dtype, "outer": outer, "size": size, "inner": inner, "count": count, "updates": [1, 0], "indices": [2, 0], "out": [3, 0] });
        check(
            dtype,
            0.0,
            0,
            &[encode(dtype, &updates), encode("i32", &indices), zeros(dtype, scattered.len())],
            scatter.clone(),
            &scattered,
        );
        let mut wrong = indices.clone();
        wrong[count - 1] = size as f64;
        for (step, data) in [(step, &input), (scatter, &updates)] {
            let n = if step["k"] == "gather" { gathered.len() } else { scattered.len() };
            let error = run_all(0, &[encode(dtype, data), encode("i32", &wrong), zeros(dtype, n)], &[step])
                .expect_err("outside");
            assert_eq!(error.fault, Fault::Index { index: size as i64, position: count - 1, size });
        }
    }
}

/// More positions than are added plainly: the totals keep what their roundings lose.
#[test]
fn sums_of_many_rows_are_exact() {
    let (size, inner, count) = (3, 2, (1 << 16) * 2 + 5);
    let indices: Vec<f64> = (0..count).map(|p| (p % 7 % size) as f64).collect();
    let updates: Vec<f64> = (0..count * inner).map(|i| hold("f32", vec![0.1 + (i % 3) as f64])[0]).collect();
    let mut want = vec![0f64; size * inner];
    for (place, update) in updates.iter().enumerate() {
        want[indices[place / inner] as usize * inner + place % inner] += update;
    }
    let step = json!({ "k": "scatterAdd", "dtype": "f32", "outer": 1, "size": size, "inner": inner, "count": count, "updates": [1, 0], "indices": [2, 0], "scratch": [3, 0], "out": [4, 0] });
    let buffers = [encode("f32", &updates), encode("i32", &indices), vec![0; 64], zeros("f32", size * inner)];
    check("f32", 1e-7, 0, &buffers, step.clone(), &want);
    let mut into = step.clone();
    (into["k"], into["op"], into["in"]) = (json!("scatter"), json!("sum"), json!([4, 0]));
    check("f32", 1e-7, 0, &buffers, into, &want);
    let mut without = step;
    without.as_object_mut().expect("an object").remove("scratch");
    assert!(program(0, &buffers, &[without]).is_err(), "long sums that lose something");
}

/// Rows written into the table itself: the same as into a copy, and nothing is written where an index is wrong.
#[test]
fn scatters_in_place() {
    let mut random = Random(38);
    for (size, inner, count) in [(9, 4, 5), (3000, 20, 7), (3000, 20, 3000)] {
        let table: Vec<f64> = (0..size * inner).map(|_| random.below(100) as f64).collect();
        let indices: Vec<f64> = (0..count).map(|_| random.below(size) as f64).collect();
        let updates: Vec<f64> = (0..count * inner).map(|_| random.below(9) as f64).collect();
        for op in ["sum", "replace"] {
            let mut want = table.clone();
            for (place, value) in updates.iter().enumerate() {
                let held = &mut want[indices[place / inner] as usize * inner + place % inner];
                *held = if op == "sum" { *held + value } else { *value };
            }
            let step = |updates: [u32; 2]| json!({ "k": "scatter", "op": op, "dtype": "f32", "outer": 1, "size": size, "inner": inner, "count": count, "in": [1, 0], "updates": updates, "indices": [2, 0], "out": [1, 0] });
            let buffers = |indices: &[f64]| [encode("f32", &table), encode("i32", indices), encode("f32", &updates)];
            for (isa, made) in run_all(0, &buffers(&indices), &[step([3, 0])]).expect("runs") {
                assert!(decode("f32", &made[0]) == want, "{op} {isa:?}");
            }
            let mut wrong = indices.clone();
            wrong[count - 1] = -1.0;
            let error = run_all(0, &buffers(&wrong), &[step([3, 0])]).expect_err("outside");
            assert!(matches!(error.fault, Fault::Index { index: -1, .. }), "{error}");
            if count <= size {
                assert!(
                    program(0, &buffers(&indices), &[step([1, 0])]).is_err(),
                    "updates in the table that they change"
                );
            }
        }
    }
}

/// A table of which each device holds a block: the blocks' results add up to the whole table's.
#[test]
fn lookups_in_blocks_add_up() {
    let (size, inner, count) = (10, 3, 7);
    let indices = encode("i32", &[9.0, 0.0, 4.0, 4.0, 5.0, 6.0, 9.0]);
    let table: Vec<f64> = (0..size * inner).map(|i| i as f64 + 1.0).collect();
    let updates: Vec<f64> = (0..count * inner).map(|i| i as f64 + 1.0).collect();
    for (start, own) in [(0, 4), (4, 1), (5, 5), (10, 0)] {
        let rows: Vec<usize> = [9, 0, 4, 4, 5, 6, 9].to_vec();
        let mine = |row: usize| row >= start && row < start + own;
        let mut gathered = vec![0.0; count * inner];
        let mut scattered = vec![0.0; own * inner];
        for (p, row) in rows.iter().enumerate().filter(|(_, row)| mine(**row)) {
            for i in 0..inner {
                gathered[p * inner + i] = table[row * inner + i];
                scattered[(row - start) * inner + i] += updates[p * inner + i];
            }
        }
        let sizes = |k: &str| json!({ "k": k, "dtype": "f64", "outer": 1, "size": own, "inner": inner, "count": count, "indices": [2, 0], "start": [3, 0], "total": size, "out": [4, 0] });
        let block = encode("f64", &table[start * inner..(start + own) * inner]);
        let first = encode("i32", &[start as f64]);
        let mut gather = sizes("gather");
        gather["in"] = json!([1, 0]);
        let mut scatter = sizes("scatterAdd");
        scatter["updates"] = json!([1, 0]);
        let buffers = |data: Vec<u8>, n: usize| [data, indices.clone(), first.clone(), zeros("f64", n)];
        check("f64", 0.0, 0, &buffers(block.clone(), gathered.len()), gather.clone(), &gathered);
        check("f64", 0.0, 0, &buffers(encode("f64", &updates), scattered.len()), scatter.clone(), &scattered);
        for (step, data, n) in [(gather, block, gathered.len()), (scatter, encode("f64", &updates), scattered.len())] {
            let mut given = buffers(data, n);
            given[1] = encode("i32", &[9.0, 0.0, 10.0, 4.0, 5.0, 6.0, 9.0]);
            let error = run_all(0, &given, std::slice::from_ref(&step)).expect_err("outside");
            assert_eq!(error.fault, Fault::Index { index: 10, position: 2, size });
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
    check(
        "f32",
        0.0,
        0,
        &[encode("f32", &input), starts.clone(), encode("f32", &[-1.0; 4]), zeros("f32", 60)],
        update.clone(),
        &want,
    );
    let mut in_place = update;
    in_place["out"] = json!([1, 0]);
    for (_, buffers) in
        run_all(0, &[encode("f32", &input), starts, encode("f32", &[-1.0; 4])], &[in_place]).expect("runs")
    {
        assert_eq!(decode("f32", &buffers[0]), want);
    }
}

#[test]
fn random_bits_match_the_published_vectors() {
    // Random123 kat_vectors: counter 0, key 0.
    let c = random::blocks([0, 0], 0, 0);
    assert_eq!([c[0][0], c[1][0], c[2][0], c[3][0]], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
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
        let error =
            run_all(0, &[l, encode("i32", &vec![cols as f64; rows]), zeros(dtype, rows)], &[step]).expect_err("label");
        assert_eq!(error.fault, Fault::Label { index: cols as i64, position: 0, size: cols });
    }
}

#[test]
fn coordinates_and_lone_collectives() {
    let step = json!({ "k": "axisIndex", "axis": 1, "out": [1, 0] });
    check("i32", 0.0, 0, &[zeros("i32", 1)], step, &[5.0]);
    let step = json!({ "k": "collective", "op": "allReduce", "axis": 0, "reduction": "sum", "dtype": "f32", "parts": [{ "in": [1, 0], "out": [2, 0], "count": 3 }], "label": "x" });
    check("f32", 0.0, 0, &[encode("f32", &[1.0, 2.0, 3.0]), zeros("f32", 3)], step, &[1.0, 2.0, 3.0]);
}

#[test]
fn nothing_is_sent_to_or_received_from_a_device_that_is_not_there() {
    for step in [
        json!({ "k": "send", "axis": 0, "to": 1, "dtype": "f32", "parts": [{ "in": [1, 0], "count": 3 }], "label": "x" }),
        json!({ "k": "receive", "axis": 0, "from": 1, "dtype": "f32", "parts": [{ "out": [1, 0], "count": 3 }], "label": "x" }),
    ] {
        let error = run_all(0, &[zeros("f32", 3)], &[step]).expect_err("a lone device");
        assert!(error.to_string().contains("there is no device 1 on axis 0 of 1"), "{error}");
    }
}
