//! Groups folded along rows or columns: the bits of the same work in separate steps, by every instruction set, generated and
//! interpreted; softmax, norms and positions of maxima against plain loops.

use crate::common::groups::{canonical, compare, floats, values, Group};
use crate::common::*;
use heddle_core::generate::Generate;
use heddle_core::isa::Isa;
use serde_json::{json, Value};

const LENGTHS: [usize; 16] = [0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 200, 1000, 1100];

/// A step that folds groups of `[rows, n]`: along the rows, or along the columns.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Rows,
    Columns,
}

impl Form {
    fn kernel(self) -> &'static str {
        if self == Form::Rows {
            "fusedRows"
        } else {
            "fusedColumns"
        }
    }

    /// Strides of one value per row, or column, spread over the whole.
    fn spread(self) -> [isize; 2] {
        if self == Form::Rows {
            [1, 0]
        } else {
            [0, 1]
        }
    }
}

/// The registers of a group as values in memory, for steps that each run one instruction.
struct Separate<'a> {
    form: Form,
    step: &'a Value,
    shape: [usize; 2],
    dtypes: &'a [&'a str],
    singles: &'a [bool],
    /// Bytes between values.
    room: usize,
    steps: Vec<Value>,
}

impl Separate<'_> {
    fn inputs(&self) -> &[Value] {
        self.step["in"].as_array().expect("inputs")
    }

    fn place(&self, register: usize) -> Value {
        json!([0, register * self.room])
    }

    fn kept(&self) -> usize {
        self.shape[usize::from(self.form == Form::Columns)]
    }

    /// A register over the whole shape.
    fn whole(&self, register: usize) -> Value {
        if let Some(input) = self.inputs().get(register) {
            return input.clone();
        }
        let strides = if self.singles[register] { self.form.spread() } else { [self.shape[1] as isize, 1] };
        json!({ "at": self.place(register), "dtype": self.dtypes[register], "strides": strides })
    }

    /// One value for each row, or column.
    fn narrow(&self, register: usize) -> Value {
        let mut view = self.whole(register);
        view["strides"] = json!([view["strides"][usize::from(self.form == Form::Columns)]]);
        view
    }

    fn view(&self, register: usize, whole: bool) -> Value {
        if whole {
            self.whole(register)
        } else {
            self.narrow(register)
        }
    }

    fn elementwise(&mut self, whole: bool, ins: &[Value], ops: Value, mut out: Value, reg: usize) {
        out["reg"] = json!(reg);
        let shape = if whole { json!(self.shape) } else { json!([self.kept()]) };
        self.steps.push(json!({ "k": "fused", "shape": shape, "in": ins, "ops": ops, "out": [out] }));
    }

    fn fold(&mut self, register: usize, op: &Value) {
        let from = self.whole(op[3].as_u64().expect("a register") as usize);
        // The order of a sum follows the strides of what is summed.
        let at = self.place(self.dtypes.len() + register);
        let copy = json!({ "at": at, "dtype": op[1], "strides": [self.shape[1], 1] });
        self.elementwise(true, &[from], json!([]), copy.clone(), 0);
        let (keep, over) = if self.form == Form::Rows { (0, 1) } else { (1, 0) };
        let strides = &copy["strides"];
        self.steps.push(json!({ "k": "reduce", "op": op[2], "dtype": op[1], "in": at, "keep": [self.shape[keep]],
            "keepStrides": [strides[keep]], "over": [self.shape[over]], "overStrides": [strides[over]],
            "out": self.place(register) }));
    }

    fn compute(&mut self, register: usize, op: &Value) {
        let whole = !self.singles[register];
        let (mut own, mut ins) = (vec![op[0].clone(), op[1].clone()], Vec::new());
        if op[0] == "const" || op[0] == "iota" {
            own.push(op[2].clone());
        } else {
            for from in op.as_array().expect("an op").iter().filter_map(Value::as_u64) {
                own.push(json!(ins.len()));
                ins.push(self.view(from as usize, whole));
            }
        }
        let reg = ins.len();
        self.elementwise(whole, &ins, json!([own]), self.view(register, whole), reg);
    }
}

/// Bytes of arena and steps of the same work, one step for every instruction.
fn separate(form: Form, step: &Value, dtypes: &[&str], singles: &[bool]) -> (usize, Vec<Value>) {
    let shape = [0, 1].map(|d| step["shape"][d].as_u64().expect("size") as usize);
    let room = (shape[0] * shape[1]).max(shape[0]).max(shape[1]) * 8;
    let room = room.next_multiple_of(64);
    let mut all = Separate { form, step, shape, dtypes, singles, room, steps: Vec::new() };
    for (i, op) in step["ops"].as_array().expect("ops").iter().enumerate() {
        let register = all.inputs().len() + i;
        if op[0] == "fold" {
            all.fold(register, op);
        } else {
            all.compute(register, op);
        }
    }
    for out in step["out"].as_array().expect("outputs") {
        let whole = out["strides"].as_array().expect("strides").len() == 2;
        let from = all.view(out["reg"].as_u64().expect("a register") as usize, whole);
        all.elementwise(whole, &[from], json!([]), out.clone(), 0);
    }
    (2 * room * dtypes.len(), all.steps)
}

/// One step and the same in many steps must leave the same bits.
fn same_bits(
    form: Form,
    step: &Value,
    registers: (&[&str], &[bool]),
    buffers: &[&str],
    contents: &[Vec<u8>],
    what: &str,
) {
    compare(step, buffers, contents, what);
    let (arena, steps) = separate(form, step, registers.0, registers.1);
    let one = program_with(0, contents, std::slice::from_ref(step), Generate::On).expect("program");
    let many = program_with(arena, contents, &steps, Generate::Off).expect("separate steps");
    let got = run_on(Isa::detect(), 2, &one, contents).expect("runs");
    let want = run_on(Isa::detect(), 1, &many, contents).expect("runs");
    for (b, (got, want)) in got.iter().zip(&want).enumerate() {
        let (got, want) = (canonical(buffers[b], got), canonical(buffers[b], want));
        let at = got.iter().zip(&want).position(|(g, w)| g != w);
        assert!(at.is_none(), "{what}: buffer {b} differs from separate steps at {at:?}: {step}");
    }
}

const FOLDS: [(&str, &str); 14] = [
    ("sum", "f32"),
    ("max", "f32"),
    ("min", "f32"),
    ("sum", "f64"),
    ("max", "f64"),
    ("min", "f64"),
    ("sum", "i32"),
    ("max", "i32"),
    ("min", "u32"),
    ("and", "u32"),
    ("or", "i32"),
    ("and", "bool"),
    ("or", "bool"),
    ("sum", "u8"),
];

#[test]
fn every_fold_on_every_length() {
    let mut random = Random(3);
    for (op, dtype) in FOLDS {
        for n in LENGTHS {
            for rows in [1, 3, 37] {
                let step = json!({ "k": "fusedRows", "shape": [rows, n], "in": [{ "at": [1, 0], "dtype": dtype, "strides": [n, 1] }],
                    "ops": [["fold", dtype, op, 0]], "out": [{ "at": [2, 0], "dtype": dtype, "strides": [1], "reg": 1 }] });
                let contents = [values(&mut random, dtype, rows * n), zeros(dtype, rows)];
                let registers = (&[dtype; 2][..], &[false, true][..]);
                same_bits(Form::Rows, &step, registers, &[dtype; 2], &contents, &format!("{op} of {rows} rows of {n}"));
            }
        }
        for (rows, n) in [(1, 4), (5, 17), (128, 10), (128, 300), (3000, 33), (0, 8)] {
            let step = json!({ "k": "fusedColumns", "shape": [rows, n], "in": [{ "at": [1, 0], "dtype": dtype, "strides": [n, 1] }],
                "ops": [["fold", dtype, op, 0]], "out": [{ "at": [2, 0], "dtype": dtype, "strides": [1], "reg": 1 }] });
            let contents = [values(&mut random, dtype, rows * n), zeros(dtype, n)];
            let registers = (&[dtype; 2][..], &[false, true][..]);
            same_bits(Form::Columns, &step, registers, &[dtype; 2], &contents, &format!("{op} of columns {rows}x{n}"));
        }
    }
}

/// Whether an instruction has one value per row, or column.
fn is_single(form: Form, op: &Value, singles: &[bool]) -> bool {
    let mut of = op.as_array().expect("an op").iter().skip(2).filter_map(Value::as_u64);
    let still = op[0] == "const" || of.all(|r| singles[r as usize]);
    op[0] == "fold" || (form == Form::Rows && still)
}

/// A random group with folds in it.
fn random_case(seed: u64, form: Form) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let double = random.below(3) == 0;
    let (rows, n) = (1 + random.below(40), [4 + random.below(90), 4 + random.below(1500)][random.below(2)]);
    let mut inputs = vec!["f32", "f32", "bool", "i32", "u32", "u8"];
    if double {
        inputs.extend(["f64", "f64"]);
    }
    let (mut ins, mut contents, mut singles) = (Vec::new(), Vec::new(), Vec::new());
    for (i, dtype) in inputs.iter().enumerate() {
        let strides: [isize; 2] = match random.below(4) {
            0 => [n as isize, 1],
            1 => [1, 0],
            2 => [0, 1],
            _ => [n as isize, 1],
        };
        singles.push(form == Form::Rows && strides[1] == 0);
        contents.push(values(&mut random, dtype, rows * n));
        ins.push(json!({ "at": [i + 1, 0], "dtype": dtype, "strides": strides }));
    }
    let mut group = Group { random, dtypes: inputs.clone(), ops: Vec::new() };
    let (mut buffers, mut outs) = (inputs.clone(), Vec::new());
    let rounds = if form == Form::Rows { 1 + group.random.below(3) } else { 1 };
    for _ in 0..rounds {
        (0..2 + group.random.below(6)).for_each(|_| group.step(double));
        let dtype = ["f32", "i32", "bool", if double { "f64" } else { "f32" }][group.random.below(4)];
        let op = if dtype == "bool" {
            ["and", "or"][group.random.below(2)]
        } else {
            ["sum", "max", "min"][group.random.below(3)]
        };
        let from = group.pick(dtype);
        group.push(json!(["fold", dtype, op, from]), dtype);
        let reg = group.dtypes.len() - 1;
        let kept = if form == Form::Rows { rows } else { n };
        contents.push(zeros(dtype, kept));
        buffers.push(dtype);
        outs.push(json!({ "at": [buffers.len(), 0], "dtype": dtype, "strides": [1], "reg": reg }));
    }
    if form == Form::Rows {
        (0..2 + group.random.below(6)).for_each(|_| group.step(double));
    }
    group.ops.iter().for_each(|op| singles.push(is_single(form, op, &singles)));
    let folded = |r: usize| r >= inputs.len() && group.ops[r - inputs.len()][0] == "fold";
    let whole: Vec<usize> = (inputs.len()..group.dtypes.len()).filter(|r| form == Form::Rows || !folded(*r)).collect();
    for reg in whole.iter().rev().take(2) {
        let dtype = group.dtypes[*reg];
        contents.push(zeros(dtype, rows * n));
        buffers.push(dtype);
        outs.push(json!({ "at": [buffers.len(), 0], "dtype": dtype, "strides": [n, 1], "reg": reg }));
    }
    let step = json!({ "k": form.kernel(), "shape": [rows, n], "in": ins, "ops": group.ops, "out": outs });
    same_bits(form, &step, (&group.dtypes, &singles), &buffers, &contents, &format!("seed {seed}"));
}

#[test]
fn random_groups_of_rows() {
    (0..120).for_each(|seed| random_case(seed, Form::Rows));
}

#[test]
fn random_groups_of_columns() {
    (1000..1080).for_each(|seed| random_case(seed, Form::Columns));
}

/// exp(x - max) / sum, or x - max - log(sum), by plain loops in f64.
fn softmax(rows: &[f64], n: usize, log: bool) -> Vec<f64> {
    let row = |row: &[f64]| -> Vec<f64> {
        let top =
            row.iter()
                .copied()
                .fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) });
        let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
        row.iter().map(|x| if log { x - top - sum.ln() } else { (x - top).exp() / sum }).collect()
    };
    rows.chunks(n).flat_map(row).collect()
}

fn softmax_step(rows: usize, n: usize, dtype: &str, log: bool) -> Value {
    let mut ops = vec![
        json!(["fold", dtype, "max", 0]),
        json!(["sub", dtype, 0, 1]),
        json!(["exp", dtype, 2]),
        json!(["fold", dtype, "sum", 3]),
    ];
    if log {
        ops.extend([json!(["log", dtype, 4]), json!(["sub", dtype, 2, 5])]);
    } else {
        ops.push(json!(["div", dtype, 3, 4]));
    }
    let reg = ops.len();
    json!({ "k": "fusedRows", "shape": [rows, n], "in": [{ "at": [1, 0], "dtype": dtype, "strides": [n, 1] }], "ops": ops,
        "out": [{ "at": [2, 0], "dtype": dtype, "strides": [n, 1], "reg": reg }] })
}

#[test]
fn softmax_of_ordinary_and_extreme_rows() {
    let mut random = Random(17);
    for dtype in ["f32", "f64"] {
        for n in LENGTHS.into_iter().filter(|n| *n > 0) {
            for log in [false, true] {
                let rows = 5;
                let mut x: Vec<f64> = (0..rows * n).map(|_| random.float() * 4.0).collect();
                // Huge, equal and infinitely low values.
                x[n..2 * n].iter_mut().for_each(|v| *v *= 1e4);
                x[2 * n..3 * n].fill(-3e38);
                x[3 * n + n / 2] = f64::NEG_INFINITY;
                x[4 * n + n - 1] = 1e30;
                let x = hold(dtype, x);
                let want = softmax(&x, n, log);
                let contents = [encode(dtype, &x), zeros(dtype, rows * n)];
                let results = run_all(0, &contents, &[softmax_step(rows, n, dtype, log)]).expect("runs");
                for (isa, buffers) in results {
                    for (i, (g, w)) in decode(dtype, &buffers[1]).iter().zip(&want).enumerate() {
                        let same = g == w
                            || (g.is_nan() && w.is_nan())
                            || (g - w).abs() <= tolerance(dtype) * w.abs().max(1.0);
                        assert!(same, "{} {dtype} rows of {n}, log {log}: element {i} is {g}, not {w}", isa.name());
                    }
                }
            }
        }
    }
}

#[test]
fn nan_at_every_place_of_a_row() {
    for n in [1, 9, 16, 33, 70] {
        for at in 0..n {
            let mut x = vec![1.0; 2 * n];
            x[n + at] = f64::NAN;
            let ops = json!([
                ["fold", "f32", "max", 0],
                ["fold", "f32", "min", 0],
                ["fold", "f32", "sum", 0],
                ["sub", "f32", 0, 1]
            ]);
            let single =
                |buffer: usize, reg: usize| json!({ "at": [buffer, 0], "dtype": "f32", "strides": [1], "reg": reg });
            let step = json!({ "k": "fusedRows", "shape": [2, n], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [n, 1] }], "ops": ops,
                "out": [single(2, 1), single(3, 2), single(4, 3), { "at": [5, 0], "dtype": "f32", "strides": [n, 1], "reg": 4 }] });
            let contents = [encode("f32", &x), zeros("f32", 2), zeros("f32", 2), zeros("f32", 2), zeros("f32", 2 * n)];
            for (isa, buffers) in run_all(0, &contents, &[step]).expect("runs") {
                for buffer in &buffers[1..4] {
                    let got = decode("f32", buffer);
                    assert!(!got[0].is_nan() && got[1].is_nan(), "{} NaN at {at} of {n}: {got:?}", isa.name());
                }
                let got = decode("f32", &buffers[4]);
                assert!(got[..n].iter().all(|v| *v == 0.0) && got[n..].iter().all(|v| v.is_nan()), "{got:?}");
            }
        }
    }
}

#[test]
fn positions_of_maxima_take_the_first_of_ties_and_of_nans() {
    let nan = f64::NAN;
    let special = [vec![3.0, 9.0, 9.0, 1.0], vec![5.0; 4], vec![1.0, nan, 7.0, nan], vec![f64::NEG_INFINITY; 4]];
    let mut random = Random(23);
    for n in [4usize, 8, 10, 33, 64, 100] {
        let row = |r: usize, random: &mut Random| -> Vec<f64> {
            let tail = (0..n - 4).map(|_| if r == 3 { f64::NEG_INFINITY } else { random.below(9) as f64 });
            let tail: Vec<f64> = tail.collect();
            [special[r].clone(), tail].concat()
        };
        let x: Vec<f64> = (0..4).flat_map(|r| row(r, &mut random)).collect();
        let ops = json!([
            ["fold", "f32", "max", 0],
            ["eq", "f32", 0, 1],
            ["ne", "f32", 0, 0],
            ["or", "bool", 2, 3],
            ["iota", "i32", 1],
            ["const", "i32", n],
            ["select", "i32", 4, 5, 6],
            ["fold", "i32", "min", 7]
        ]);
        let step = json!({ "k": "fusedRows", "shape": [4, n], "in": [{ "at": [1, 0], "dtype": "f32", "strides": [n, 1] }], "ops": ops,
            "out": [{ "at": [2, 0], "dtype": "i32", "strides": [1], "reg": 8 }] });
        let plain = json!({ "k": "argMax", "dtype": "f32", "rows": 4, "cols": n, "in": [1, 0], "out": [2, 0] });
        let contents = [encode("f32", &x), zeros("i32", 4)];
        let want = run_all(0, &contents, &[plain]).expect("runs")[0].1[1].clone();
        for (isa, buffers) in run_all(0, &contents, &[step]).expect("runs") {
            assert_eq!(decode("i32", &buffers[1]), decode("i32", &want), "{} rows of {n}", isa.name());
        }
    }
}

#[test]
fn an_output_may_take_the_place_of_an_input_that_several_passes_read() {
    let mut random = Random(41);
    for (rows, n) in [(3usize, 20usize), (40, 100), (2, 5000)] {
        let x = encode(
            "f32",
            &floats(&mut random, rows * n)
                .iter()
                .map(|v| if v.is_finite() { v % 10.0 } else { 0.5 })
                .collect::<Vec<_>>(),
        );
        let mut step = softmax_step(rows, n, "f32", false);
        let apart = run_all(0, &[x.clone(), zeros("f32", rows * n)], std::slice::from_ref(&step)).expect("runs");
        step["out"][0]["at"] = json!([1, 0]);
        let over = run_all(0, &[x], &[step]).expect("runs");
        for ((isa, apart), (_, over)) in apart.iter().zip(&over) {
            assert!(apart[1] == over[0], "{} rows of {n}", isa.name());
        }
    }
}

#[test]
fn what_cannot_be_folded_is_refused() {
    let step = |ops: Value, out: Value| {
        json!({ "k": "fusedRows", "shape": [4, 8], "in": [{ "at": [1, 0], "dtype": "i32", "strides": [8, 1] }], "ops": ops,
            "out": [out] })
    };
    let single = |reg: usize| json!({ "at": [2, 0], "dtype": "i32", "strides": [1], "reg": reg });
    let columns = |ops: Value, reg: usize| {
        let mut step = step(ops, json!({ "at": [2, 0], "dtype": "i32", "strides": [1], "reg": reg }));
        step["k"] = json!("fusedColumns");
        step
    };
    let long = json!({ "k": "fusedRows", "shape": [1, 20000], "in": [], "ops": [["const", "i32", 1], ["fold", "i32", "sum", 0]], "out": [single(1)] });
    let cases = [
        (step(json!([["fold", "i32", "mean", 0]]), single(1)), "unknown op \\\"mean"),
        (step(json!([["fold", "i32", "sum", 3]]), single(1)), "not a register before 1"),
        (step(json!([["fold", "f32", "sum", 0]]), single(1)), "is i32"),
        // The dtype of a comparison is that of its operands.
        (step(json!([["fold", "i32", "max", 0], ["eq", "bool", 0, 1]]), single(2)), "is i32, not bool"),
        (step(json!([["neg", "i32", 0]]), single(1)), "more than one value per row"),
        (step(json!([["div", "i32", 0, 0], ["fold", "i32", "sum", 1]]), single(2)), "div of integers is not supported"),
        (step(json!([["iota", "i32", 0], ["fold", "i32", "sum", 1]]), single(2)), "along the folded dim only"),
        (long, "longer than"),
        (columns(json!([["fold", "i32", "sum", 0], ["neg", "i32", 1]]), 2), "is not a fold"),
    ];
    for (step, message) in cases {
        let contents = [zeros("i32", 32), zeros("i32", 32)];
        match program(0, &contents, std::slice::from_ref(&step)) {
            Ok(_) => panic!("accepted: {step}"),
            Err(error) => assert!(error.to_string().contains(message), "{error}: {step}"),
        }
    }
}
