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
#[repr(u8)]
pub enum Reg {
    /// Result.
    #[default]
    R0 = 0,
    /// First argument.
    R1 = 1,
    /// Second argument.
    R2 = 2,
    /// Third argument.
    R3 = 3,
    /// Fourth argument.
    R4 = 4,
    /// Fifth argument.
    R5 = 5,
    /// Survives calls.
    R6 = 6,
    /// Survives calls.
    R7 = 7,
    /// Survives calls.
    R8 = 8,
    /// Survives calls.
    R9 = 9,
    /// End of the stack frame.
    R10 = 10,
}

impl Reg {
    /// Number of registers.
    pub const COUNT: usize = 11;

    /// All of them, by number.
    pub const ALL: [Reg; Reg::COUNT] =
        [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R6, Reg::R7, Reg::R8, Reg::R9, Reg::R10];

    /// Those that a program may write: all but `r10`.
    pub const WRITABLE: [Reg; 10] =
        [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R6, Reg::R7, Reg::R8, Reg::R9];

    /// The register of this number, if there is one.
    pub const fn new(number: u8) -> Option<Reg> {
        Some(match number {
            0 => Reg::R0,
            1 => Reg::R1,
            2 => Reg::R2,
            3 => Reg::R3,
            4 => Reg::R4,
            5 => Reg::R5,
            6 => Reg::R6,
            7 => Reg::R7,
            8 => Reg::R8,
            9 => Reg::R9,
            10 => Reg::R10,
            _ => return None,
        })
    }

    /// Its number in instructions, 0 to 10.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its number, for tables of registers.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl core::fmt::Display for Reg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "r{}", self.number())
    }
}

/// Bytes of an instruction (RFC 9669, section 3); 16-byte loads are two.
pub const INSN_BYTES: usize = 8;

/// One instruction, or one half of a 16-byte one, undecoded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insn {
    /// Class in the low three bits; of the others, operation and source or size and mode (RFC 9669, section 3.1).
    pub code: u8,
    /// Destination in the low four bits, source in the high ones.
    pub regs: u8,
    /// Offset, of memory or of a jump.
    pub off: i16,
    /// Signed constant, which 64-bit operations extend.
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
