//! Products, convolutions and windows against naive loops.

use crate::common::*;
use serde_json::{json, Value};

struct Dot {
    b: usize,
    m: usize,
    k: usize,
    n: usize,
    transposed: (bool, bool, bool),
}

fn matrix_strides(b: usize, rows: usize, columns: usize, transposed: bool) -> [usize; 3] {
    let batch = if b > 1 { rows * columns } else { 0 };
    if transposed {
        [batch, 1, rows]
    } else {
        [batch, columns, 1]
    }
}

fn dot_case(dtype: &str, case: &Dot) {
    let Dot { b, m, k, n, transposed } = *case;
    let mut random = Random(7 + (m * 31 + n * 17 + k) as u64);
    let x = hold(dtype, random.floats(b * m * k));
    let y = hold(dtype, random.floats(b * k * n));
    let (xs, ys) = (matrix_strides(b, m, k, transposed.0), matrix_strides(b, k, n, transposed.1));
    let os = matrix_strides(b, m, n, transposed.2);
    let mut want = vec![0.0; b * m * n];
    for (i, r, c) in (0..b).flat_map(|i| (0..m).flat_map(move |r| (0..n).map(move |c| (i, r, c)))) {
        let sum = (0..k).map(|p| x[i * xs[0] + r * xs[1] + p * xs[2]] * y[i * ys[0] + p * ys[1] + c * ys[2]]).sum();
        want[i * os[0] + r * os[1] + c * os[2]] = sum;
    }
    let step = json!({ "k": "dot", "dtype": dtype, "b": b, "m": m, "k2": k, "n": n, "x": { "at": [1, 0], "strides": xs },
        "y": { "at": [2, 0], "strides": ys }, "out": { "at": [3, 0], "strides": os } });
    let contents = [encode(dtype, &x), encode(dtype, &y), zeros(dtype, b * m * n)];
    check(dtype, tolerance(dtype), 0, &contents, step, &want);
}

#[test]
fn products_of_all_forms() {
    let sizes = [
        (1, 1, 1, 1),
        (1, 3, 5, 7),
        (2, 14, 9, 32),
        (1, 15, 300, 33),
        (3, 1, 70, 40),
        (1, 40, 70, 1),
        (1, 130, 64, 65),
        (1, 2, 1, 3),
        (1, 5, 2, 3),
        (2, 28, 257, 48),
        (1, 17, 600, 17),
        (5, 4, 4, 4),
        (1, 64, 64, 64),
        (1, 100, 1024, 6),
    ];
    for (b, m, k, n) in sizes {
        for flags in 0..8 {
            let transposed = (flags & 1 > 0, flags & 2 > 0, flags & 4 > 0);
            for dtype in ["f32", "f64"] {
                dot_case(dtype, &Dot { b, m, k, n, transposed });
            }
        }
    }
}

#[test]
fn large_products_are_cut_and_split() {
    for (m, k, n) in [
        (300, 300, 300),
        (12, 20000, 9),
        (1, 30000, 1),
        (2000, 40, 1),
        (1, 600, 2000),
        (520, 16, 70),
        (1, 4000, 99),
        (90, 4000, 1),
    ] {
        for flags in 0..4 {
            dot_case("f32", &Dot { b: 1, m, k, n, transposed: (flags & 1 > 0, flags & 2 > 0, false) });
        }
    }
}

/// Bytes as an unsigned number.
fn whole(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn whole_case(dtype: &str, case: &Dot) {
    let Dot { b, m, k, n, transposed } = *case;
    let bytes = size(dtype);
    let mut random = Random(3 + (m * 31 + n * 17 + k) as u64);
    let mut bits = |count: usize| -> Vec<u8> { (0..count * bytes).map(|_| random.below(256) as u8).collect() };
    let (x, y) = (bits(b * m * k), bits(b * k * n));
    let (xs, ys) = (matrix_strides(b, m, k, transposed.0), matrix_strides(b, k, n, transposed.1));
    let os = matrix_strides(b, m, n, transposed.2);
    let at = |of: &[u8], index: usize| whole(&of[index * bytes..][..bytes]);
    let mut want = vec![0; b * m * n * bytes];
    for (i, r, c) in (0..b).flat_map(|i| (0..m).flat_map(move |r| (0..n).map(move |c| (i, r, c)))) {
        let sum = (0..k).fold(0u64, |sum, p| {
            let (left, right) = (at(&x, i * xs[0] + r * xs[1] + p * xs[2]), at(&y, i * ys[0] + p * ys[1] + c * ys[2]));
            sum.wrapping_add(left.wrapping_mul(right))
        });
        let place = i * os[0] + r * os[1] + c * os[2];
        want[place * bytes..][..bytes].copy_from_slice(&sum.to_le_bytes()[..bytes]);
    }
    let step = json!({ "k": "dot", "dtype": dtype, "b": b, "m": m, "k2": k, "n": n, "x": { "at": [1, 0], "strides": xs },
        "y": { "at": [2, 0], "strides": ys }, "out": { "at": [3, 0], "strides": os } });
    let contents = [vec![], x, y, bits(b * m * n)];
    for (isa, buffers) in run_all(0, &contents[1..], &[step]).expect("runs") {
        assert!(buffers[2] == want, "{dtype} {m}x{k}x{n} on {}", isa.name());
    }
}

#[test]
fn products_of_integers_wrap() {
    let sizes = [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (1, 5, 300, 70),
        (1, 6, 3, 140),
        (3, 1, 70, 40),
        (1, 40, 70, 1),
        (1, 130, 600, 17),
        (1, 200, 9, 3),
        (1, 2, 0, 3),
    ];
    for ((b, m, k, n), dtype) in
        sizes.into_iter().flat_map(|s| ["i8", "u8", "i32", "u32", "i64", "u64"].map(|d| (s, d)))
    {
        for flags in 0..8 {
            let transposed = (flags & 1 > 0, flags & 2 > 0, flags & 4 > 0);
            whole_case(dtype, &Dot { b, m, k, n, transposed });
        }
    }
}

#[test]
fn products_of_truth_values_and_epilogues_of_integers_are_refused() {
    for (dtype, relu) in [("bool", false), ("f16", false), ("i32", true)] {
        let step = json!({ "k": "dot", "dtype": dtype, "b": 1, "m": 1, "k2": 1, "n": 1, "relu": relu,
            "x": { "at": [1, 0], "strides": [1, 1, 1] }, "y": { "at": [1, 0], "strides": [1, 1, 1] },
            "out": { "at": [2, 0], "strides": [1, 1, 1] } });
        assert!(program(0, &[zeros(dtype, 1), zeros(dtype, 1)], &[step]).is_err(), "{dtype}");
    }
}

#[test]
fn an_empty_product_is_zero() {
    let step = json!({ "k": "dot", "dtype": "f32", "b": 1, "m": 2, "k2": 0, "n": 3, "x": { "at": [1, 0], "strides": [0, 0, 1] },
        "y": { "at": [1, 0], "strides": [0, 3, 1] }, "out": { "at": [2, 0], "strides": [6, 3, 1] } });
    check("f32", 0.0, 0, &[vec![], encode("f32", &[1.0; 6])], step, &[0.0; 6]);
}

#[test]
fn a_product_may_be_written_into_any_strides() {
    // Every second column of a wider matrix.
    let step = json!({ "k": "dot", "dtype": "f64", "b": 1, "m": 2, "k2": 2, "n": 2, "x": { "at": [1, 0], "strides": [0, 2, 1] },
        "y": { "at": [1, 0], "strides": [0, 2, 1] }, "out": { "at": [2, 0], "strides": [0, 4, 2] } });
    let contents = [encode("f64", &[1.0, 2.0, 3.0, 4.0]), encode("f64", &[9.0; 8])];
    check("f64", 0.0, 0, &contents, step, &[7.0, 9.0, 10.0, 9.0, 15.0, 9.0, 22.0, 9.0]);
}

#[derive(Clone, Copy, Debug)]
struct Conv {
    n: usize,
    image: [usize; 3],
    kernel: [usize; 2],
    o: usize,
    out: [usize; 2],
    strides: [usize; 2],
    padding: [[i64; 2]; 2],
    input_dilation: [usize; 2],
    kernel_dilation: [usize; 2],
}

const PLAIN: Conv = Conv {
    n: 2,
    image: [5, 6, 3],
    kernel: [3, 3],
    o: 4,
    out: [5, 6],
    strides: [1, 1],
    padding: [[1, 1], [1, 1]],
    input_dilation: [1, 1],
    kernel_dilation: [1, 1],
};

fn conv_cases() -> Vec<Conv> {
    vec![
        PLAIN,
        Conv { n: 9, image: [14, 14, 8], kernel: [5, 5], o: 33, out: [14, 14], padding: [[2, 2], [2, 2]], ..PLAIN },
        Conv { image: [7, 7, 1], kernel: [5, 5], o: 20, out: [7, 7], padding: [[2, 2], [2, 2]], ..PLAIN },
        Conv { out: [3, 4], padding: [[0, 0], [0, 0]], ..PLAIN },
        Conv { kernel: [1, 1], padding: [[0, 0], [0, 0]], o: 40, ..PLAIN },
        Conv { out: [3, 3], strides: [2, 2], ..PLAIN },
        Conv { kernel: [1, 1], out: [3, 3], strides: [2, 2], padding: [[0, 0], [0, 0]], ..PLAIN },
        Conv { kernel: [1, 1], out: [4, 4], strides: [2, 2], padding: [[1, 1], [1, 1]], ..PLAIN },
        Conv { out: [11, 13], input_dilation: [2, 2], padding: [[2, 2], [2, 2]], ..PLAIN },
        // Taps are the lanes: with one result channel, cut at every side, with gaps between taps, more columns than a tile has.
        Conv {
            n: 9,
            image: [14, 14, 32],
            kernel: [4, 4],
            o: 1,
            out: [28, 28],
            input_dilation: [2, 2],
            padding: [[2, 2], [2, 2]],
            ..PLAIN
        },
        Conv { out: [4, 5], input_dilation: [2, 3], padding: [[-1, 0], [1, -2]], ..PLAIN },
        Conv { out: [9, 14], input_dilation: [2, 2], kernel_dilation: [1, 2], padding: [[1, 1], [3, 3]], ..PLAIN },
        Conv { image: [6, 5, 20], o: 50, out: [15, 16], input_dilation: [3, 3], ..PLAIN },
        // Too many result channels for the slot.
        Conv {
            image: [3, 8, 1],
            kernel: [4, 4],
            o: 200,
            out: [6, 16],
            input_dilation: [2, 2],
            padding: [[2, 2], [2, 2]],
            ..PLAIN
        },
        Conv { out: [5, 6], kernel_dilation: [2, 2], padding: [[2, 2], [2, 2]], ..PLAIN },
        Conv {
            out: [6, 6],
            strides: [2, 1],
            input_dilation: [3, 1],
            kernel_dilation: [1, 2],
            padding: [[1, 0], [2, 2]],
            ..PLAIN
        },
        Conv { out: [3, 4], padding: [[-1, 1], [1, -1]], ..PLAIN },
        Conv { image: [20, 20, 2], kernel: [3, 2], o: 70, out: [18, 19], padding: [[0, 0], [0, 0]], ..PLAIN },
        Conv { n: 1, o: 1, ..PLAIN },
        Conv { n: 20, image: [4, 4, 16], o: 16, out: [4, 4], ..PLAIN },
        // One image whose rows threads share: padded, read in place, as one long row, and as columns.
        Conv { n: 1, image: [14, 14, 16], kernel: [5, 5], o: 40, out: [14, 14], padding: [[2, 2], [2, 2]], ..PLAIN },
        Conv { n: 1, image: [18, 18, 16], o: 40, out: [16, 16], padding: [[0, 0], [0, 0]], ..PLAIN },
        Conv { n: 1, image: [20, 20, 64], kernel: [1, 1], o: 48, out: [20, 20], padding: [[0, 0], [0, 0]], ..PLAIN },
        Conv { n: 1, image: [40, 40, 16], kernel: [2, 2], o: 128, out: [10, 10], strides: [4, 4], ..PLAIN },
    ]
}

impl Conv {
    /// Calls `f(image, output pixel, tap, input pixel)` for all pairs that meet.
    fn pairs(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let [h, w, _] = self.image;
        let find = |axis: usize, out: usize, tap: usize, size: usize| {
            let at = (out * self.strides[axis] + tap * self.kernel_dilation[axis]) as i64 - self.padding[axis][0];
            let step = self.input_dilation[axis] as i64;
            (at >= 0 && at % step == 0 && at / step < size as i64).then_some((at / step) as usize)
        };
        for n in 0..self.n {
            for (pixel, tap) in
                (0..self.out[0] * self.out[1]).flat_map(|p| (0..self.kernel[0] * self.kernel[1]).map(move |t| (p, t)))
            {
                let y = find(0, pixel / self.out[1], tap / self.kernel[1], h);
                let x = find(1, pixel % self.out[1], tap % self.kernel[1], w);
                if let (Some(y), Some(x)) = (y, x) {
                    f(n, pixel, tap, y * w + x);
                }
            }
        }
    }

    fn sizes(&self) -> [usize; 4] {
        let pixels = self.out[0] * self.out[1];
        let taps = self.kernel[0] * self.kernel[1] * self.image[2];
        [self.n * self.image.iter().product::<usize>(), taps * self.o, self.n * pixels * self.o, pixels * taps]
    }

    fn step(&self, kernel: &str, dtype: &str, slots: usize) -> Value {
        let [h, w, c] = self.image;
        let three = |pair: [usize; 2]| [1, pair[0], pair[1]];
        json!({ "k": kernel, "dtype": dtype, "n": self.n, "h": h, "w": w, "c": c, "kh": self.kernel[0], "kw": self.kernel[1],
            "o": self.o, "oh": self.out[0], "ow": self.out[1], "strides": three(self.strides),
            "padding": [[0, 0], self.padding[0], self.padding[1]], "inputDilation": three(self.input_dilation),
            "kernelDilation": three(self.kernel_dilation), "x": [1, 0], "scratch": [0, 0], "slots": slots })
    }
}

fn round(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

#[test]
fn convolutions() {
    for (i, case) in conv_cases().into_iter().enumerate() {
        for dtype in ["f32", "f64"] {
            let [xs, ws, os, columns] = case.sizes();
            let mut random = Random(11 + i as u64);
            let x = hold(dtype, random.floats(xs));
            let weight = hold(dtype, random.floats(ws));
            let (c, o) = (case.image[2], case.o);
            let area = case.image[0] * case.image[1];
            let pixels = case.out[0] * case.out[1];
            let mut want = vec![0.0; os];
            // The weight is read with its last dims swapped, as the gradient by the input does.
            let by = [0, 0, case.kernel[1] * c * o, c * o, 1, c];
            case.pairs(|n, pixel, tap, from| {
                for (ci, oi) in (0..c).flat_map(|ci| (0..o).map(move |oi| (ci, oi))) {
                    want[(n * pixels + pixel) * o + oi] +=
                        x[(n * area + from) * c + ci] * weight[tap * c * o + ci + oi * c];
                }
            });
            let mut step = case.step("conv", dtype, 2);
            step["weight"] = json!({ "at": [2, 0], "strides": by });
            step["out"] = json!([3, 0]);
            let arena = round(ws * size(dtype)) + 2 * round(columns * size(dtype));
            let contents = [encode(dtype, &x), encode(dtype, &weight), zeros(dtype, os)];
            check(dtype, tolerance(dtype), arena, &contents, step, &want);
        }
    }
}

#[test]
fn filter_gradients() {
    for (i, case) in conv_cases().into_iter().enumerate() {
        for dtype in ["f32", "f64"] {
            let [xs, ws, os, columns] = case.sizes();
            let mut random = Random(13 + i as u64);
            let x = hold(dtype, random.floats(xs));
            let dy = hold(dtype, random.floats(os));
            let (c, o) = (case.image[2], case.o);
            let area = case.image[0] * case.image[1];
            let pixels = case.out[0] * case.out[1];
            let mut want = vec![0.0; ws];
            case.pairs(|n, pixel, tap, from| {
                for (ci, oi) in (0..c).flat_map(|ci| (0..o).map(move |oi| (ci, oi))) {
                    want[(tap * c + ci) * o + oi] += x[(n * area + from) * c + ci] * dy[(n * pixels + pixel) * o + oi];
                }
            });
            let mut step = case.step("convFilter", dtype, 3);
            step["dy"] = json!([2, 0]);
            step["out"] = json!([3, 0]);
            let arena = case.n.min(8) * round(ws * size(dtype)) + 3 * round(columns * size(dtype));
            let contents = [encode(dtype, &x), encode(dtype, &dy), zeros(dtype, ws)];
            check(dtype, tolerance(dtype) * 4.0, arena, &contents, step, &want);
        }
    }
}

struct Window {
    n: usize,
    h: usize,
    w: usize,
    c: usize,
    out: [usize; 2],
    window: [usize; 2],
    strides: [usize; 2],
    padding: [[i64; 2]; 2],
}

impl Window {
    /// Input positions of an output pixel, in row-major order.
    fn taps(&self, oy: usize, ox: usize) -> Vec<usize> {
        let mut taps = Vec::new();
        for (y, x) in (0..self.window[0]).flat_map(|y| (0..self.window[1]).map(move |x| (y, x))) {
            let iy = (oy * self.strides[0] + y) as i64 - self.padding[0][0];
            let ix = (ox * self.strides[1] + x) as i64 - self.padding[1][0];
            if iy >= 0 && iy < self.h as i64 && ix >= 0 && ix < self.w as i64 {
                taps.push(iy as usize * self.w + ix as usize);
            }
        }
        taps
    }
}

fn extreme(max: bool, values: &[f64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (i, v) in values.iter().enumerate() {
        let better = best
            .is_none_or(|b| (v.is_nan() && !values[b].is_nan()) || if max { *v > values[b] } else { *v < values[b] });
        if better {
            best = Some(i);
        }
    }
    best
}

#[test]
fn windows() {
    let cases = [
        Window { n: 3, h: 8, w: 8, c: 32, out: [4, 4], window: [2, 2], strides: [2, 2], padding: [[0, 0], [0, 0]] },
        Window { n: 2, h: 7, w: 5, c: 3, out: [4, 3], window: [3, 3], strides: [2, 2], padding: [[1, 1], [1, 1]] },
        Window { n: 1, h: 6, w: 6, c: 70, out: [6, 6], window: [3, 3], strides: [1, 1], padding: [[1, 1], [1, 1]] },
        Window { n: 1, h: 5, w: 6, c: 2, out: [2, 3], window: [2, 2], strides: [2, 2], padding: [[-1, 0], [0, 0]] },
    ];
    for (case, nan) in cases.iter().flat_map(|c| [(c, false), (c, true)]) {
        for (kernel, op) in [
            ("reduceWindow", "max"),
            ("reduceWindow", "min"),
            ("reduceWindow", "sum"),
            ("selectAndScatter", "max"),
            ("windowTake", "max"),
            ("selectAndScatter", "min"),
        ] {
            window_case(case, kernel, op, nan);
        }
    }
}

fn window_case(case: &Window, kernel: &str, op: &str, nan: bool) {
    let Window { n, h, w, c, out: [oh, ow], .. } = *case;
    let mut random = Random(17);
    // Few distinct values, so that there are ties.
    let mut input: Vec<f64> = (0..n * h * w * c).map(|_| random.below(4) as f64).collect();
    if nan {
        input.iter_mut().filter(|_| random.below(6) == 0).for_each(|v| *v = f64::NAN);
    }
    let scatter = kernel == "selectAndScatter";
    let (large, small) = (n * h * w * c, n * oh * ow * c);
    let source: Vec<f64> = (0..if scatter { small } else { large }).map(|_| random.below(100) as f64).collect();
    let mut want = vec![0.0; if scatter { large } else { small }];
    for (i, oy, ox, ci) in (0..small).map(|p| (p / (oh * ow * c), p / (ow * c) % oh, p / c % ow, p % c)) {
        let taps = case.taps(oy, ox);
        let values: Vec<f64> = taps.iter().map(|t| input[(i * h * w + t) * c + ci]).collect();
        let place = ((i * oh + oy) * ow + ox) * c + ci;
        let at = extreme(op != "min", &values);
        match (kernel, op) {
            ("reduceWindow", "sum") => want[place] = values.iter().sum(),
            ("reduceWindow", _) => want[place] = at.map_or(f64::NEG_INFINITY, |a| values[a]),
            ("windowTake", _) => want[place] = at.map_or(0.0, |a| source[(i * h * w + taps[a]) * c + ci]),
            _ => {
                if let Some(a) = at {
                    want[(i * h * w + taps[a]) * c + ci] += source[place];
                }
            }
        }
    }
    let mut step = json!({ "k": kernel, "op": op, "dtype": "f32", "n": n, "h": h, "w": w, "c": c, "oh": oh, "ow": ow, "window": [1, case.window[0], case.window[1]],
        "strides": [1, case.strides[0], case.strides[1]], "dilation": [1, 1, 1],
        "padding": [[0, 0], case.padding[0], case.padding[1]], "in": [1, 0], "out": [3, 0] });
    if kernel != "reduceWindow" {
        step["source"] = json!([2, 0]);
    }
    let contents = [encode("f32", &input), encode("f32", &source), zeros("f32", want.len())];
    check("f32", 0.0, 0, &contents, step, &want);
}
