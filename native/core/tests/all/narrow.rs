//! Products of narrow numbers against naive loops, on every instruction set.

use crate::common::*;
use heddle_core::isa::Isa;
use serde_json::{json, Value};

#[derive(Clone, Copy, Debug)]
struct Case {
    x: &'static str,
    y: &'static str,
    out: &'static str,
    sizes: [usize; 4],
    /// The order of dims of each operand: none is without gaps, and `false` means that rows come first.
    turned: [bool; 3],
    /// Gaps between elements of the left side.
    apart: bool,
    bias: bool,
    relu: bool,
}

fn strides([b, rows, columns]: [usize; 3], turned: bool, apart: usize) -> [usize; 3] {
    let batch = if b > 1 { rows * columns * apart } else { 0 };
    if turned {
        [batch, apart, rows * apart]
    } else {
        [batch, columns * apart, apart]
    }
}

/// All values of the dtype for integers; for floats, numbers around 1.
fn values(dtype: &str, count: usize, random: &mut Random) -> Vec<f64> {
    let each = |random: &mut Random| match dtype {
        "i8" => random.below(256) as f64 - 128.0,
        "u8" => random.below(256) as f64,
        "i32" => random.below(1 << 20) as f64,
        _ => random.float(),
    };
    hold(dtype, (0..count).map(|_| each(random)).collect())
}

impl Case {
    fn step(&self) -> Value {
        let [b, m, k, n] = self.sizes;
        let xs = strides([b, m, k], self.turned[0], 1 + usize::from(self.apart));
        let (ys, os) = (strides([b, k, n], self.turned[1], 1), strides([b, m, n], self.turned[2], 1));
        let mut step = json!({ "k": "narrowDot", "dtype": self.out, "b": b, "m": m, "k2": k, "n": n, "relu": self.relu,
            "x": { "at": [1, 0], "dtype": self.x, "strides": xs }, "y": { "at": [2, 0], "dtype": self.y, "strides": ys },
            "out": { "at": [4, 0], "strides": os } });
        if self.bias {
            step["bias"] = json!([3, 0]);
        }
        step
    }

    fn run(&self) {
        let [b, m, k, n] = self.sizes;
        let mut random = Random(11 + (m * 31 + n * 17 + k) as u64);
        let apart = 1 + usize::from(self.apart);
        let (x, y) = (values(self.x, b * m * k * apart, &mut random), values(self.y, b * k * n, &mut random));
        let bias = values(self.out, n, &mut random);
        let [xs, ys, os] = ["x", "y", "out"]
            .map(|side| serde_json::from_value::<Vec<usize>>(self.step()[side]["strides"].clone()).expect("strides"));
        let mut want = vec![0.0; b * m * n];
        for (i, r, c) in (0..b).flat_map(|i| (0..m).flat_map(move |r| (0..n).map(move |c| (i, r, c)))) {
            let at = |p: usize| (x[i * xs[0] + r * xs[1] + p * xs[2]], y[i * ys[0] + p * ys[1] + c * ys[2]]);
            let sum: f64 = (0..k).map(at).map(|(x, y)| x * y).sum();
            let rounded = hold(self.out, vec![sum])[0];
            let moved = if self.bias { hold(self.out, vec![rounded + bias[c]])[0] } else { rounded };
            want[i * os[0] + r * os[1] + c * os[2]] = if self.relu { moved.max(0.0) } else { moved };
        }
        let contents = [encode(self.x, &x), encode(self.y, &y), encode(self.out, &bias), zeros(self.out, b * m * n)];
        let tolerance = match self.out {
            "i32" => 0.0,
            "f32" => 1e-6,
            // A unit in the last place, once for the product and once for the bias.
            _ => 2f64.powi(-7),
        };
        check(self.out, tolerance, 0, &contents, self.step(), &want);
    }
}

const SIZES: [[usize; 4]; 13] = [
    [1, 1, 1, 1],
    [2, 3, 5, 7],
    [1, 16, 32, 16],
    [1, 17, 33, 18],
    [2, 33, 65, 40],
    [3, 1, 70, 40],
    [1, 40, 70, 1],
    [1, 64, 64, 64],
    [1, 45, 130, 100],
    [1, 20, 1030, 34],
    [1, 2, 0, 3],
    [0, 4, 4, 4],
    [1, 4, 4, 0],
];

const PLAIN: Case = Case {
    x: "bf16",
    y: "bf16",
    out: "bf16",
    sizes: [1, 1, 1, 1],
    turned: [false; 3],
    apart: false,
    bias: false,
    relu: false,
};

const INTEGERS: [(&str, &str); 4] = [("i8", "i8"), ("u8", "i8"), ("i8", "u8"), ("u8", "u8")];

#[test]
fn narrow_products_of_all_forms() {
    for (sizes, flags) in SIZES.into_iter().flat_map(|sizes| (0..16).map(move |flags| (sizes, flags))) {
        let turned = [flags & 1 > 0, flags & 2 > 0, flags & 4 > 0];
        let plain = Case { sizes, turned, apart: flags & 8 > 0, ..PLAIN };
        for out in ["bf16", "f32"] {
            Case { out, ..plain }.run();
        }
        for (x, y) in INTEGERS {
            Case { x, y, out: "i32", ..plain }.run();
        }
    }
}

#[test]
fn narrow_products_have_epilogues() {
    for (bias, relu) in [(true, false), (false, true), (true, true)] {
        for (sizes, turned) in [([1, 17, 33, 18], [false; 3]), ([2, 35, 1100, 50], [true; 3])] {
            let plain = Case { sizes, turned, bias, relu, ..PLAIN };
            plain.run();
            Case { out: "f32", ..plain }.run();
            Case { x: "u8", y: "i8", out: "i32", ..plain }.run();
        }
    }
}

#[test]
fn large_narrow_products_are_cut() {
    for sizes in [[1, 530, 300, 600], [1, 1100, 70, 33], [1, 70, 5000, 70], [40, 64, 64, 64]] {
        let plain = Case { sizes, ..PLAIN };
        plain.run();
        Case { x: "i8", y: "i8", out: "i32", ..plain }.run();
    }
}

/// All products of the largest numbers: sums beyond what 16 bits and f32 hold, and beyond i32.
#[test]
fn narrow_sums_of_integers_wrap() {
    for (x, y, k, left, right) in
        [("i8", "i8", 1100, -128.0, -128.0), ("u8", "u8", 40000, 255.0, 255.0), ("i8", "u8", 70000, -128.0, 255.0)]
    {
        for (m, columns_first) in [(1, true), (2, false), (2, true)] {
            let turned = [false, columns_first, false];
            let case = Case { x, y, out: "i32", sizes: [1, m, k, 3], turned, ..PLAIN };
            let sum = (left * right * k as f64) as i64 as i32;
            let contents = [encode(x, &vec![left; m * k]), encode(y, &vec![right; 3 * k]), vec![], zeros("i32", 3 * m)];
            check("i32", 0.0, 0, &contents, case.step(), &vec![f64::from(sum); 3 * m]);
        }
    }
}

/// Infinite numbers and NaN stay in their rows and columns, also beside the edges of tiles.
#[test]
fn what_is_not_finite_spreads_no_further() {
    let (m, k, n) = (18, 35, 19);
    let mut x = vec![1.0; m * k];
    (x[3 * k + 34], x[17 * k]) = (f64::INFINITY, f64::NAN);
    let mut y = vec![1.0; k * n];
    y[34 * n + 18] = f64::NEG_INFINITY;
    let want: Vec<f64> = (0..m * n).map(|i| (0..k).map(|p| x[i / n * k + p] * y[p * n + i % n]).sum()).collect();
    let case = Case { out: "f32", sizes: [1, m, k, n], ..PLAIN };
    check("f32", 0.0, 0, &[encode("bf16", &x), encode("bf16", &y), vec![], zeros("f32", m * n)], case.step(), &want);
}

#[test]
fn other_dtypes_have_no_narrow_product() {
    for (x, y, out) in [("f16", "f16", "f32"), ("bf16", "bf16", "i32"), ("i8", "i8", "i8"), ("bf16", "f32", "f32")] {
        let step = Case { x, y, out, ..PLAIN }.step();
        let contents = [zeros(x, 1), zeros(y, 1), zeros(out, 1), zeros(out, 1)];
        assert!(program(0, &contents, &[step]).is_err(), "{x} {y} {out}");
    }
}

#[test]
fn instruction_sets_have_an_order() {
    let names: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    let all = ["scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"];
    assert_eq!(names, all[..names.len()]);
    assert_eq!(Isa::choose(Some(names[names.len() - 1])).expect("available"), Isa::detect());
    assert!(Isa::choose(Some("sse9")).expect_err("unknown").to_string().contains("avx512vnni"));
}
