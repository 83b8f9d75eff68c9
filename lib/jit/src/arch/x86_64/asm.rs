//! Instruction formats: prefixes, REX, ModRM, SIB and displacement (SDM vol. 2, chapter 2).

use crate::sink::Sink;
use mote_bpf::op::{Size, Width};

/// A general-purpose register, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(u8);

impl Gpr {
    pub(crate) const RAX: Gpr = Gpr(0);
    pub(crate) const RCX: Gpr = Gpr(1);
    pub(crate) const RDX: Gpr = Gpr(2);
    pub(crate) const RBX: Gpr = Gpr(3);
    pub(crate) const RSP: Gpr = Gpr(4);
    pub(crate) const RBP: Gpr = Gpr(5);
    pub(crate) const RSI: Gpr = Gpr(6);
    pub(crate) const RDI: Gpr = Gpr(7);
    pub(crate) const R8: Gpr = Gpr(8);
    pub(crate) const R9: Gpr = Gpr(9);
    pub(crate) const R10: Gpr = Gpr(10);
    pub(crate) const R11: Gpr = Gpr(11);
    pub(crate) const R13: Gpr = Gpr(13);
    pub(crate) const R14: Gpr = Gpr(14);
    pub(crate) const R15: Gpr = Gpr(15);

    const fn low(self) -> u8 {
        self.0 & 7
    }

    const fn high(self) -> u8 {
        self.0 >> 3
    }
}

/// A memory operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) base: Gpr,
    pub(crate) index: Option<Gpr>,
    pub(crate) disp: i32,
}

impl Memory {
    pub(crate) fn at(base: Gpr, disp: impl Into<i32>) -> Memory {
        Memory { base, index: None, disp: disp.into() }
    }
}

/// A register's or the memory's place in ModRM.
#[derive(Clone, Copy)]
pub(crate) enum Rm {
    Reg(Gpr),
    Memory(Memory),
}

impl From<Gpr> for Rm {
    fn from(reg: Gpr) -> Rm {
        Rm::Reg(reg)
    }
}

impl From<Memory> for Rm {
    fn from(memory: Memory) -> Rm {
        Rm::Memory(memory)
    }
}

/// Operand size, and with it prefix and REX.W.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Bits {
    /// 8: registers need REX to be `sil`, `dil`, `bpl`.
    B8,
    /// 16: prefix 66.
    B16,
    /// 32.
    B32,
    /// 64: REX.W.
    B64,
}

impl From<Width> for Bits {
    fn from(width: Width) -> Bits {
        match width {
            Width::W32 => Bits::B32,
            Width::W64 => Bits::B64,
        }
    }
}

impl From<Size> for Bits {
    fn from(size: Size) -> Bits {
        match size {
            Size::B => Bits::B8,
            Size::H => Bits::B16,
            Size::W => Bits::B32,
            Size::DW => Bits::B64,
        }
    }
}

/// The eight operations of opcode group 1, by their number.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Group1 {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Writes instructions.
pub(crate) struct Asm<'a> {
    pub(crate) sink: Sink<'a>,
}

impl Asm<'_> {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.sink.byte(byte);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.sink.bytes(bytes);
    }

    pub(crate) fn imm32(&mut self, imm: i32) {
        self.sink.bytes(&imm.to_le_bytes());
    }

    /// One instruction with ModRM. `reg` is a register or the digit of an opcode group. Of registers of 8 bits, `sil`
    /// and its like are only to be had with REX: `is_byte` says which of the two is such a register, if it is one.
    fn modrm(&mut self, bits: Bits, opcode: &[u8], reg: Gpr, rm: Rm, is_byte: [bool; 2]) {
        if bits == Bits::B16 {
            self.byte(0x66);
        }
        let (base, index) = match rm {
            Rm::Reg(reg) => (reg, 0),
            Rm::Memory(memory) => (memory.base, memory.index.map_or(0, Gpr::high)),
        };
        let rex = 0x40 | u8::from(bits == Bits::B64) << 3 | reg.high() << 2 | index << 1 | base.high();
        let needs_rex = |one: Gpr| (4..8).contains(&one.0);
        let rm_needs_rex = matches!(rm, Rm::Reg(one) if needs_rex(one));
        if rex != 0x40 || is_byte[0] && needs_rex(reg) || is_byte[1] && rm_needs_rex {
            self.byte(rex);
        }
        self.bytes(opcode);
        match rm {
            Rm::Reg(rm) => self.byte(0xc0 | reg.low() << 3 | rm.low()),
            Rm::Memory(memory) => self.memory(reg, &memory),
        }
    }

    fn memory(&mut self, reg: Gpr, memory: &Memory) {
        let base = memory.base.low();
        let mode = match memory.disp {
            0 if base != Gpr::RBP.low() => 0,
            -128..=127 => 1,
            _ => 2,
        };
        let modrm = |rm: u8| mode << 6 | reg.low() << 3 | rm;
        match memory.index {
            Some(index) => self.bytes(&[modrm(4), index.low() << 3 | base]),
            None if base == Gpr::RSP.low() => self.bytes(&[modrm(4), 4 << 3 | base]),
            None => self.byte(modrm(base)),
        }
        match mode {
            0 => {}
            1 => self.byte(memory.disp as u8),
            _ => self.imm32(memory.disp),
        }
    }

    /// `opcode reg, rm`, in whichever direction the opcode has it.
    pub(crate) fn op(&mut self, bits: Bits, opcode: &[u8], reg: Gpr, rm: impl Into<Rm>) {
        self.modrm(bits, opcode, reg, rm.into(), [bits == Bits::B8; 2]);
    }

    /// `opcode reg, rm` whose second operand is of 8 bits, its first of `bits`.
    pub(crate) fn op_byte(&mut self, bits: Bits, opcode: &[u8], reg: Gpr, rm: impl Into<Rm>) {
        self.modrm(bits, opcode, reg, rm.into(), [false, true]);
    }

    /// An instruction of an opcode group: `digit` chooses it.
    pub(crate) fn group(&mut self, bits: Bits, opcode: &[u8], digit: u8, rm: impl Into<Rm>) {
        self.modrm(bits, opcode, Gpr(digit), rm.into(), [false, bits == Bits::B8]);
    }

    /// `op rm, reg`
    pub(crate) fn group1_from(&mut self, op: Group1, bits: Bits, rm: impl Into<Rm>, reg: Gpr) {
        self.op(bits, &[(op as u8) << 3 | u8::from(bits != Bits::B8)], reg, rm);
    }

    /// `op reg, rm`
    pub(crate) fn group1_to(&mut self, op: Group1, bits: Bits, reg: Gpr, rm: impl Into<Rm>) {
        self.op(bits, &[(op as u8) << 3 | 2 | u8::from(bits != Bits::B8)], reg, rm);
    }

    /// `op rm, imm`; an immediate of 16 bits must be one of 8, extended.
    pub(crate) fn group1_imm(&mut self, op: Group1, bits: Bits, rm: impl Into<Rm>, imm: i32) {
        let rm = rm.into();
        match bits {
            Bits::B8 => self.group(bits, &[0x80], op as u8, rm),
            _ if bits == Bits::B16 || i8::try_from(imm).is_ok() => self.group(bits, &[0x83], op as u8, rm),
            _ => {
                if matches!(rm, Rm::Reg(Gpr::RAX)) {
                    self.rex_w(bits);
                    self.byte((op as u8) << 3 | 5);
                } else {
                    self.group(bits, &[0x81], op as u8, rm);
                }
                return self.imm32(imm);
            }
        }
        self.byte(imm as u8);
    }

    /// `test rm, imm`, 8, 32 or 64 bits.
    pub(crate) fn test_imm(&mut self, bits: Bits, rm: impl Into<Rm>, imm: i32) {
        self.group(bits, &[0xf6 | u8::from(bits != Bits::B8)], 0, rm);
        if bits == Bits::B8 { self.byte(imm as u8) } else { self.imm32(imm) }
    }

    fn rex_w(&mut self, bits: Bits) {
        if bits == Bits::B64 {
            self.byte(0x48);
        }
    }

    /// `mov dst, src` between registers.
    pub(crate) fn mov(&mut self, bits: Bits, dst: Gpr, src: Gpr) {
        self.op(bits, &[0x89], src, dst);
    }

    /// `mov dst, imm` in the shortest form that leaves the flags alone.
    pub(crate) fn mov_imm(&mut self, dst: Gpr, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            if dst.high() != 0 {
                self.byte(0x41);
            }
            self.byte(0xb8 | dst.low());
            self.bytes(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.group(Bits::B64, &[0xc7], 0, dst);
            self.imm32(value);
        } else {
            self.bytes(&[0x48 | dst.high(), 0xb8 | dst.low()]);
            self.bytes(&value.to_le_bytes());
        }
    }

    /// `bswap reg`
    pub(crate) fn byte_swap(&mut self, bits: Bits, reg: Gpr) {
        let rex = 0x40 | u8::from(bits == Bits::B64) << 3 | reg.high();
        if rex != 0x40 {
            self.byte(rex);
        }
        self.bytes(&[0x0f, 0xc8 | reg.low()]);
    }

    pub(crate) fn lea(&mut self, dst: Gpr, memory: Memory) {
        self.op(Bits::B64, &[0x8d], dst, memory);
    }

    pub(crate) fn push(&mut self, reg: Gpr) {
        self.push_pop(0x50, reg);
    }

    pub(crate) fn pop(&mut self, reg: Gpr) {
        self.push_pop(0x58, reg);
    }

    fn push_pop(&mut self, opcode: u8, reg: Gpr) {
        if reg.high() != 0 {
            self.byte(0x41);
        }
        self.byte(opcode | reg.low());
    }

    /// A short jump inside one operation; its distance comes by [`Asm::land`].
    pub(crate) fn hop(&mut self, opcode: u8) -> usize {
        self.bytes(&[opcode, 0]);
        self.sink.len()
    }

    /// A hop leads here.
    pub(crate) fn land(&mut self, hop: usize) {
        let distance = self.sink.len() - hop;
        self.sink.set(hop - 1, distance as u8);
    }
}
