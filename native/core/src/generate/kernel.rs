//! The loops around a body: rows, whole vectors, and the masked rest of a row; behind the return, the code for iterations that were left.
//!
//! Registers: rdi the arguments, rbx the constants, rcx the element within the row, rdx a limit, rax and r15 for
//! anything; rsi and r8 to r14 hold the first addresses, the others stay among the arguments. k7 or ymm15 is the mask of
//! a row's rest, xmm14 packs bytes.

use std::collections::HashMap;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{memory, Assembler};
use super::body::Body;
use super::graph::{Graph, List, HELD};
use super::value::Kind;
use super::writer::{Done, Frame, Left, Unrolled, Writer, ADDRESSES, HEAD};

const SAVED: [Register; 6] = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// Code and constants of a graph.
pub fn write(graph: &Graph, wide: bool) -> Done<(Vec<u8>, Vec<u8>)> {
    let row_operands: Vec<usize> = (0..graph.views.len()).filter(|i| !graph.views[*i].along).collect();
    let rows = row_operands.len() + 1;
    let lanes = if wide { 16 } else { 8 } / if graph.long { 2 } else { 1 };
    let mut pool = Vec::new();
    if !wide {
        // Read from the middle, this is the mask of a row's rest.
        pool.extend([0xff; 32]);
        pool.extend([0; 32]);
    }
    let frame = Frame { row_operands, rows, spills: rows };
    let mut writer = Writer {
        graph,
        wide,
        assembler: Assembler::default(),
        frame,
        lanes,
        pool,
        places: HashMap::new(),
        left: Vec::new(),
    };
    writer.function()?;
    Ok((writer.assembler.bytes()?, writer.pool))
}

impl Writer<'_> {
    fn function(&mut self) -> Done {
        for register in SAVED {
            self.push(Instruction::with1(Code::Push_r64, register))?;
        }
        self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RBP, Register::RSP))?;
        let room = self.assembler.count();
        self.push(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, 0))?;
        self.push(Instruction::with2(Code::And_rm64_imm8, Register::RSP, -64))?;
        self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RBX, self.argument(2)))?;
        for operand in 0..self.graph.views.len().min(ADDRESSES.len()) {
            let from = self.argument(HEAD + 2 * operand);
            self.push(Instruction::with2(Code::Mov_r64_rm64, ADDRESSES[operand], from))?;
        }
        let row = self.assembler.label();
        self.assembler.place(row);
        self.row()?;
        self.push(Instruction::with1(Code::Dec_rm64, self.argument(0)))?;
        self.assembler.jump(Code::Jne_rel32_64, row)?;
        if self.graph.views.iter().any(|v| v.streamed) {
            self.push(Ok(Instruction::with(Code::Sfence)))?;
        }
        self.push(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
        self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RSP, Register::RBP))?;
        for register in SAVED.into_iter().rev() {
            self.push(Instruction::with1(Code::Pop_r64, register))?;
        }
        self.push(Ok(Instruction::with(Code::Retnq)))?;
        for Left { from, back, copies } in std::mem::take(&mut self.left) {
            self.assembler.place(from);
            for copy in copies {
                Body::new(self, &self.graph.each, copy).write(None)?;
            }
            self.assembler.jump(Code::Jmp_rel32_64, back)?;
        }
        let bytes = (self.frame.spills * Frame::SLOT) as i32;
        self.assembler.replace(room, Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, bytes))
    }

    fn row(&mut self) -> Done {
        for operand in self.frame.row_operands.clone() {
            self.spread(operand)?;
        }
        self.push(Instruction::with2(Code::Xor_r32_rm32, Register::ECX, Register::ECX))?;
        if self.graph.held.is_empty() {
            if self.breadth() > 1 {
                self.vectors(self.breadth(), 1)?;
            }
            self.vectors(1, 1)?;
            self.rest()?;
        } else {
            self.folded()?;
        }
        for operand in 0..self.graph.views.len() {
            let (stride, address) = (self.argument(HEAD + 2 * operand + 1), self.argument(HEAD + 2 * operand));
            self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, stride))?;
            match ADDRESSES.get(operand) {
                Some(register) => self.push(Instruction::with2(Code::Add_r64_rm64, *register, Register::RAX))?,
                None => self.push(Instruction::with2(Code::Add_rm64_r64, address, Register::RAX))?,
            }
        }
        Ok(())
    }

    /// The list that most iterations run.
    fn usual(&self) -> &List {
        self.graph.near.as_ref().unwrap_or(&self.graph.each)
    }

    /// Writes a list for the vectors of an unrolled copy. If the copy may be left, the code for that is written behind the function.
    fn unrolled(&mut self, list: &List, copy: Unrolled, vectors: usize) -> Done {
        if list.leave.is_empty() {
            return Body::new(self, list, copy).write(None);
        }
        let (from, back) = (self.assembler.label(), self.assembler.label());
        Body::new(self, list, copy).write(Some(from))?;
        self.assembler.place(back);
        let copies = (0..vectors).map(|v| Unrolled { ahead: copy.ahead + v * self.lanes, ..copy }).collect();
        self.left.push(Left { from, back, copies });
        Ok(())
    }

    /// Vectors side by side.
    fn breadth(&self) -> usize {
        let held = self.graph.held.len() * HELD;
        let (vectors, masks) =
            if self.wide { (Body::VECTORS - held, Body::MASKS) } else { (Body::VECTORS_AVX2 + Body::SPILLED, 0) };
        self.usual().breadth(vectors, masks)
    }

    /// Loops over iterations of `groups` unrolled copies of `breadth` vectors side by side.
    fn vectors(&mut self, breadth: usize, groups: usize) -> Done {
        let interleaved = self.usual().interleaved(breadth);
        let step = (groups * breadth * self.lanes) as i32;
        let (top, end) = (self.assembler.label(), self.assembler.label());
        self.push(Instruction::with2(Code::Mov_r64_rm64, Register::RDX, self.argument(1)))?;
        self.push(Instruction::with2(Code::Sub_rm64_imm32, Register::RDX, step))?;
        self.push(Instruction::with2(Code::Cmp_r64_rm64, Register::RCX, Register::RDX))?;
        self.assembler.jump(Code::Jg_rel32_64, end)?;
        self.assembler.place(top);
        for i in 0..groups {
            let copy = Unrolled { ahead: i * breadth * self.lanes, tail: false };
            self.unrolled(&interleaved, copy, breadth)?;
        }
        self.push(Instruction::with2(Code::Add_rm64_imm32, Register::RCX, step))?;
        self.push(Instruction::with2(Code::Cmp_r64_rm64, Register::RCX, Register::RDX))?;
        self.assembler.jump(Code::Jle_rel32_64, top)?;
        self.assembler.place(end);
        Ok(())
    }

    /// Fewer elements than a vector has lanes.
    fn rest(&mut self) -> Done {
        let end = self.assembler.label();
        self.rest_of_row()?;
        self.assembler.jump(Code::Je_rel32_64, end)?;
        if self.wide {
            self.mask()?;
        } else {
            let size = 32 / self.lanes as u32;
            self.push(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, self.lanes as i32))?;
            self.push(Instruction::with2(Code::Sub_r64_rm64, Register::RAX, Register::RDX))?;
            let from = memory(Register::RBX, Register::RAX, size, 0);
            self.push(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, Register::YMM15, from))?;
        }
        let single = self.usual().interleaved(1);
        self.unrolled(&single, Unrolled { ahead: 0, tail: true }, 1)?;
        self.assembler.place(end);
        Ok(())
    }

    /// k7: the first rdx lanes.
    fn mask(&mut self) -> Done {
        self.push(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, -1))?;
        self.push(Instruction::with3(Code::VEX_Bzhi_r32_rm32_r32, Register::EAX, Register::EAX, Register::EDX))?;
        self.push(Instruction::with2(Code::VEX_Kmovw_kr_r32, Register::K7, Register::EAX))
    }

    /// A row whose lanes stay in registers: vector `i` belongs to register `i mod HELD` of each fold.
    fn folded(&mut self) -> Done {
        for (fold, bits) in self.graph.held.clone().into_iter().enumerate() {
            let from = MemoryOperand { is_broadcast: false, ..self.constant(bits, Kind::Word) };
            for i in 0..HELD {
                let to = Body::held(fold * HELD + i);
                self.push(Instruction::with2(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, from))?;
            }
        }
        let breadth = self.breadth();
        self.vectors(breadth, HELD / breadth)?;
        let end = self.assembler.label();
        let single = self.usual().interleaved(1);
        self.rest_of_row()?;
        for i in 0..HELD {
            let (tail, next) = (self.assembler.label(), self.assembler.label());
            let copy = Unrolled { ahead: i * self.lanes, tail: false };
            self.assembler.jump(Code::Je_rel32_64, end)?;
            if i + 1 < HELD {
                self.push(Instruction::with2(Code::Cmp_rm64_imm32, Register::RDX, self.lanes as i32))?;
                self.assembler.jump(Code::Jl_rel32_64, tail)?;
                self.unrolled(&single, copy, 1)?;
                self.push(Instruction::with2(Code::Sub_rm64_imm32, Register::RDX, self.lanes as i32))?;
                self.assembler.jump(Code::Jmp_rel32_64, next)?;
            }
            self.assembler.place(tail);
            self.mask()?;
            self.unrolled(&single, Unrolled { tail: true, ..copy }, 1)?;
            self.assembler.jump(Code::Jmp_rel32_64, end)?;
            // The flags at this label are those of the subtraction.
            self.assembler.place(next);
        }
        self.assembler.place(end);
        self.push(Instruction::with2(Code::Xor_r32_rm32, Register::ECX, Register::ECX))?;
        Body::new(self, &self.graph.last, Unrolled { ahead: 0, tail: false }).write(None)
    }

    /// The value of a row in all lanes of its slot.
    fn spread(&mut self, operand: usize) -> Done {
        let base = self.address(operand)?;
        let from = memory(base, Register::None, 1, 0);
        let slot = (self.frame.row_slot(operand).unwrap_or(0) * Frame::SLOT) as i64;
        let to = memory(Register::RSP, Register::None, 1, slot);
        let v = if self.wide { Register::ZMM0 } else { Register::YMM0 };
        let (broadcast, store) = match (self.graph.views[operand].dtype.size(), self.wide) {
            (8, true) => (Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
            (8, false) => (Code::VEX_Vbroadcastsd_ymm_m64, Code::VEX_Vmovups_ymmm256_ymm),
            (_, true) => (Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
            _ => (Code::VEX_Vbroadcastss_ymm_m32, Code::VEX_Vmovups_ymmm256_ymm),
        };
        let size = self.graph.views[operand].dtype.size();
        if size > 2 {
            self.push(Instruction::with2(broadcast, v, from))?;
        } else {
            let widen = if size == 2 { Code::Movzx_r32_rm16 } else { Code::Movzx_r32_rm8 };
            self.push(Instruction::with2(widen, Register::EAX, from))?;
            self.push(Instruction::with2(Code::VEX_Vmovd_xmm_rm32, Register::XMM0, Register::EAX))?;
            let code = if self.wide { Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32 } else { Code::VEX_Vbroadcastss_ymm_xmm };
            self.push(Instruction::with2(code, v, Register::XMM0))?;
        }
        self.push(Instruction::with2(store, to, v))
    }
}
