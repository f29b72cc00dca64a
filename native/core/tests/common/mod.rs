//! Runs one step on every instruction set and several thread counts, and compares bits and values.

// Each test file uses a part of this.
#![allow(dead_code)]

pub mod damage;
pub mod groups;
pub mod seeds;

use heddle_half::{Bf16, Half, Odd, F16};
use std::sync::Arc;

use heddle_core::buffer::Buffer;
use heddle_core::collectives::Alone;
use heddle_core::exec::Device;
use heddle_core::generate::Generate;
use heddle_core::isa::Isa;
use heddle_core::program::Program;
use heddle_core::Result;
use serde_json::{json, Value};

/// A small generator, so that cases are the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n.max(1)
    }

    /// Uniform in [-1, 1).
    pub fn float(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn floats(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.float()).collect()
    }
}

/// Values of a dtype as bytes.
pub fn encode(dtype: &str, values: &[f64]) -> Vec<u8> {
    let each = |v: &f64| match dtype {
        "f32" => (*v as f32).to_le_bytes().to_vec(),
        "f64" => v.to_le_bytes().to_vec(),
        "i32" => (*v as i32).to_le_bytes().to_vec(),
        "u32" => (*v as u32).to_le_bytes().to_vec(),
        "i64" => (*v as i64).to_le_bytes().to_vec(),
        "u64" => (*v as u64).to_le_bytes().to_vec(),
        "i8" => (*v as i8).to_le_bytes().to_vec(),
        "f16" => F16::narrow(v.odd()).0.to_le_bytes().to_vec(),
        "bf16" => Bf16::narrow(v.odd()).0.to_le_bytes().to_vec(),
        _ => vec![*v as u8],
    };
    values.iter().flat_map(each).collect()
}

pub fn decode(dtype: &str, bytes: &[u8]) -> Vec<f64> {
    fn words<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.chunks_exact(N).map(|c| f(c.try_into().expect("exact"))).collect()
    }
    match dtype {
        "f32" => words(bytes, |b| f32::from_le_bytes(b) as f64),
        "f64" => words(bytes, f64::from_le_bytes),
        "i32" => words(bytes, |b| i32::from_le_bytes(b) as f64),
        "u32" => words(bytes, |b| u32::from_le_bytes(b) as f64),
        "i64" => words(bytes, |b| i64::from_le_bytes(b) as f64),
        "u64" => words(bytes, |b| u64::from_le_bytes(b) as f64),
        "i8" => words(bytes, |b| i8::from_le_bytes(b) as f64),
        "f16" => words(bytes, |b| F16(u16::from_le_bytes(b)).wide() as f64),
        "bf16" => words(bytes, |b| Bf16(u16::from_le_bytes(b)).wide() as f64),
        _ => words(bytes, |b: [u8; 1]| b[0] as f64),
    }
}

pub fn size(dtype: &str) -> usize {
    match dtype {
        "f64" | "i64" | "u64" => 8,
        "f16" | "bf16" => 2,
        "f32" | "i32" | "u32" => 4,
        _ => 1,
    }
}

pub fn program(arena: usize, buffers: &[Vec<u8>], steps: &[Value]) -> Result<Program> {
    program_with(arena, buffers, steps, Generate::On)
}

pub fn program_with(arena: usize, buffers: &[Vec<u8>], steps: &[Value], generate: Generate) -> Result<Program> {
    let buffers: Vec<Value> = buffers.iter().map(|b| json!({ "bytes": b.len() })).collect();
    let text = json!({ "version": 1, "name": "test", "arena": arena, "buffers": buffers, "steps": steps });
    Program::parse_with(&text.to_string(), generate)
}

pub fn run_on(isa: Isa, threads: usize, program: &Program, contents: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut buffers: Vec<Buffer> = contents.iter().map(|c| Buffer::new(c.len()).expect("memory")).collect();
    for (buffer, content) in buffers.iter_mut().zip(contents) {
        buffer.as_mut_slice().copy_from_slice(content);
    }
    let arguments: Vec<&Buffer> = buffers.iter().collect();
    Device::new(threads, isa, vec![3, 5], Arc::new(Alone)).run(program, &arguments)?;
    Ok(buffers.iter().map(|b| b.as_slice().to_vec()).collect())
}

/// Runs on all instruction sets; thread counts, and the interpreter and generated code, must agree in bits. Gives the buffers per set.
pub fn run_all(arena: usize, contents: &[Vec<u8>], steps: &[Value]) -> Result<Vec<(Isa, Vec<Vec<u8>>)>> {
    let program = program(arena, contents, steps)?;
    let interpreted = program_with(arena, contents, steps, Generate::Off)?;
    let mut results = Vec::new();
    let narrow = steps.iter().any(|step| step["k"] == "narrowDot");
    // The sets above AVX-512 are AVX-512 to all other kernels.
    for isa in Isa::available().into_iter().filter(|isa| narrow || *isa == isa.general()) {
        let one = run_on(isa, 1, &program, contents)?;
        for threads in [2, 3] {
            let more = run_on(isa, threads, &program, contents)?;
            assert!(one == more, "{} threads give other bits than one on {}: {steps:?}", threads, isa.name());
        }
        let plain = run_on(isa, 1, &interpreted, contents)?;
        assert!(one == plain, "generated code gives other bits than the interpreter on {}: {steps:?}", isa.name());
        results.push((isa, one));
    }
    Ok(results)
}

/// The last buffer must hold `want`, within `tolerance` of the largest magnitude around.
pub fn check(dtype: &str, tolerance: f64, arena: usize, contents: &[Vec<u8>], step: Value, want: &[f64]) {
    let results = run_all(arena, contents, std::slice::from_ref(&step)).unwrap_or_else(|e| panic!("{e}: {step}"));
    let scale = want.iter().filter(|w| w.is_finite()).fold(1.0f64, |a, b| a.max(b.abs()));
    for (isa, buffers) in results {
        let got = decode(dtype, buffers.last().expect("a buffer"));
        assert_eq!(got.len(), want.len(), "{step}");
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            let same = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * scale;
            assert!(same, "{}: element {i} is {g}, not {w}: {step}", isa.name());
        }
    }
}

pub fn tolerance(dtype: &str) -> f64 {
    match dtype {
        "f32" => 2e-5,
        "f64" => 1e-13,
        _ => 0.0,
    }
}

/// Rounds values to what the dtype can hold, so that oracles see what kernels see.
pub fn hold(dtype: &str, values: Vec<f64>) -> Vec<f64> {
    decode(dtype, &encode(dtype, &values))
}

/// Views as inputs of a group, which have no register of their own.
pub fn as_inputs<const N: usize>(views: [Value; N]) -> Vec<Value> {
    let without = |mut view: Value| {
        view.as_object_mut().expect("a view").remove("reg");
        view
    };
    views.into_iter().map(without).collect()
}

pub fn zeros(dtype: &str, n: usize) -> Vec<u8> {
    vec![0; n * size(dtype)]
}

pub fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    (0..shape.len().saturating_sub(1)).rev().for_each(|i| strides[i] = strides[i + 1] * shape[i + 1] as isize);
    strides
}
