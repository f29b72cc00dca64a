//! The registers of a fused group, read from the instructions of its call.

use heddle_half::{Bf16, Half, Odd, F16};
use serde_json::Value;

use super::ops::{self, Loop};
use crate::calls::{FusedJson, FusedOut, ReduceOp};
use crate::dtype::DType;
use crate::verify::At;
use crate::{bail, Result};

/// A strided view that tiles are read from or written to, or the index along a dim.
pub(crate) struct Operand {
    pub at: Option<At>,
    pub dtype: DType,
    pub strides: Vec<isize>,
    /// Its dims are contiguous over the whole iteration space.
    pub contiguous: bool,
}

impl Operand {
    pub fn new(at: At, dtype: DType, strides: &[isize]) -> Operand {
        Operand { at: Some(at), dtype, strides: strides.to_vec(), contiguous: false }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Value8 {
    pub bits: u64,
    pub size: usize,
}

/// One register while compiling.
pub(crate) enum Source {
    Input(usize),
    Constant(Value8),
    Compute {
        name: String,
        function: Loop,
        inputs: Vec<usize>,
        divides: Option<&'static str>,
    },
    /// One value per row, of all values of a register; not in elementwise groups.
    Fold(ReduceOp, usize),
}

pub(crate) struct Register {
    pub source: Source,
    pub dtype: DType,
}

/// The registers of a group's inputs and instructions, and their operands. `other` reads instructions of its own.
pub(crate) fn read(
    json: &FusedJson,
    other: impl Fn(&[Value], &[Register]) -> Option<Result<Register>>,
) -> Result<(Vec<Register>, Vec<Operand>)> {
    let (mut registers, mut operands) = (Vec::new(), Vec::new());
    for (i, input) in json.inputs.iter().enumerate() {
        registers.push(Register { source: Source::Input(i), dtype: input.dtype });
        operands.push(Operand::new(input.at, input.dtype, &input.strides));
    }
    for (i, op) in json.ops.iter().enumerate() {
        let register = other(op, &registers).unwrap_or_else(|| instruction(op, &json.shape, &registers, &mut operands));
        registers.push(register.map_err(|e| e.at(format!("ops[{i}]")))?);
    }
    Ok((registers, operands))
}

/// Checks the register and the dtype of an output.
pub(crate) fn check(out: &FusedOut, registers: &[Register]) -> Result<()> {
    match registers.get(out.reg) {
        None => bail!("register {} does not exist", out.reg),
        Some(Register { dtype, .. }) if *dtype != out.dtype => {
            bail!("register {} is {}, not {}", out.reg, dtype.name(), out.dtype.name())
        }
        Some(_) => Ok(()),
    }
}

fn instruction(op: &[Value], shape: &[usize], registers: &[Register], operands: &mut Vec<Operand>) -> Result<Register> {
    let (Some(name), Some(dtype)) = (op.first().and_then(Value::as_str), op.get(1)) else {
        bail!("an instruction is [name, dtype, …], got {op:?}");
    };
    let Some(dtype) = dtype.as_str().and_then(DType::named) else {
        bail!("{name}: unknown dtype {dtype}");
    };
    let arguments = &op[2..];
    if name == "const" {
        let [value] = arguments else { bail!("const takes one value, got {}", arguments.len()) };
        return Ok(Register { source: Source::Constant(constant(value, dtype)?), dtype });
    }
    let mut inputs = Vec::with_capacity(3);
    for argument in arguments {
        match argument.as_u64() {
            // The argument of `iota` is a dim.
            Some(i) if (name, arguments.len()) == ("iota", 1) || i < registers.len() as u64 => inputs.push(i as usize),
            _ => bail!("{name}: {argument} is not a register before {}", registers.len()),
        }
    }
    let expect = |i: usize, wanted: DType| -> Result<()> {
        let got = registers[inputs[i]].dtype;
        if got != wanted {
            bail!("{name}: operand {i} (register {}) is {}, not {}", inputs[i], got.name(), wanted.name());
        }
        Ok(())
    };
    let mut divides = None;
    let (function, result) = match (name, inputs.len()) {
        ("iota", 1) => {
            let dim = inputs[0];
            if dim >= shape.len() || dtype == DType::Bool || dtype.is_half() {
                bail!("iota: no dim {dim} of type {} in shape {shape:?}", dtype.name());
            }
            let mut strides = vec![0; shape.len()];
            strides[dim] = 1;
            operands.push(Operand { at: None, dtype, strides, contiguous: false });
            return Ok(Register { source: Source::Input(operands.len() - 1), dtype });
        }
        ("cast", 1) => (ops::cast(registers[inputs[0]].dtype, dtype), dtype),
        ("select", 3) => {
            expect(0, DType::Bool)?;
            expect(1, dtype)?;
            expect(2, dtype)?;
            (ops::select(dtype), dtype)
        }
        (_, 1) => {
            expect(0, dtype)?;
            let result = if name == "isFinite" { DType::Bool } else { dtype };
            match ops::find_unary(name, dtype) {
                Some(function) => (function, result),
                None => bail!("no unary function {name} for {}", dtype.name()),
            }
        }
        (_, 2) => {
            expect(0, dtype)?;
            expect(1, dtype)?;
            if !dtype.is_float() && name == "div" {
                divides = Some("div");
            } else if !dtype.is_float() && name == "rem" {
                divides = Some("rem");
            }
            if let Some(function) = ops::find_comparison(name, dtype) {
                (function, DType::Bool)
            } else if let Some(function) = ops::find_binary(name, dtype) {
                (function, dtype)
            } else {
                bail!("no binary function {name} for {}", dtype.name())
            }
        }
        (_, n) => bail!("no function {name} with {n} operands"),
    };
    let name = name.to_string();
    Ok(Register { source: Source::Compute { name, function, inputs, divides }, dtype: result })
}

fn constant(value: &Value, dtype: DType) -> Result<Value8> {
    let number = match value {
        Value::Number(n) => n.as_f64(),
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        // Integers that a JSON number cannot represent.
        Value::String(s) if matches!(dtype, DType::I64 | DType::U64) => {
            let Ok(x) = s.parse::<i128>() else { bail!("const: {value} is not an integer") };
            return Ok(Value8 { bits: x as u64, size: 8 });
        }
        Value::String(s) => match s.as_str() {
            "nan" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    };
    let Some(x) = number else { bail!("const: {value} is not a number") };
    let bits = match dtype {
        DType::F32 => (x as f32).to_bits() as u64,
        DType::F64 => x.to_bits(),
        DType::I32 => (x as i32) as u32 as u64,
        DType::U32 => (x as u32) as u64,
        DType::U8 => (x as u8) as u64,
        DType::I8 => (x as i8) as u8 as u64,
        DType::I64 => (x as i64) as u64,
        DType::U64 => x as u64,
        DType::F16 => u64::from(F16::narrow(x.odd()).bits()),
        DType::Bf16 => u64::from(Bf16::narrow(x.odd()).bits()),
        DType::Bool => u64::from(x != 0.0),
    };
    Ok(Value8 { bits, size: dtype.size() })
}
