//! An instruction as it is stored: 8 bytes (RFC 9669, section 3).

/// A register: `r0` to `r10`.
///
/// | register | use |
/// |---|---|
/// | `r0` | result of calls and of the program |
/// | `r1` to `r5` | arguments of calls; `r1` (and `r2`) when the program starts |
/// | `r6` to `r9` | survive calls |
/// | `r10` | end of the stack frame, read-only |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(u8);

impl Reg {
    /// Result.
    pub const R0: Reg = Reg(0);
    /// First argument.
    pub const R1: Reg = Reg(1);
    /// Second argument.
    pub const R2: Reg = Reg(2);
    /// Third argument.
    pub const R3: Reg = Reg(3);
    /// Fourth argument.
    pub const R4: Reg = Reg(4);
    /// Fifth argument.
    pub const R5: Reg = Reg(5);
    /// Survives calls.
    pub const R6: Reg = Reg(6);
    /// Survives calls.
    pub const R7: Reg = Reg(7);
    /// Survives calls.
    pub const R8: Reg = Reg(8);
    /// Survives calls.
    pub const R9: Reg = Reg(9);
    /// End of the stack frame.
    pub const R10: Reg = Reg(10);
    /// How many there are.
    pub const COUNT: usize = 11;

    /// The register of this number, if there is one.
    pub const fn new(number: u8) -> Option<Reg> {
        if number < Reg::COUNT as u8 { Some(Reg(number)) } else { None }
    }

    /// 0 to 10.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl core::fmt::Display for Reg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// Bytes of an instruction.
pub const INSN_BYTES: usize = 8;

/// One instruction, or one half of a 16-byte one, undecoded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insn {
    /// Class, operation, source.
    pub code: u8,
    /// Destination in the low four bits, source in the high ones.
    pub regs: u8,
    /// Offset, of memory or of a jump.
    pub off: i16,
    /// Constant.
    pub imm: i32,
}

impl Insn {
    /// From its parts; of the register numbers the low four bits count.
    pub const fn new(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
        Insn { code, regs: dst & 15 | src << 4, off, imm }
    }

    /// Number in the destination field.
    pub const fn dst(self) -> u8 {
        self.regs & 15
    }

    /// Number in the source field.
    pub const fn src(self) -> u8 {
        self.regs >> 4
    }

    /// From 8 bytes, little-endian.
    pub const fn from_bytes(b: [u8; INSN_BYTES]) -> Insn {
        Insn {
            code: b[0],
            regs: b[1],
            off: i16::from_le_bytes([b[2], b[3]]),
            imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// As 8 bytes, little-endian.
    pub const fn to_bytes(self) -> [u8; INSN_BYTES] {
        let off = self.off.to_le_bytes();
        let imm = self.imm.to_le_bytes();
        [self.code, self.regs, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
    }
}
