//! Loops that read slices where they lie, and compute what they stack where it will lie: the bits are those of loops that copy.

use crate::common::*;
use serde_json::{json, Value};

const LENGTH: usize = 5;
const ROW: usize = 48;
/// The count, and memory of rows.
const COUNT: [usize; 2] = [0, 0];
const ZERO: [usize; 2] = [0, 64];
const A: usize = 128;
const B: usize = A + 4 * ROW;
const C: usize = B + 4 * ROW;
const CARRY: usize = C + 4 * ROW;
const ARENA: usize = CARRY + 4 * ROW;

/// A slice of a buffer, or an update of it; with three dims the loop copies.
fn copy(k: &str, buffer: usize, row: usize, copies: bool) -> Value {
    let (shape, sizes) =
        if copies { (vec![LENGTH, 1, ROW], vec![1, 1, ROW]) } else { (vec![LENGTH, ROW], vec![1, ROW]) };
    let starts: Vec<[usize; 2]> = if copies { vec![COUNT, ZERO, ZERO] } else { vec![COUNT, ZERO] };
    let mut step =
        json!({ "k": k, "dtype": "f32", "shape": shape, "sizes": sizes, "in": [buffer, 0], "starts": starts });
    if k == "dynamicSlice" {
        step["out"] = json!([0, row]);
    } else {
        (step["out"], step["update"]) = (json!([buffer, 0]), json!([0, row]));
    }
    step
}

/// `to = op(from…)` for `count` numbers of rows from an element on.
fn group(op: &str, from: &[[usize; 2]], to: [usize; 2], count: usize) -> Value {
    let inputs: Vec<Value> = from.iter().map(|at| json!({ "at": at, "dtype": "f32", "strides": [1] })).collect();
    let mut instruction = vec![json!(op), json!("f32")];
    instruction.extend((0..from.len()).map(|register| json!(register)));
    let ops = if op == "copy" { json!([]) } else { json!([instruction]) };
    let reg = if op == "copy" { 0 } else { from.len() };
    json!({ "k": "fused", "shape": [count], "in": inputs, "ops": ops,
        "out": [{ "at": to, "dtype": "f32", "strides": [1], "reg": reg }] })
}

fn run(body: &dyn Fn(bool) -> Vec<Value>, behind: &[Value], reverse: bool) -> Vec<Vec<f64>> {
    let mut random = Random(5);
    let contents: Vec<Vec<u8>> = (0..4).map(|_| encode("f32", &random.floats(LENGTH * ROW))).collect();
    let results = [false, true].map(|copies| {
        let zero = json!({ "k": "fused", "shape": [], "in": [], "ops": [["const", "i32", 0]],
            "out": [{ "at": ZERO, "dtype": "i32", "strides": [], "reg": 0 }] });
        let looped = json!({ "k": "loop", "count": LENGTH, "reverse": reverse, "out": COUNT, "steps": body(copies) });
        let mut steps = vec![zero, group("copy", &[[4, 0]], [0, CARRY], ROW), group("copy", &[[4, 0]], [0, A], ROW)];
        steps.push(group("copy", &[[4, 0]], [0, B], ROW));
        steps.push(looped);
        steps.extend(behind.iter().cloned());
        run_all(ARENA, &contents, &steps).expect("runs")
    });
    assert!(results[0] == results[1], "{:?}", body(false));
    results[0][0].1.iter().map(|buffer| decode("f32", buffer)).collect()
}

/// The steps of a loop that copies or not.
type Body = Box<dyn Fn(bool) -> Vec<Value>>;

/// Buffers 1 and 2 have stacks that are read, 3 one that is written, 4 numbers for carries, and results.
fn cases() -> Vec<(&'static str, Body, Vec<Value>)> {
    let slice = |buffer: usize, row: usize| move |copies: bool| copy("dynamicSlice", buffer, row, copies);
    let stack = |buffer: usize, row: usize| move |copies: bool| copy("dynamicUpdateSlice", buffer, row, copies);
    let half = 2 * ROW;
    let after = |row: usize| vec![group("copy", &[[0, row]], [4, 0], ROW)];
    vec![
        (
            "a slice and a stack",
            Box::new(move |c| vec![slice(1, A)(c), group("neg", &[[0, A]], [0, B], ROW), stack(3, B)(c)]),
            vec![],
        ),
        (
            "a carry, in place",
            Box::new(move |c| {
                vec![slice(1, A)(c), group("add", &[[0, CARRY], [0, A]], [0, CARRY], ROW), stack(3, CARRY)(c)]
            }),
            after(CARRY),
        ),
        (
            "memory of a slice holds what is stacked, in parts",
            Box::new(move |c| {
                let parts = [0, half].map(|at| group("neg", &[[0, A + at]], [0, B + at], ROW / 2));
                let back = [half, 0].map(|at| group("exp", &[[0, B + at]], [0, A + at], ROW / 2));
                let mut all = vec![slice(1, A)(c)];
                all.extend(parts);
                all.extend(back);
                all.push(stack(3, A)(c));
                all
            }),
            after(A),
        ),
        (
            "a slice that is written over in part and read again",
            Box::new(move |c| {
                let over = group("exp", &[[0, A]], [0, A], ROW / 2);
                vec![slice(1, A)(c), over, group("neg", &[[0, A]], [0, B], ROW), stack(3, B)(c)]
            }),
            after(A),
        ),
        (
            "what is stacked is read and changed behind",
            Box::new(move |c| {
                let change = group("add", &[[0, B], [0, CARRY]], [0, B], ROW);
                vec![
                    slice(1, A)(c),
                    group("neg", &[[0, A]], [0, B], ROW),
                    stack(3, B)(c),
                    change,
                    group("copy", &[[0, B]], [0, CARRY], ROW),
                ]
            }),
            after(CARRY),
        ),
        (
            "a value of the iteration before is stacked",
            Box::new(move |c| vec![stack(3, B)(c), slice(1, A)(c), group("neg", &[[0, A]], [0, B], ROW)]),
            after(B),
        ),
        (
            "half of what is stacked is of the iteration before",
            Box::new(move |c| vec![slice(1, A)(c), group("neg", &[[0, A]], [0, B], ROW / 2), stack(3, B)(c)]),
            vec![],
        ),
        (
            "the slice of the iteration before is read",
            Box::new(move |c| vec![group("neg", &[[0, A]], [0, B], ROW), stack(3, B)(c), slice(1, A)(c)]),
            after(A),
        ),
        (
            "a stack that is also read",
            Box::new(move |c| vec![slice(3, A)(c), group("exp", &[[0, A]], [0, B], ROW), stack(3, B)(c)]),
            after(B),
        ),
        (
            "a stack that other steps change",
            Box::new(move |c| {
                vec![
                    slice(1, A)(c),
                    group("exp", &[[2, 0]], [1, 0], ROW),
                    group("neg", &[[0, A]], [0, B], ROW),
                    stack(3, B)(c),
                ]
            }),
            vec![],
        ),
        (
            "two slices and two stacks",
            Box::new(move |c| {
                let sum = group("add", &[[0, A], [0, B]], [0, C], ROW);
                vec![
                    slice(1, A)(c),
                    slice(2, B)(c),
                    sum,
                    stack(3, C)(c),
                    group("neg", &[[0, C]], [0, A], ROW),
                    stack(4, A)(c),
                ]
            }),
            vec![],
        ),
        (
            "what is stacked is read behind the loop",
            Box::new(move |c| vec![slice(1, A)(c), group("neg", &[[0, A]], [0, B], ROW), stack(3, B)(c)]),
            vec![group("add", &[[0, A], [0, B]], [4, 0], ROW)],
        ),
    ]
}

#[test]
fn loops_with_views_compute_what_loops_with_copies_do() {
    for (name, body, behind) in cases() {
        for reverse in [false, true] {
            let before = run(&|_| Vec::new(), &[], reverse);
            let results = run(&*body, &behind, reverse);
            assert!(results[2] != before[2], "{name}: nothing is stacked");
        }
    }
}

#[test]
fn a_longer_loop_stays_at_the_last_row() {
    let body = json!([
        copy("dynamicSlice", 1, A, false),
        group("neg", &[[0, A]], [0, B], ROW),
        copy("dynamicUpdateSlice", 2, B, false)
    ]);
    let steps = [json!({ "k": "loop", "count": LENGTH + 3, "out": COUNT, "steps": body })];
    let contents = [encode("f32", &Random(3).floats(LENGTH * ROW)), zeros("f32", LENGTH * ROW)];
    for (_, buffers) in run_all(ARENA, &contents, &steps).expect("runs") {
        let want: Vec<f64> = decode("f32", &contents[0]).iter().map(|value| -value).collect();
        assert_eq!(decode("f32", &buffers[1]), want);
    }
}
