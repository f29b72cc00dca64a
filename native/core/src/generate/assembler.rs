//! Instructions in order, with jumps between them.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock, MemoryOperand, Register,
};

#[derive(Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Index of the instruction after each label.
    labels: Vec<usize>,
    jumps: Vec<(usize, usize)>,
}

#[derive(Clone, Copy)]
pub struct Label(usize);

/// `[base + index·scale + offset]`.
pub fn memory(base: Register, index: Register, scale: u32, offset: i64) -> MemoryOperand {
    MemoryOperand::new(base, index, scale, offset, u32::from(offset != 0), false, Register::None)
}

impl Assembler {
    pub fn push(&mut self, instruction: Result<Instruction, IcedError>) -> Result<(), IcedError> {
        self.instructions.push(instruction?);
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.instructions.len()
    }

    pub fn replace(&mut self, at: usize, instruction: Result<Instruction, IcedError>) -> Result<(), IcedError> {
        self.instructions[at] = instruction?;
        Ok(())
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(usize::MAX);
        Label(self.labels.len() - 1)
    }

    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = self.instructions.len();
    }

    pub fn jump(&mut self, code: Code, to: Label) -> Result<(), IcedError> {
        self.jumps.push((self.instructions.len(), to.0));
        self.push(Instruction::with_branch(code, 0))
    }

    pub fn bytes(mut self) -> Result<Vec<u8>, IcedError> {
        // Addresses stand for places in the list until the encoder lays them out.
        for (i, instruction) in self.instructions.iter_mut().enumerate() {
            instruction.set_ip(i as u64 + 1);
        }
        for (at, label) in &self.jumps {
            self.instructions[*at].set_near_branch64(self.labels[*label] as u64 + 1);
        }
        let block = InstructionBlock::new(&self.instructions, 0);
        Ok(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?.code_buffer)
    }
}
