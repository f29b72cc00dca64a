//! The state of the code that is written, and the loads and stores of operands.

use std::collections::HashMap;

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::assembler::{memory, Assembler, Label};
use super::graph::{Graph, View};
use super::value::Kind;

pub type Done<T = ()> = Result<T, IcedError>;

/// Words of the arguments before the operands: rows, columns, constants. Each operand has its address and row stride.
pub const HEAD: usize = 3;
pub const ADDRESSES: [Register; 8] = {
    use Register::*;
    [RSI, R8, R9, R10, R11, R12, R13, R14]
};

/// The stack frame: one slot for temporary bytes, then the values of a row, then spilled values.
pub struct Frame {
    /// Operands with one value per row.
    pub row_operands: Vec<usize>,
    pub rows: usize,
    pub spills: usize,
}

impl Frame {
    pub const SLOT: usize = 64;

    pub fn row_slot(&self, operand: usize) -> Option<usize> {
        self.row_operands.iter().position(|o| *o == operand).map(|i| i + 1)
    }
}

pub struct Writer<'a> {
    pub graph: &'a Graph,
    pub wide: bool,
    pub assembler: Assembler,
    pub frame: Frame,
    pub lanes: usize,
    pub pool: Vec<u8>,
    pub places: HashMap<(u64, Kind), usize>,
    /// Iterations that may jump to code behind the function.
    pub left: Vec<Left>,
}

/// One unrolled copy of the body within an iteration of the loop: the lanes on which it works.
#[derive(Clone, Copy)]
pub struct Unrolled {
    /// Elements after the index register.
    pub ahead: usize,
    pub tail: bool,
}

/// An iteration whose vectors are computed one by one behind the function, if the iteration jumps there.
pub struct Left {
    pub from: Label,
    pub back: Label,
    pub copies: Vec<Unrolled>,
}

impl Writer<'_> {
    /// The error of a value without a place, which is a defect of this module; the interpreter then runs the group.
    pub fn bug(&self) -> IcedError {
        match Instruction::with1(Code::INVALID, Register::RAX) {
            Err(error) => error,
            Ok(_) => unreachable!("an invalid instruction"),
        }
    }

    pub fn constant(&mut self, bits: u64, kind: Kind) -> MemoryOperand {
        let (pool, wide) = (&mut self.pool, self.wide);
        let at = *self.places.entry((bits, kind)).or_insert_with(|| {
            let at = pool.len();
            let bytes =
                if kind == Kind::Long { bits.to_le_bytes().to_vec() } else { (bits as u32).to_le_bytes().repeat(2) };
            pool.extend(bytes.repeat(if wide { 1 } else { 4 }));
            at
        });
        MemoryOperand { is_broadcast: wide, ..memory(Register::RBX, Register::None, 1, at as i64) }
    }

    pub fn push(&mut self, instruction: Result<Instruction, IcedError>) -> Done {
        self.assembler.push(instruction)
    }

    pub fn argument(&self, word: usize) -> MemoryOperand {
        memory(Register::RDI, Register::None, 1, (word * 8) as i64)
    }

    /// rdx: the elements of the row that are left.
    pub fn rest_of_row(&mut self) -> Done {
        self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RDX, self.argument(1)))?;
        self.push(Instruction::with2(Code::Sub_r64_rm64, Register::RDX, Register::RCX))
    }

    pub fn address(&mut self, operand: usize) -> Done<Register> {
        if let Some(register) = ADDRESSES.get(operand) {
            return Ok(*register);
        }
        let from = self.argument(HEAD + 2 * operand);
        self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, from))?;
        Ok(Register::RAX)
    }

    /// The lower half and the lower quarter of a register.
    fn parts(&self, register: Register) -> (Register, Register) {
        let number = register as u32 - if self.wide { Register::ZMM0 } else { Register::YMM0 } as u32;
        (Register::YMM0 + number, Register::XMM0 + number)
    }

    pub fn load(&mut self, operand: usize, to: Register, copy: Unrolled) -> Done {
        let View { dtype, fetched, .. } = self.graph.views[operand];
        let (size, half) = (dtype.size(), self.graph.long);
        let base = self.address(operand)?;
        let at = |later| memory(base, Register::RCX, size as u32, (copy.ahead * size + later) as i64);
        let from = at(0);
        if fetched > 0 {
            self.push(Instruction::with1(Code::Prefetcht1_m8, at(fetched)))?;
        }
        let (low, _) = self.parts(to);
        if self.wide {
            let mut instruction = match (size, half) {
                (8, _) => Instruction::with2(Code::EVEX_Vmovupd_zmm_k1z_zmmm512, to, from),
                (4, false) => Instruction::with2(Code::EVEX_Vmovups_zmm_k1z_zmmm512, to, from),
                (4, true) => Instruction::with2(Code::EVEX_Vmovups_ymm_k1z_ymmm256, low, from),
                (2, false) => Instruction::with2(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, to, from),
                (2, true) => Instruction::with2(Code::EVEX_Vpmovzxwd_ymm_k1z_xmmm128, low, from),
                (_, false) => Instruction::with2(Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, to, from),
                (_, true) => Instruction::with2(Code::EVEX_Vpmovzxbd_ymm_k1z_xmmm64, low, from),
            }?;
            if copy.tail {
                instruction.set_op_mask(Register::K7);
                instruction.set_zeroing_masking(true);
            }
            return self.push(Ok(instruction));
        }
        match (size, copy.tail) {
            (8, false) => self.push(Instruction::with2(Code::VEX_Vmovupd_ymm_ymmm256, to, from)),
            (8, true) => self.push(Instruction::with3(Code::VEX_Vmaskmovpd_ymm_ymm_m256, to, Register::YMM15, from)),
            (4, false) => self.push(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, to, from)),
            (4, true) => self.push(Instruction::with3(Code::VEX_Vmaskmovps_ymm_ymm_m256, to, Register::YMM15, from)),
            (_, tail) => {
                let code = if size == 2 { Code::VEX_Vpmovzxwd_ymm_xmmm128 } else { Code::VEX_Vpmovzxbd_ymm_xmmm64 };
                if !tail {
                    return self.push(Instruction::with2(code, to, from));
                }
                for at in (0..8 * size).step_by(8) {
                    let stage = memory(Register::RSP, Register::None, 1, at as i64);
                    self.push(Instruction::with2(Code::Mov_rm64_imm32, stage, 0))?;
                }
                self.pieces(base, size, true)?;
                self.push(Instruction::with2(code, to, memory(Register::RSP, Register::None, 1, 0)))
            }
        }
    }

    pub fn store(&mut self, operand: usize, from: Register, copy: Unrolled) -> Done {
        let View { dtype, streamed, .. } = self.graph.views[operand];
        let (size, half) = (dtype.size(), self.graph.long);
        let base = self.address(operand)?;
        let to = memory(base, Register::RCX, size as u32, (copy.ahead * size) as i64);
        let (low, _) = self.parts(from);
        let streamed = streamed && !copy.tail && size > 2;
        if self.wide {
            let mut instruction = match (size, half) {
                (8, _) if streamed => Instruction::with2(Code::EVEX_Vmovntpd_m512_zmm, to, from),
                (4, false) if streamed => Instruction::with2(Code::EVEX_Vmovntps_m512_zmm, to, from),
                (4, true) if streamed => Instruction::with2(Code::EVEX_Vmovntps_m256_ymm, to, low),
                (8, _) => Instruction::with2(Code::EVEX_Vmovupd_zmmm512_k1z_zmm, to, from),
                (4, false) => Instruction::with2(Code::EVEX_Vmovups_zmmm512_k1z_zmm, to, from),
                (4, true) => Instruction::with2(Code::EVEX_Vmovups_ymmm256_k1z_ymm, to, low),
                (2, false) => Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, to, from),
                (2, true) => Instruction::with2(Code::EVEX_Vpmovdw_xmmm128_k1z_ymm, to, low),
                (_, false) => Instruction::with2(Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, to, from),
                (_, true) => Instruction::with2(Code::EVEX_Vpmovdb_xmmm64_k1z_ymm, to, low),
            }?;
            if copy.tail {
                instruction.set_op_mask(Register::K7);
            }
            return self.push(Ok(instruction));
        }
        match (size, copy.tail) {
            (8, false) if streamed => self.push(Instruction::with2(Code::VEX_Vmovntpd_m256_ymm, to, from)),
            (4, false) if streamed => self.push(Instruction::with2(Code::VEX_Vmovntps_m256_ymm, to, from)),
            (8, false) => self.push(Instruction::with2(Code::VEX_Vmovupd_ymmm256_ymm, to, from)),
            (8, true) => self.push(Instruction::with3(Code::VEX_Vmaskmovpd_m256_ymm_ymm, to, Register::YMM15, from)),
            (4, false) => self.push(Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, to, from)),
            (4, true) => self.push(Instruction::with3(Code::VEX_Vmaskmovps_m256_ymm_ymm, to, Register::YMM15, from)),
            (_, tail) => self.store_narrow(base, to, from, size, tail),
        }
    }

    /// Stores the low bytes, or halves, of lanes; what lies above them is 0.
    fn store_narrow(&mut self, base: Register, to: MemoryOperand, from: Register, size: usize, tail: bool) -> Done {
        let (_, low) = self.parts(from);
        let x = Register::XMM14;
        self.push(Instruction::with3(Code::VEX_Vextracti128_xmmm128_ymm_imm8, x, from, 1))?;
        self.push(Instruction::with3(Code::VEX_Vpackusdw_xmm_xmm_xmmm128, x, low, x))?;
        let store = if size == 2 { Code::VEX_Vmovups_xmmm128_xmm } else { Code::VEX_Vmovq_xmmm64_xmm };
        if size == 1 {
            self.push(Instruction::with3(Code::VEX_Vpackuswb_xmm_xmm_xmmm128, x, x, x))?;
        }
        if !tail {
            return self.push(Instruction::with2(store, to, x));
        }
        let stage = memory(Register::RSP, Register::None, 1, 0);
        self.push(Instruction::with2(store, stage, x))?;
        self.pieces(base, size, false)
    }

    /// Moves the bytes or halves that are left of a row one by one between memory and the stack: AVX2 has no mask for them.
    fn pieces(&mut self, base: Register, size: usize, load: bool) -> Done {
        let start = memory(base, Register::RCX, size as u32, 0);
        self.push(Instruction::with2(Code::Lea_r64_m, Register::RAX, start))?;
        self.rest_of_row()?;
        let top = self.assembler.label();
        self.assembler.place(top);
        let far = memory(Register::RAX, Register::RDX, size as u32, -(size as i64));
        let near = memory(Register::RSP, Register::RDX, size as u32, -(size as i64));
        let (from, to) = if load { (far, near) } else { (near, far) };
        if size == 2 {
            self.push(Instruction::with2(Code::Movzx_r32_rm16, Register::R15D, from))?;
            self.push(Instruction::with2(Code::Mov_rm16_r16, to, Register::R15W))?;
        } else {
            self.push(Instruction::with2(Code::Movzx_r32_rm8, Register::R15D, from))?;
            self.push(Instruction::with2(Code::Mov_rm8_r8, to, Register::R15L))?;
        }
        self.push(Instruction::with1(Code::Dec_rm64, Register::RDX))?;
        self.assembler.jump(Code::Jne_rel32_64, top)
    }
}
