//! A process whose system refuses executable memory; what else runs in it must bear the refusal.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::Arc;

use heddle_core::buffer::Buffer;
use heddle_core::collectives::Alone;
use heddle_core::dtype::DType;
use heddle_core::exec::Device;
use heddle_core::generate::{kernel, Description, Generate, Instruction, View};
use heddle_core::isa::Isa;
use heddle_core::program::Program;

fn group(ops: &[&str]) -> Description {
    let view = View { dtype: DType::F32, along: true, streamed: false, fetched: 0, lanes: None };
    let mut registers = vec![(Instruction::Input(0), DType::F32)];
    for (i, name) in ops.iter().enumerate() {
        registers.push((Instruction::Compute(name.to_string(), vec![i]), DType::F32));
    }
    Description { views: vec![view, view], outputs: vec![(1, registers.len() - 1)], registers }
}

/// Adds a constant to 100 ones; a constant of its own asks for a kernel of its own.
fn run(constant: usize) -> Vec<f32> {
    let view = r#""dtype": "f32", "strides": [1]"#;
    let text = format!(
        r#"{{ "version": 1, "arena": 0, "buffers": [{{ "bytes": 400 }}, {{ "bytes": 400 }}], "steps": [{{ "k": "fused",
        "shape": [100], "in": [{{ "at": [1, 0], {view} }}], "ops": [["const", "f32", {constant}], ["add", "f32", 0, 1]],
        "out": [{{ "at": [2, 0], {view}, "reg": 2 }}] }}] }}"#
    );
    let program = Program::parse_with(&text, Generate::On).expect("program");
    let mut buffers = [Buffer::new(400).expect("memory"), Buffer::new(400).expect("memory")];
    buffers.iter_mut().for_each(|b| b.as_mut_slice().fill(0));
    let mut device = Device::new(1, Isa::detect(), vec![0], Arc::new(Alone));
    device.run(&program, &[&buffers[0], &buffers[1]]).expect("runs");
    let sums = buffers[1].as_slice().chunks_exact(4);
    sums.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// From Linux 6.3 on; PR_MDWE_REFUSE_EXEC_GAIN of `linux/prctl.h`. Says whether the system took it.
fn refuse() -> bool {
    unsafe { libc::prctl(65, 1, 0, 0, 0) == 0 }
}

#[test]
fn the_interpreter_runs_what_cannot_be_made_executable() {
    for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar) {
        assert!(kernel(&group(&["exp"]), isa).is_some());
    }
    assert_eq!(run(4321), [4321.0; 100]);
    if !refuse() {
        eprintln!("this Linux cannot refuse executable memory: nothing is tested");
        return;
    }
    for isa in Isa::available() {
        assert!(kernel(&group(&["log"]), isa).is_none());
    }
    assert_eq!(run(1234), [1234.0; 100]);
}

#[test]
fn a_function_that_is_a_library_call_has_no_kernel() {
    for isa in Isa::available() {
        let mut with_rem = group(&["exp"]);
        with_rem.registers.push((Instruction::Compute("rem".into(), vec![0, 1]), DType::F32));
        assert!(kernel(&with_rem, isa).is_none());
    }
}
