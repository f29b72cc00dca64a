//! Random groups of scalar instructions, and the comparison of all ways of running a step.

use heddle_core::generate::Generate;
use heddle_core::isa::Isa;
use serde_json::{json, Value};

use super::*;

pub const UNARY: [&str; 35] = [
    "neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "logistic", "erf", "floor", "ceil",
    "round", "softplus", "trunc", "sin", "cos", "tan", "atan", "asin", "acos", "sinh", "cosh", "asinh", "acosh",
    "atanh", "exp2", "log2", "cbrt", "erfc", "erfInv", "lgamma", "digamma",
];
pub const BINARY: [&str; 8] = ["add", "sub", "mul", "div", "max", "min", "pow", "atan2"];
const COMPARE: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const INTEGER: [&str; 10] = ["add", "sub", "mul", "max", "min", "and", "or", "xor", "shiftLeft", "shiftRight"];

/// Random instructions, each on registers before it.
pub struct Group {
    pub random: Random,
    pub dtypes: Vec<&'static str>,
    pub ops: Vec<Value>,
}

impl Group {
    pub fn pick(&mut self, dtype: &str) -> usize {
        let of: Vec<usize> = (0..self.dtypes.len()).filter(|i| self.dtypes[*i] == dtype).collect();
        // Mostly recent ones, so that values die and registers are reused; now and then an old one.
        let back = if self.random.below(4) == 0 { of.len() } else { of.len().min(4) };
        of[of.len() - 1 - self.random.below(back)]
    }

    /// One of these dtypes of which there are registers.
    fn present(&mut self, wanted: &[&'static str]) -> &'static str {
        let there: Vec<&str> = wanted.iter().copied().filter(|d| self.dtypes.contains(d)).collect();
        there[self.random.below(there.len())]
    }

    pub fn push(&mut self, op: Value, dtype: &'static str) {
        self.ops.push(op);
        self.dtypes.push(dtype);
    }

    pub fn step(&mut self, double: bool) {
        let float = if double && self.random.below(2) == 0 { "f64" } else { "f32" };
        match self.random.below(14) {
            0..4 => {
                let (name, x) = (UNARY[self.random.below(UNARY.len())], self.pick(float));
                self.push(json!([name, float, x]), float);
            }
            4..7 => {
                let (name, x, y) = (BINARY[self.random.below(8)], self.pick(float), self.pick(float));
                self.push(json!([name, float, x, y]), float);
            }
            7 => {
                let (name, x, y) = (COMPARE[self.random.below(6)], self.pick(float), self.pick(float));
                self.push(json!([name, float, x, y]), "bool");
            }
            8 => {
                let (c, x, y) = (self.pick("bool"), self.pick(float), self.pick(float));
                self.push(json!(["select", float, c, x, y]), float);
            }
            9 => {
                let dtype = ["i32", "u32"][self.random.below(2)];
                let (name, x, y) = (INTEGER[self.random.below(10)], self.pick(dtype), self.pick(dtype));
                self.push(json!([name, dtype, x, y]), dtype);
                let (name, x, y) = (COMPARE[self.random.below(6)], self.pick(dtype), self.pick(dtype));
                self.push(json!([name, dtype, x, y]), "bool");
            }
            12 => {
                let dtype = self.present(&["u8", "i8", "i64", "u64"]);
                let (name, x, y) = (INTEGER[self.random.below(10)], self.pick(dtype), self.pick(dtype));
                self.push(json!([name, dtype, x, y]), dtype);
                let name = ["neg", "abs", "not"][self.random.below(3)];
                let x = self.pick(dtype);
                self.push(json!([name, dtype, x]), dtype);
                let (name, x, y) = (COMPARE[self.random.below(6)], self.pick(dtype), self.pick(dtype));
                self.push(json!([name, dtype, x, y]), "bool");
            }
            13 => {
                let all = ["f32", "f16", "bf16", "i8", "u8", "i32", "u32", "bool", "f64", "i64", "u64"];
                let (from, to) = (self.present(&all), self.present(&all));
                let x = self.pick(from);
                self.push(json!(["cast", to, x]), to);
                let (c, x, y) = (self.pick("bool"), self.pick(to), self.pick(to));
                self.push(json!(["select", to, c, x, y]), to);
            }
            10 => {
                let (from, to) =
                    [("f32", "i32"), ("i32", "f32"), ("bool", "f32"), ("i32", "u32"), ("f32", "bool"), ("u8", "f32")]
                        [self.random.below(6)];
                let x = self.pick(from);
                self.push(json!(["cast", to, x]), to);
            }
            _ => {
                let name = ["and", "or", "xor", "eq", "lt", "ge"][self.random.below(6)];
                let (x, y) = (self.pick("bool"), self.pick("bool"));
                self.push(json!([name, "bool", x, y]), "bool");
                let value = [0.0, -0.0, 0.5, 1.0, -3.0, 1e30][self.random.below(6)];
                self.push(json!(["const", float, value]), float);
            }
        }
    }
}

/// Floats of every sort: ordinary, tiny, huge, special.
pub fn floats(random: &mut Random, n: usize) -> Vec<f64> {
    let special =
        [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, -3e-45, 3e38, f64::from(f32::MIN_POSITIVE)];
    (0..n)
        .map(|_| match random.below(8) {
            0 => special[random.below(special.len())],
            1 => f64::from(f32::from_bits(random.bits() as u32)),
            _ => random.float() * 5.0,
        })
        .collect()
}

pub fn values(random: &mut Random, dtype: &str, n: usize) -> Vec<u8> {
    match dtype {
        "f32" | "f64" => encode(dtype, &floats(random, n)),
        "bool" => (0..n).map(|_| random.below(2) as u8).collect(),
        "u8" | "i8" => (0..n).map(|_| random.below(256) as u8).collect(),
        "f16" | "bf16" => (0..n).flat_map(|_| (random.bits() as u16).to_le_bytes()).collect(),
        "i64" | "u64" => (0..n).flat_map(|_| (random.bits() >> random.below(60)).to_le_bytes()).collect(),
        _ => (0..n).flat_map(|_| (random.bits() as u32 >> random.below(30)).to_le_bytes()).collect(),
    }
}

/// Bits, with every NaN the same: their payloads depend on the order of operands.
pub fn canonical(dtype: &str, bytes: &[u8]) -> Vec<u64> {
    let values = bytes.chunks_exact(size(dtype));
    values
        .map(|c| {
            let mut word = [0; 8];
            word[..c.len()].copy_from_slice(c);
            let bits = u64::from_le_bytes(word);
            match dtype {
                "f32" if f32::from_bits(bits as u32).is_nan() => u64::MAX,
                "f16" if bits & 0x7fff > 0x7c00 => u64::MAX,
                "bf16" if bits & 0x7fff > 0x7f80 => u64::MAX,
                "f64" if f64::from_bits(bits).is_nan() => u64::MAX,
                _ => bits,
            }
        })
        .collect()
}

/// Runs by every instruction set, generated and interpreted, and wants the same everywhere.
pub fn compare(step: &Value, dtypes: &[&str], contents: &[Vec<u8>], what: &str) {
    let on = program_with(0, contents, std::slice::from_ref(step), Generate::On).expect("program");
    let off = program_with(0, contents, std::slice::from_ref(step), Generate::Off).expect("program");
    let mut want: Option<Vec<Vec<u64>>> = None;
    for isa in Isa::available().into_iter().filter(|isa| *isa == isa.general()) {
        for (program, threads) in [(&off, 1), (&on, 1), (&on, 3)] {
            let buffers = run_on(isa, threads, program, contents).expect("runs");
            let got: Vec<Vec<u64>> = buffers.iter().zip(dtypes).map(|(b, d)| canonical(d, b)).collect();
            let want = want.get_or_insert_with(|| got.clone());
            for (b, (got, want)) in got.iter().zip(want.iter()).enumerate() {
                let at = got.iter().zip(want.iter()).position(|(g, w)| g != w);
                assert!(
                    at.is_none(),
                    "{what}, {}: buffer {b} ({}) differs at {at:?}: {:x?} for {:x?}: {step}",
                    isa.name(),
                    dtypes[b],
                    at.map(|i| got[i]),
                    at.map(|i| want[i])
                );
            }
        }
    }
}
