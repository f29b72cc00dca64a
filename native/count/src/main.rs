//! Runs a lowered program on one thread, for a tool that counts instructions: `heddle-count program.json contents.bin avx2`. The
//! second file has the bytes of all buffers, in order. The tool counts within [`counted_run`], the second run of the program.

use std::error::Error;
use std::sync::Arc;

use heddle_core::buffer::Buffer;
use heddle_core::collectives::Alone;
use heddle_core::exec::Device;
use heddle_core::isa::Isa;
use heddle_core::program::Program;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, contents, isa] = &arguments[..] else {
        return Err(
            "heddle-count takes a program, a file with the contents of its buffers, and an instruction set".into()
        );
    };
    let program = Program::parse(&std::fs::read_to_string(program)?)?;
    let contents = std::fs::read(contents)?;
    if contents.len() != program.buffers.iter().sum::<usize>() {
        return Err(format!("{} bytes for buffers of {:?}", contents.len(), program.buffers).into());
    }
    let mut rest = &contents[..];
    let mut buffers = Vec::with_capacity(program.buffers.len());
    for bytes in &program.buffers {
        let (content, others) = rest.split_at(*bytes);
        let mut buffer = Buffer::new(*bytes)?;
        buffer.as_mut_slice().copy_from_slice(content);
        buffers.push(buffer);
        rest = others;
    }
    let mut device = Device::new(1, Isa::choose(Some(isa.as_str()))?, vec![], Arc::new(Alone));
    // The first run makes the arena and maps its pages.
    device.run(&program, &buffers.iter().collect::<Vec<_>>())?;
    counted_run(&mut device, &program, &buffers)?;
    Ok(())
}

/// A run with a name that the tool finds.
#[inline(never)]
#[no_mangle]
pub extern "Rust" fn counted_run(
    device: &mut Device,
    program: &Program,
    buffers: &[Buffer],
) -> heddle_core::Result<()> {
    device.run(program, &buffers.iter().collect::<Vec<_>>())
}
