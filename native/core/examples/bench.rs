//! Times the kernels of a small convolutional network: `cargo run --release --example bench [filter]`.

use std::sync::Arc;
use std::time::Instant;

use heddle_core::buffer::Buffer;
use heddle_core::exec::{Alone, Device};
use heddle_core::generate::Generate;
use heddle_core::isa::Isa;
use heddle_core::program::Program;
use serde_json::{json, Value};

struct Case {
    name: &'static str,
    buffers: Vec<usize>,
    arena: usize,
    step: Value,
    flops: f64,
    /// Bytes read and written.
    bytes: f64,
}

struct Conv {
    name: &'static str,
    image: [usize; 4],
    kernel: [usize; 2],
    out: usize,
    stride: usize,
}

fn convolution(case: Conv, filter: bool) -> Case {
    let Conv { name, image: [n, h, w, c], kernel: [kh, kw], out: o, stride } = case;
    let (oh, ow) = (h.div_ceil(stride), w.div_ceil(stride));
    let pad = |k: usize| json!([(k - 1) / 2, k / 2]);
    let (x, weight, y) = (n * h * w * c * 4, kh * kw * c * o * 4, n * oh * ow * o * 4);
    let slots = 2;
    let round = |b: usize| b.next_multiple_of(64);
    let columns = round(oh * ow * kh * kw * c * 4);
    let mut step = json!({ "dtype": "f32", "n": n, "h": h, "w": w, "c": c, "kh": kh, "kw": kw, "o": o, "oh": oh, "ow": ow,
        "strides": [stride, stride], "padding": [pad(kh), pad(kw)], "inputDilation": [1, 1], "kernelDilation": [1, 1],
        "x": [1, 0], "scratch": [0, 0], "slots": slots });
    let (buffers, arena) = if filter {
        step["k"] = json!("convFilter");
        step["dy"] = json!([2, 0]);
        step["out"] = json!([3, 0]);
        (vec![x, y, weight], n.min(8) * round(weight) + slots * columns)
    } else {
        step["k"] = json!("conv");
        step["weight"] = json!({ "at": [2, 0], "strides": [kw * c * o, c * o, o, 1] });
        step["out"] = json!([3, 0]);
        (vec![x, weight, y], round(weight) + slots * columns)
    };
    let flops = 2.0 * (n * oh * ow * o * kh * kw * c) as f64;
    Case { name, buffers, arena, step, flops, bytes: (x + weight + y) as f64 }
}

fn dot(name: &'static str, m: usize, k: usize, n: usize, left: bool, right: bool) -> Case {
    let strides = |rows: usize, columns: usize, t: bool| if t { json!([0, 1, rows]) } else { json!([0, columns, 1]) };
    let step = json!({ "k": "dot", "dtype": "f32", "b": 1, "m": m, "k2": k, "n": n,
        "x": { "at": [1, 0], "strides": strides(m, k, left) }, "y": { "at": [2, 0], "strides": strides(k, n, right) },
        "out": { "at": [3, 0], "strides": [0, n, 1] } });
    let buffers = vec![m * k * 4, k * n * 4, m * n * 4];
    let bytes = buffers.iter().sum::<usize>() as f64;
    Case { name, buffers, arena: 0, step, flops: 2.0 * (m * k * n) as f64, bytes }
}

fn fused(name: &'static str, shape: &[usize], inputs: &[&[isize]], ops: Value, reg: usize) -> Case {
    let count: usize = shape.iter().product();
    let ins: Vec<Value> =
        inputs.iter().enumerate().map(|(i, s)| json!({ "at": [i + 1, 0], "dtype": "f32", "strides": s })).collect();
    let mut strides = vec![1; shape.len()];
    (0..shape.len() - 1).rev().for_each(|i| strides[i] = strides[i + 1] * shape[i + 1]);
    let out = json!([{ "at": [inputs.len() + 1, 0], "dtype": "f32", "strides": strides, "reg": reg }]);
    let step = json!({ "k": "fused", "shape": shape, "in": ins, "ops": ops, "out": out });
    let bytes = ((inputs.len() + 1) * count * 4) as f64;
    Case { name, buffers: vec![count * 4; inputs.len() + 1], arena: 0, step, flops: count as f64, bytes }
}

/// sqrt((sigmoid(a·b + c)·tanh(a) - 0.5·b)² + 1)
fn chain(name: &'static str, n: usize) -> Case {
    let ops = json!([
        ["mul", "f32", 0, 1],
        ["add", "f32", 3, 2],
        ["logistic", "f32", 4],
        ["tanh", "f32", 0],
        ["mul", "f32", 5, 6],
        ["const", "f32", 0.5],
        ["mul", "f32", 1, 8],
        ["sub", "f32", 7, 9],
        ["mul", "f32", 10, 10],
        ["const", "f32", 1],
        ["add", "f32", 11, 12],
        ["sqrt", "f32", 13]
    ]);
    fused(name, &[n], &[&[1], &[1], &[1]], ops, 14)
}

/// A group folded along rows (`fusedRows`) or columns (`fusedColumns`) of `[rows, n]`; `out` has a register and its strides.
fn folded(
    name: &'static str,
    k: &str,
    [rows, n]: [usize; 2],
    inputs: usize,
    ops: Value,
    out: (usize, &[usize]),
) -> Case {
    let count = rows * n;
    let view = |buffer: usize| json!({ "at": [buffer, 0], "dtype": "f32", "strides": [n, 1] });
    let ins: Vec<Value> = (1..=inputs).map(view).collect();
    let outs = json!([{ "at": [inputs + 1, 0], "dtype": "f32", "strides": out.1, "reg": out.0 }]);
    let step = json!({ "k": k, "shape": [rows, n], "in": ins, "ops": ops, "out": outs });
    let written = if out.1.len() == 2 { count } else { rows.max(n) };
    let bytes = ((inputs * count + written) * 4) as f64;
    Case { name, buffers: vec![count * 4; inputs + 1], arena: 0, step, flops: count as f64, bytes }
}

fn softmax(name: &'static str, rows: usize, n: usize) -> Case {
    let ops = json!([
        ["fold", "f32", "max", 0],
        ["sub", "f32", 0, 1],
        ["exp", "f32", 2],
        ["fold", "f32", "sum", 3],
        ["div", "f32", 3, 4]
    ]);
    folded(name, "fusedRows", [rows, n], 1, ops, (5, &[n, 1]))
}

fn reduce(name: &'static str, keep: &[usize], keep_strides: &[isize], over: &[usize], over_strides: &[isize]) -> Case {
    let kept: usize = keep.iter().product();
    let count: usize = kept * over.iter().product::<usize>();
    let step = json!({ "k": "reduce", "op": "sum", "dtype": "f32", "in": [1, 0], "keep": keep, "keepStrides": keep_strides,
        "over": over, "overStrides": over_strides, "out": [2, 0] });
    Case {
        name,
        buffers: vec![count * 4, kept.max(1) * 4],
        arena: 0,
        step,
        flops: count as f64,
        bytes: (count * 4) as f64,
    }
}

fn pool(name: &'static str, kernel: &str, n: usize, h: usize, c: usize) -> Case {
    let (large, small) = (n * h * h * c * 4, n * h * h * c);
    let step = json!({ "k": kernel, "op": "max", "dtype": "f32", "n": n, "h": h, "w": h, "c": c, "oh": h / 2, "ow": h / 2,
        "window": [2, 2], "strides": [2, 2], "padding": [[0, 0], [0, 0]], "in": [1, 0], "source": [2, 0], "out": [3, 0] });
    let buffers = if kernel == "selectAndScatter" { vec![large, small, large] } else { vec![large, large, small] };
    Case { name, buffers, arena: 0, step, flops: (n * h * h * c) as f64, bytes: (large + small) as f64 }
}

fn cases() -> Vec<Case> {
    let conv1 =
        || Conv { name: "conv 128x28x28x1 -> 32, 5x5", image: [128, 28, 28, 1], kernel: [5, 5], out: 32, stride: 1 };
    let conv2 =
        || Conv { name: "conv 128x14x14x32 -> 64, 5x5", image: [128, 14, 14, 32], kernel: [5, 5], out: 64, stride: 1 };
    let back2 =
        || Conv { name: "conv 128x14x14x64 -> 32, 5x5", image: [128, 14, 14, 64], kernel: [5, 5], out: 32, stride: 1 };
    let r1 =
        || Conv { name: "conv 64x32x32x16 -> 16, 3x3", image: [64, 32, 32, 16], kernel: [3, 3], out: 16, stride: 1 };
    let r3 = || Conv { name: "conv 64x8x8x64 -> 64, 3x3", image: [64, 8, 8, 64], kernel: [3, 3], out: 64, stride: 1 };
    let elements = 128 * 28 * 28 * 32;
    vec![
        convolution(conv1(), false),
        convolution(conv1(), true),
        convolution(conv2(), false),
        convolution(conv2(), true),
        convolution(back2(), false),
        convolution(r1(), false),
        convolution(r1(), true),
        convolution(r3(), false),
        convolution(r3(), true),
        dot("dot 128x3136x512", 128, 3136, 512, false, false),
        dot("dot 128x512x3136 (right transposed)", 128, 512, 3136, false, true),
        dot("dot 3136x128x512 (left transposed)", 3136, 128, 512, true, false),
        dot("dot 128x512x10", 128, 512, 10, false, false),
        dot("dot 1024x1024x1024", 1024, 1024, 1024, false, false),
        dot("dot 1024x1024x1024 (both transposed)", 1024, 1024, 1024, true, true),
        dot("dot 256x256x256", 256, 256, 256, false, false),
        dot("dot 64x64x64", 64, 64, 64, false, false),
        dot("dot 4096x4096x1", 4096, 4096, 1, false, false),
        dot("dot 4096x4096x1 (left transposed)", 4096, 4096, 1, true, false),
        dot("dot 100x200000x100 (left transposed)", 100, 200000, 100, true, false),
        fused(
            "bias, relu 100352x32",
            &[128 * 28 * 28, 32],
            &[&[32, 1], &[0, 1]],
            json!([["add", "f32", 0, 1], ["const", "f32", 0], ["max", "f32", 2, 3]]),
            4,
        ),
        fused("x*y+z 3.2M", &[elements], &[&[1], &[1], &[1]], json!([["mul", "f32", 0, 1], ["add", "f32", 3, 2]]), 4),
        chain("chain of 10 4M", 4_000_000),
        chain("chain of 10 40K", 40_000),
        fused("exp 3.2M", &[elements], &[&[1]], json!([["exp", "f32", 0]]), 1),
        fused("tanh 3.2M", &[elements], &[&[1]], json!([["tanh", "f32", 0]]), 1),
        fused("log 3.2M", &[elements], &[&[1]], json!([["log", "f32", 0]]), 1),
        fused("transpose 2048x2048", &[2048, 2048], &[&[1, 2048]], json!([]), 0),
        fused(
            "momentum 1.6M",
            &[3136 * 512],
            &[&[1], &[1], &[1]],
            json!([
                ["const", "f32", 0.9],
                ["mul", "f32", 1, 3],
                ["add", "f32", 4, 2],
                ["const", "f32", 0.01],
                ["mul", "f32", 5, 6],
                ["sub", "f32", 0, 7]
            ]),
            8,
        ),
        reduce("sum 100352x32 over rows", &[32], &[1], &[128 * 28 * 28], &[32]),
        reduce("sum 128x25088 over columns", &[128], &[25088], &[25088], &[1]),
        reduce("sum 3.2M to one", &[], &[], &[elements], &[1]),
        softmax("softmax 128x10", 128, 10),
        softmax("softmax 1024x1024", 1024, 1024),
        softmax("softmax 4096x4096", 4096, 4096),
        folded(
            "x*x summed over rows 1024x1024",
            "fusedRows",
            [1024, 1024],
            1,
            json!([["mul", "f32", 0, 0], ["fold", "f32", "sum", 1]]),
            (2, &[1]),
        ),
        folded(
            "x*y summed over columns 128x512",
            "fusedColumns",
            [128, 512],
            2,
            json!([["mul", "f32", 0, 1], ["fold", "f32", "sum", 2]]),
            (3, &[1]),
        ),
        pool("max pool 128x28x28x32", "reduceWindow", 128, 28, 32),
        pool("max pool gradient 128x28x28x32", "selectAndScatter", 128, 28, 32),
        Case {
            name: "random bits 3.2M",
            buffers: vec![8, 4, elements * 4],
            arena: 0,
            flops: elements as f64,
            bytes: (elements * 4) as f64,
            step: json!({ "k": "randomBits", "key": [1, 0], "start": [2, 0], "shape": [elements], "total": [elements], "stream": 0, "out": [3, 0] }),
        },
        Case {
            name: "cross-entropy gradient 128x10",
            buffers: vec![5120, 512, 512, 5120],
            arena: 0,
            flops: 1280.0,
            bytes: 0.0,
            step: json!({ "k": "softmaxCrossEntropyGrad", "dtype": "f32", "rows": 128, "cols": 10, "logits": [1, 0], "labels": [2, 0], "dy": [3, 0], "out": [4, 0] }),
        },
    ]
}

/// Processor time of the calling thread.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let isa = Isa::choose(None).expect("instruction set");
    println!(
        "{:44} {:>18} {:>8} {:>7} {:>18} {:>8} {:>7}",
        isa.name(),
        "1T ms (median)",
        "GFLOP/s",
        "GB/s",
        "2T ms (median)",
        "GFLOP/s",
        "GB/s"
    );
    for mut case in cases().into_iter().filter(|c| c.name.contains(&wanted)) {
        let buffers: Vec<Value> = case.buffers.iter().map(|b| json!({ "bytes": b })).collect();
        let text = json!({ "version": 1, "name": case.name, "arena": case.arena, "buffers": buffers, "steps": [case.step.take()] });
        // Fused steps once more by the interpreter, turn by turn with the generated kernel.
        let ways: &[Generate] = if text["steps"][0]["k"].as_str().is_some_and(|k| k.starts_with("fused")) {
            &[Generate::On, Generate::Off]
        } else {
            &[Generate::On]
        };
        let programs: Vec<Program> =
            ways.iter().map(|w| Program::parse_with(&text.to_string(), *w).expect("program")).collect();
        let mut memory: Vec<Buffer> = case.buffers.iter().map(|b| Buffer::new(*b).expect("memory")).collect();
        for buffer in &mut memory {
            for (i, word) in buffer.as_mut_slice().chunks_exact_mut(4).enumerate() {
                if case.name.starts_with("conv") || case.name.starts_with("dot") || case.flops > 1e6 {
                    word.copy_from_slice(&((i % 97) as f32 * 0.01).to_le_bytes());
                }
            }
        }
        if case.name.starts_with("random") || case.name.starts_with("cross") {
            memory[1].as_mut_slice().fill(0);
        }
        let arguments: Vec<&Buffer> = memory.iter().collect();
        let times: Vec<Vec<f64>> =
            [1, 2].into_iter().flat_map(|threads| measure(threads, isa, &programs, &arguments)).collect();
        for (way, generate) in ways.iter().enumerate() {
            print!("{:44}", if *generate == Generate::Off { "  interpreted" } else { case.name });
            for threads in 0..2 {
                let times = &times[threads * ways.len() + way];
                let (best, median) = (times[0], times[times.len() / 2]);
                print!(
                    " {:8.3} ({:7.3}) {:8.1} {:7.1}",
                    best * 1e3,
                    median * 1e3,
                    case.flops / best / 1e9,
                    case.bytes / best / 1e9
                );
            }
            println!();
        }
    }
}

/// Sorted times of each program, taken in turns.
fn measure(threads: usize, isa: Isa, programs: &[Program], arguments: &[&Buffer]) -> Vec<Vec<f64>> {
    let mut device = Device::new(threads, isa, vec![0], Arc::new(Alone));
    let mut times = vec![Vec::new(); programs.len()];
    for _ in 0..41 {
        for (program, times) in programs.iter().zip(&mut times) {
            let (start, used) = (Instant::now(), cpu_seconds());
            device.run(program, arguments).expect("run");
            // One thread is timed by its own clock, so that other processes disturb less.
            times.push(if threads == 1 { cpu_seconds() - used } else { start.elapsed().as_secs_f64() });
        }
    }
    times.iter_mut().for_each(|t| t.sort_by(f64::total_cmp));
    times
}
