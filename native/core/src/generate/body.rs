//! The code for one vector of lanes: assigns registers to values, and spills the value whose next use is last.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::assembler::{memory, Label};
use super::encode;
use super::graph::{List, Target, HELD};
use super::value::{Compare, Do, Id, Kind, Node};
use super::writer::{Done, Frame, Unrolled, Writer};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Class {
    Vector,
    Mask,
}

/// The place of an instruction's input.
enum Place {
    Register(Register),
    Memory(MemoryOperand),
}

pub struct Body<'a, 'b, 'c> {
    writer: &'a mut Writer<'b>,
    list: &'c List,
    copy: Unrolled,
    /// Positions at which each value is used, in falling order.
    uses: Vec<Vec<usize>>,
    register: Vec<Option<usize>>,
    slot: Vec<Option<usize>>,
    vectors: Vec<Option<Id>>,
    masks: Vec<Option<Id>>,
    pinned: Vec<Id>,
    slots: usize,
}

impl<'a, 'b, 'c> Body<'a, 'b, 'c> {
    /// Registers that values may have: k0 means "no mask", k7 and ymm15 hold the mask of the tail; ymm14 packs bytes.
    pub const VECTORS: usize = 32;
    pub const VECTORS_AVX2: usize = 14;
    pub const MASKS: usize = 6;
    /// Values beyond the registers of AVX2 with which vectors are still best written side by side: a spill costs less than waiting.
    pub const SPILLED: usize = 12;

    pub fn new(writer: &'a mut Writer<'b>, list: &'c List, copy: Unrolled) -> Body<'a, 'b, 'c> {
        let nodes = &list.nodes;
        let mut live = vec![false; nodes.len()];
        list.stores.iter().for_each(|(_, id)| live[*id] = true);
        list.leave.iter().for_each(|id| live[*id] = true);
        let mut uses = vec![Vec::new(); nodes.len()];
        for (j, (_, id)) in list.stores.iter().enumerate().rev() {
            uses[*id].push(nodes.len() + 1 + j);
        }
        list.leave.iter().for_each(|id| uses[*id].push(nodes.len()));
        for i in (0..nodes.len()).rev() {
            if live[i] {
                for input in &nodes[i].inputs[..nodes[i].arity] {
                    live[*input] = true;
                    uses[*input].push(i);
                }
            }
        }
        let held = writer.graph.held.len() * HELD;
        let (vectors, n) = (if writer.wide { Self::VECTORS - held } else { Self::VECTORS_AVX2 }, nodes.len());
        // Held registers have the numbers above those of values.
        let number = |node: &Node| match node.what {
            Do::Held(i) => Some(31 - i - copy.ahead / 16),
            _ => None,
        };
        Body {
            copy,
            list,
            uses,
            register: nodes.iter().map(number).collect(),
            slot: vec![None; n],
            vectors: vec![None; vectors],
            masks: vec![None; if writer.wide { Self::MASKS } else { 0 }],
            pinned: Vec::new(),
            slots: writer.frame.rows,
            writer,
        }
    }

    /// Writes the list. An iteration for which the list does not hold jumps to the label.
    pub fn write(mut self, leave: Option<Label>) -> Done {
        for i in 0..self.list.nodes.len() {
            let node = self.list.nodes[i];
            let lazy = matches!(node.what, Do::Constant(_) | Do::Row(_) | Do::Held(_));
            if !lazy && !self.uses[i].is_empty() {
                self.node(i, node)?;
            }
        }
        let count = self.list.nodes.len();
        if let Some(to) = leave {
            self.leave(to)?;
        }
        for j in 0..self.list.stores.len() {
            let (target, id) = self.list.stores[j];
            let register = self.fetch(id)?;
            match target {
                Target::Operand(operand, vector) => self.store(operand, vector, register)?,
                Target::Held(i) => self.hold(i, register)?,
            }
            self.consume(id, count + 1 + j);
        }
        self.writer.frame.spills = self.writer.frame.spills.max(self.slots);
        Ok(())
    }

    /// Leaves the copy if one of the list's conditions holds in a lane; nothing has been stored by then.
    fn leave(&mut self, to: Label) -> Done {
        let (list, count) = (self.list, self.list.nodes.len());
        for id in &list.leave {
            let mask = self.fetch(*id)?;
            let test = match (self.writer.wide, self.writer.graph.long) {
                (false, _) => Code::VEX_Vptest_ymm_ymmm256,
                (true, false) => Code::VEX_Kortestw_kr_kr,
                // Conditions on 8-byte values have 8 lanes; the upper bits of the mask are undefined.
                (true, true) => Code::VEX_Kortestb_kr_kr,
            };
            self.push(Instruction::with2(test, mask, mask))?;
            self.writer.assembler.jump(Code::Jne_rel32_64, to)?;
            self.consume(*id, count);
        }
        Ok(())
    }

    /// The register that is held under a number.
    pub fn held(number: usize) -> Register {
        Register::ZMM31 - number as u32
    }

    /// Lanes beyond the end of a row keep what they have.
    fn hold(&mut self, number: usize, from: Register) -> Done {
        let to = Self::held(number + self.copy.ahead / 16);
        let mut copy = Instruction::with2(Code::EVEX_Vmovaps_zmm_k1z_zmmm512, to, from)?;
        if self.copy.tail {
            copy.set_op_mask(Register::K7);
        }
        self.push(Ok(copy))
    }

    fn class(&self, id: Id) -> Class {
        match self.list.nodes[id].kind {
            Kind::Mask if self.writer.wide => Class::Mask,
            _ => Class::Vector,
        }
    }

    fn name(&self, class: Class, number: usize) -> Register {
        match class {
            Class::Mask => Register::K1 + number as u32,
            Class::Vector if self.writer.wide => Register::ZMM0 + number as u32,
            Class::Vector => Register::YMM0 + number as u32,
        }
    }

    fn slot_memory(&self, slot: usize) -> MemoryOperand {
        memory(Register::RSP, Register::None, 1, (slot * Frame::SLOT) as i64)
    }

    fn push(&mut self, instruction: Result<Instruction, IcedError>) -> Done {
        self.writer.assembler.push(instruction)
    }

    /// A register for a value. Without a free register, the value whose next use is last is spilled.
    fn take(&mut self, id: Id) -> Done<Register> {
        let class = self.class(id);
        let bank = if class == Class::Mask { &self.masks } else { &self.vectors };
        let number = match bank.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                let next = |held: &Option<Id>| match held {
                    Some(id) if !self.pinned.contains(id) => self.uses[*id].last().copied(),
                    _ => None,
                };
                let far = (0..bank.len()).max_by_key(|r| next(&bank[*r])).unwrap_or(0);
                let victim = bank[far].unwrap_or(id);
                self.evict(victim, class, far)?;
                far
            }
        };
        let bank = if class == Class::Mask { &mut self.masks } else { &mut self.vectors };
        bank[number] = Some(id);
        self.register[id] = Some(number);
        Ok(self.name(class, number))
    }

    fn evict(&mut self, victim: Id, class: Class, number: usize) -> Done {
        self.register[victim] = None;
        let known = matches!(self.list.nodes[victim].what, Do::Constant(_) | Do::Row(_));
        if known || self.slot[victim].is_some() {
            return Ok(());
        }
        self.slot[victim] = Some(self.slots);
        let (to, from) = (self.slot_memory(self.slots), self.name(class, number));
        self.slots += 1;
        let code = match class {
            Class::Mask => Code::VEX_Kmovw_m16_kr,
            Class::Vector if self.writer.wide => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
            Class::Vector => Code::VEX_Vmovups_ymmm256_ymm,
        };
        self.push(Instruction::with2(code, to, from))
    }

    /// The memory of a value, if the value is in memory.
    fn stored(&mut self, id: Id) -> Option<MemoryOperand> {
        let node = self.list.nodes[id];
        match node.what {
            Do::Constant(bits) => Some(self.writer.constant(bits, node.kind)),
            Do::Row(operand) => self.writer.frame.row_slot(operand).map(|slot| self.slot_memory(slot)),
            _ => self.slot[id].map(|slot| self.slot_memory(slot)),
        }
    }

    /// A value in a register.
    fn fetch(&mut self, id: Id) -> Done<Register> {
        if let Some(number) = self.register[id] {
            return Ok(self.name(self.class(id), number));
        }
        let node = self.list.nodes[id];
        let Some(from) = self.stored(id) else { return Err(self.writer.bug()) };
        self.pinned.push(id);
        let to = self.take(id)?;
        let code = match (self.class(id), self.writer.wide, node.what, node.kind) {
            (Class::Mask, ..) => Code::VEX_Kmovw_kr_km16,
            (_, true, Do::Constant(_), Kind::Long) => Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
            (_, true, Do::Constant(_), _) => Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
            (_, true, ..) => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
            _ => Code::VEX_Vmovups_ymm_ymmm256,
        };
        let from = MemoryOperand { is_broadcast: false, ..from };
        self.push(Instruction::with2(code, to, from))?;
        Ok(to)
    }

    /// The place of a value: a register or memory.
    fn place(&mut self, id: Id) -> Done<Place> {
        if self.register[id].is_some() || self.class(id) == Class::Mask {
            return Ok(Place::Register(self.fetch(id)?));
        }
        match self.stored(id) {
            Some(memory) => Ok(Place::Memory(memory)),
            None => Err(self.writer.bug()),
        }
    }

    /// Ends one use of a value; frees the register after the last use.
    fn consume(&mut self, id: Id, at: usize) {
        while self.uses[id].last().is_some_and(|u| *u <= at) {
            self.uses[id].pop();
        }
        if let (true, Some(number)) = (self.uses[id].is_empty(), self.register[id]) {
            let bank = if self.class(id) == Class::Mask { &mut self.masks } else { &mut self.vectors };
            if let Some(place) = bank.get_mut(number) {
                *place = None;
                self.register[id] = None;
            }
        }
    }

    fn node(&mut self, id: Id, node: Node) -> Done {
        let inputs = &node.inputs[..node.arity];
        self.pinned = inputs.to_vec();
        self.pinned.push(id);
        match node.what {
            Do::Load(operand, vector) => {
                let to = self.take(id)?;
                self.load(operand, vector, to)?;
            }
            Do::Fma => self.fma(id, node)?,
            Do::Select => self.select(id, node)?,
            Do::FromHalf | Do::ToHalf => self.half(id, node)?,
            Do::Compare(_) | Do::CompareInt(_) | Do::CompareUnsigned(_) => self.compare(id, node)?,
            _ if node.arity == 1 => self.unary(id, node)?,
            _ => self.binary(id, node)?,
        }
        self.pinned.clear();
        Ok(())
    }

    fn consume_all(&mut self, node: &Node, at: Id) {
        node.inputs[..node.arity].iter().for_each(|input| self.consume(*input, at));
    }

    /// Converts between f32 and the bits of f16, which are packed before, or unpacked after, the conversion.
    fn half(&mut self, id: Id, node: Node) -> Done {
        let wide = self.writer.wide;
        let from = self.fetch(node.inputs[0])?;
        self.consume_all(&node, id);
        let to = self.take(id)?;
        let (whole, low) = (to, self.low(to));
        if node.what == Do::FromHalf {
            if wide {
                self.push(Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, low, from))?;
                return self.push(Instruction::with2(Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, whole, low));
            }
            self.push(Instruction::with3(Code::VEX_Vpackusdw_ymm_ymm_ymmm256, whole, from, from))?;
            self.push(Instruction::with3(Code::VEX_Vpermq_ymm_ymmm256_imm8, whole, whole, 0b1000u32))?;
            return self.push(Instruction::with2(Code::VEX_Vcvtph2ps_ymm_xmmm128, whole, low));
        }
        if wide {
            self.push(Instruction::with3(Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, low, from, 0u32))?;
            return self.push(Instruction::with2(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, whole, low));
        }
        self.push(Instruction::with3(Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8, low, from, 0u32))?;
        self.push(Instruction::with2(Code::VEX_Vpmovzxwd_ymm_xmmm128, whole, low))
    }

    /// The lower half of a register.
    fn low(&self, r: Register) -> Register {
        if self.writer.wide {
            Register::YMM0 + (r as u32 - Register::ZMM0 as u32)
        } else {
            Register::XMM0 + (r as u32 - Register::YMM0 as u32)
        }
    }

    fn unary(&mut self, id: Id, node: Node) -> Done {
        let Some(code) = encode::code(node.what, node.kind, self.writer.wide) else { return Err(self.writer.bug()) };
        let from = self.fetch(node.inputs[0])?;
        self.consume_all(&node, id);
        let to = self.take(id)?;
        let instruction = match node.what {
            Do::Round(how) => Instruction::with3(code, to, from, encode::rounding(how)),
            Do::ShiftLeft(by) | Do::ShiftRight(by) => Instruction::with3(code, to, from, u32::from(by)),
            // Conversions between widths name the narrow part of a register.
            Do::Widen => Instruction::with2(code, to, self.low(from)),
            Do::Narrow => Instruction::with2(code, self.low(to), from),
            _ => Instruction::with2(code, to, from),
        };
        self.push(instruction)
    }

    fn binary(&mut self, id: Id, node: Node) -> Done {
        let Some(code) = encode::code(node.what, node.kind, self.writer.wide) else { return Err(self.writer.bug()) };
        let [mut a, mut b, _] = node.inputs;
        use Do::{Add, And, MaskAnd, MaskOr, MaskXor, Mul, Or, Plus, Times, Xor};
        let commutes = matches!(node.what, Add | Mul | And | Or | Xor | Plus | Times | MaskAnd | MaskOr | MaskXor);
        if commutes && self.register[a].is_none() && self.register[b].is_some() {
            (a, b) = (b, a);
        }
        let first = self.fetch(a)?;
        let second = self.place(b)?;
        self.consume_all(&node, id);
        let to = self.take(id)?;
        self.push(match second {
            Place::Register(r) => Instruction::with3(code, to, first, r),
            Place::Memory(m) => Instruction::with3(code, to, first, m),
        })
    }

    fn compare(&mut self, id: Id, node: Node) -> Done {
        let wide = self.writer.wide;
        let [mut a, mut b, _] = node.inputs;
        let kind = self.list.nodes[a].kind;
        let Some((code, predicate)) = encode::comparison(node.what, kind, wide) else { return Err(self.writer.bug()) };
        if !wide && node.what == Do::CompareInt(Compare::Less) {
            (a, b) = (b, a);
        }
        let first = self.fetch(a)?;
        let second = self.place(b)?;
        self.consume_all(&node, id);
        let to = self.take(id)?;
        self.push(match (second, predicate) {
            (Place::Register(r), Some(p)) => Instruction::with4(code, to, first, r, p),
            (Place::Memory(m), Some(p)) => Instruction::with4(code, to, first, m, p),
            (Place::Register(r), None) => Instruction::with3(code, to, first, r),
            (Place::Memory(m), None) => Instruction::with3(code, to, first, m),
        })
    }

    fn select(&mut self, id: Id, node: Node) -> Done {
        let [condition, yes, no] = node.inputs;
        let mask = self.fetch(condition)?;
        let otherwise = self.fetch(no)?;
        let chosen = self.place(yes)?;
        self.consume_all(&node, id);
        let to = self.take(id)?;
        let long = node.kind == Kind::Long;
        if !self.writer.wide {
            let code =
                if long { Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm } else { Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm };
            return self.push(match chosen {
                Place::Register(r) => Instruction::with4(code, to, otherwise, r, mask),
                Place::Memory(m) => Instruction::with4(code, to, otherwise, m, mask),
            });
        }
        let code = if long {
            Code::EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64
        } else {
            Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32
        };
        let mut instruction = match chosen {
            Place::Register(r) => Instruction::with3(code, to, otherwise, r),
            Place::Memory(m) => Instruction::with3(code, to, otherwise, m),
        }?;
        instruction.set_op_mask(mask);
        self.push(Ok(instruction))
    }

    /// `a·b + c` overwrites one of its inputs, preferably an input at its last use.
    fn fma(&mut self, id: Id, node: Node) -> Done {
        let [mut a, mut b, c] = node.inputs;
        let [_, f213, f231] = encode::fma(node.kind, self.writer.wide);
        let in_register = |body: &Self, v: Id| body.register[v].is_some();
        if !in_register(self, a) || (in_register(self, b) && self.dies(b, id) && !self.dies(a, id)) {
            (a, b) = (b, a);
        }
        // With a factor in memory the sum is overwritten, else a factor.
        let (over, factor, last, code) = if !in_register(self, b) || (self.dies(c, id) && !self.dies(a, id)) {
            (c, a, b, f231)
        } else {
            (a, b, c, f213)
        };
        let start = self.fetch(over)?;
        let factor = self.fetch(factor)?;
        let last = self.place(last)?;
        let dies = self.dies(over, id);
        self.pinned.retain(|p| *p != id);
        let to = if dies {
            let number = self.register[over].unwrap_or(0);
            self.consume_all(&node, id);
            self.vectors[number] = Some(id);
            self.register[id] = Some(number);
            start
        } else {
            let to = self.take(id)?;
            let copy =
                if self.writer.wide { Code::EVEX_Vmovaps_zmm_k1z_zmmm512 } else { Code::VEX_Vmovaps_ymm_ymmm256 };
            self.push(Instruction::with2(copy, to, start))?;
            self.consume_all(&node, id);
            to
        };
        self.push(match last {
            Place::Register(r) => Instruction::with3(code, to, factor, r),
            Place::Memory(m) => Instruction::with3(code, to, factor, m),
        })
    }

    /// Whether a use is the last use of a value.
    fn dies(&self, id: Id, at: usize) -> bool {
        self.uses[id].first().is_none_or(|last| *last <= at)
    }

    /// The lanes of one vector of the copy.
    fn copy_of(&self, vector: usize) -> Unrolled {
        Unrolled { ahead: self.copy.ahead + vector * self.writer.lanes, tail: self.copy.tail }
    }

    fn load(&mut self, operand: usize, vector: usize, to: Register) -> Done {
        let copy = self.copy_of(vector);
        self.writer.load(operand, to, copy)
    }

    fn store(&mut self, operand: usize, vector: usize, from: Register) -> Done {
        let copy = self.copy_of(vector);
        self.writer.store(operand, from, copy)
    }
}
