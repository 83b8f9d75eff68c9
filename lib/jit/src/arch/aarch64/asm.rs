//! Instruction words.

use crate::sink::Sink;
use mote_bpf::op::Width;

/// A general-purpose register, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(pub(super) u8);

impl Gpr {
    pub(crate) const X0: Gpr = Gpr(0);
    pub(crate) const X1: Gpr = Gpr(1);
    pub(crate) const X2: Gpr = Gpr(2);
    pub(crate) const X3: Gpr = Gpr(3);
    pub(crate) const X7: Gpr = Gpr(7);
    pub(crate) const X9: Gpr = Gpr(9);
    pub(crate) const X10: Gpr = Gpr(10);
    pub(crate) const X11: Gpr = Gpr(11);
    pub(crate) const X12: Gpr = Gpr(12);
    pub(crate) const X16: Gpr = Gpr(16);
    pub(crate) const X25: Gpr = Gpr(25);
    pub(crate) const X30: Gpr = Gpr(30);
    /// 0, in operations on registers.
    pub(crate) const ZERO: Gpr = Gpr(31);
    /// The stack pointer, in addresses and in additions of constants.
    pub(crate) const SP: Gpr = Gpr(31);
}

/// Operations of two registers, by their words: `rd = rn op rm`, 32 bits wide.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Three {
    Add = 0x0b00_0000,
    Sub = 0x4b00_0000,
    /// Sets flags.
    Subs = 0x6b00_0000,
    And = 0x0a00_0000,
    /// Sets flags.
    Ands = 0x6a00_0000,
    Orr = 0x2a00_0000,
    Eor = 0x4a00_0000,
    Udiv = 0x1ac0_0800,
    Sdiv = 0x1ac0_0c00,
    Lsl = 0x1ac0_2000,
    Lsr = 0x1ac0_2400,
    Asr = 0x1ac0_2800,
}

/// Operations of a register and a constant of 12 bits: `rd = rn op imm`, 32 bits wide.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
pub(crate) enum Twelve {
    Add = 0x1100_0000,
    Sub = 0x5100_0000,
    /// Sets flags.
    Adds = 0x3100_0000,
    /// Sets flags.
    Subs = 0x7100_0000,
}

/// The bit that makes an operation one of 64 bits.
fn wide(width: Width) -> u32 {
    if width == Width::W64 { 1 << 31 } else { 0 }
}

/// Writes instructions.
pub(crate) struct Asm<'a> {
    pub(crate) sink: Sink<'a>,
}

impl Asm<'_> {
    pub(crate) fn word(&mut self, word: u32) {
        self.sink.bytes(&word.to_le_bytes());
    }

    /// A word with `rd` and `rn` in it.
    pub(crate) fn word_dn(&mut self, word: u32, rd: Gpr, rn: Gpr) {
        self.word(word | u32::from(rn.0) << 5 | u32::from(rd.0));
    }

    /// `rd = rn op rm`
    pub(crate) fn three(&mut self, op: Three, width: Width, rd: Gpr, rn: Gpr, rm: Gpr) {
        self.word_dn(op as u32 | wide(width) | u32::from(rm.0) << 16, rd, rn);
    }

    /// `rd = ra + rn * rm`, or minus it.
    pub(crate) fn multiply(&mut self, width: Width, minus: u32, rd: Gpr, rn: Gpr, rm: Gpr, ra: Gpr) {
        let word = 0x1b00_0000 | minus << 15 | wide(width);
        self.word_dn(word | u32::from(rm.0) << 16 | u32::from(ra.0) << 10, rd, rn);
    }

    /// `rd = rn op imm`, for `imm` below 4096.
    pub(crate) fn twelve(&mut self, op: Twelve, width: Width, rd: Gpr, rn: Gpr, imm: u32) {
        self.word_dn(op as u32 | wide(width) | (imm & 0xfff) << 10, rd, rn);
    }

    /// Moves the bits from `first` to `last` of `rn` to the bottom (or, when `last` is less than `first`, the low ones
    /// upwards: the Arm ARM's `immr` and `imms`), and extends them by zeros or their sign.
    pub(crate) fn bitfield(&mut self, signed: bool, width: Width, rd: Gpr, rn: Gpr, first: u32, last: u32) {
        let base = if signed { 0x1300_0000 } else { 0x5300_0000 };
        let n = if width == Width::W64 { 1 << 22 } else { 0 };
        self.word_dn(base | wide(width) | n | first << 16 | last << 10, rd, rn);
    }

    /// Operations of one register: `rev16`, `rev`.
    pub(crate) fn one(&mut self, op: u32, width: Width, rd: Gpr, rn: Gpr) {
        self.word_dn(op | wide(width), rd, rn);
    }

    pub(crate) fn mov(&mut self, width: Width, rd: Gpr, rm: Gpr) {
        self.three(Three::Orr, width, rd, Gpr::ZERO, rm);
    }

    /// `rd = value`, in as few instructions as moves of 16 bits allow.
    pub(crate) fn mov_imm(&mut self, rd: Gpr, value: u64) {
        const MOVZ: u32 = 0xd280_0000;
        const MOVN: u32 = 0x9280_0000;
        const MOVK: u32 = 0xf280_0000;
        let quarter = |at: u32| (value >> (16 * at)) as u32 & 0xffff;
        let count = |of: u32| (0..4).filter(|at| quarter(*at) == of).count();
        let mut move_quarter = |op: u32, at: u32, bits: u32| {
            self.word_dn(op | at << 21 | bits << 5, rd, Gpr(0));
        };
        // What the first instruction leaves everywhere else.
        let (first, rest) = if count(0xffff) > count(0) { (MOVN, 0xffff) } else { (MOVZ, 0) };
        let mut op = first;
        for at in (0..4).filter(|at| quarter(*at) != rest) {
            move_quarter(op, at, if op == MOVN { !quarter(at) & 0xffff } else { quarter(at) });
            op = MOVK;
        }
        if op == first {
            move_quarter(first, 0, 0);
        }
    }
}
