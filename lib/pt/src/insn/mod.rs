//! Instructions as a trace sees them: how long one is, and what it does to the flow (SDM 33.2.1, "COFI").
//!
//! [`decode`] classifies one instruction, [`Graph`] keeps whole runs of them, decoded once. [`straight`] follows code
//! without a trace.

mod graph;
mod kind;
mod straight;
mod table;

pub use graph::{Block, Fault, Graph, INSTRUCTIONS_MAX};
pub(crate) use graph::{Context, NONE, Node};
pub use kind::Kind;
pub use straight::{Memory, NoWay, straight};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use thiserror::Error;

/// The mode of execution that decides what the bytes of an instruction mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// 64-bit code.
    #[default]
    Bits64,
    /// 32-bit code: of protected mode, or in compatibility mode.
    Bits32,
    /// 16-bit code.
    Bits16,
}

impl Mode {
    /// The width of addresses and operands, in bits.
    pub fn bits(self) -> u32 {
        match self {
            Mode::Bits64 => 64,
            Mode::Bits32 => 32,
            Mode::Bits16 => 16,
        }
    }
}

/// What an instruction does to the flow, and so what packets say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// The next instruction follows.
    #[default]
    Sequential,
    /// Jcc, J*CXZ or LOOP: a TNT bit.
    Conditional,
    /// A direct JMP: no packet.
    Jump,
    /// A direct near CALL: no packet.
    Call,
    /// A direct near CALL of the instruction behind it, which no RET belongs to: it has no place among the calls whose
    /// returns are compressed (SDM 33.4.2.2).
    CallNext,
    /// JMP by a register or memory: a TIP.
    IndirectJump,
    /// CALL by a register or memory: a TIP.
    IndirectCall,
    /// A near RET: a TNT bit where it is compressed, otherwise a TIP.
    Return,
    /// A far transfer, among them system calls, software interrupts, and entries of virtual machines: a TIP, and a FUP
    /// before it if it is an interrupt.
    Far,
    /// PTWRITE: the next instruction follows, and a PTW packet tells its operand.
    Ptwrite,
    /// MOV to CR3: the next instruction follows, in another address space, which a PIP packet names.
    MovCr3,
    /// UD0, UD1 or UD2: always an exception.
    Exception,
}

impl Class {
    /// Whether a packet says where it leads to: a TNT bit, or an address.
    #[inline]
    #[must_use]
    pub fn has_packet(self) -> bool {
        self == Class::Conditional || self.needs_address()
    }

    /// Whether that packet has an address (TIP); that of a return has none where it is compressed.
    #[inline]
    #[must_use]
    pub fn needs_address(self) -> bool {
        match self {
            Class::IndirectJump | Class::IndirectCall | Class::Return | Class::Far => true,
            Class::Sequential | Class::Conditional | Class::Jump | Class::Call | Class::CallNext => false,
            Class::Ptwrite | Class::MovCr3 | Class::Exception => false,
        }
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Its length in bytes, 1 to 15.
    pub len: u8,
    /// What it does to the flow.
    pub class: Class,
    /// Where a direct branch leads to, if it is taken; 0 for others.
    pub target: u64,
}

/// Bytes that are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoInsn {
    /// The bytes end within the instruction.
    #[error("the bytes end within an instruction")]
    Short,
    /// No processor has such an instruction.
    #[error("the bytes are no instruction")]
    Invalid,
}

/// The longest instruction, in bytes.
pub const LEN_MAX: usize = 15;

/// The instruction that `bytes` begin with, at `address`.
///
/// # Errors
/// The bytes are no instruction, or not a whole one.
pub fn decode(mode: Mode, address: u64, bytes: &[u8]) -> Result<Insn, NoInsn> {
    decode_kind(mode, address, bytes).map(|(insn, _)| insn)
}

/// The same, with what else is said of it in short.
fn decode_kind(mode: Mode, address: u64, bytes: &[u8]) -> Result<(Insn, Kind), NoInsn> {
    let mut decoder = Decoder::with_ip(mode.bits(), bytes, address, DecoderOptions::NONE);
    let mut insn = Instruction::default();
    decoder.decode_out(&mut insn);
    match decoder.last_error() {
        iced_x86::DecoderError::None => {}
        iced_x86::DecoderError::NoMoreBytes if bytes.len() < LEN_MAX => return Err(NoInsn::Short),
        _ => return Err(NoInsn::Invalid),
    }
    let mut class = classify(&insn);
    let target = match class {
        Class::Conditional | Class::Jump | Class::Call => target(mode, address, &insn),
        _ => 0,
    };
    if class == Class::Call && target == next(mode, address, insn.len()) {
        class = Class::CallNext;
    }
    Ok((Insn { len: insn.len() as u8, class, target }, Kind::of(&insn)))
}

/// The address behind an instruction, as processors compute it in a mode.
fn next(mode: Mode, address: u64, len: usize) -> u64 {
    let next = address.wrapping_add(len as u64);
    if mode == Mode::Bits64 { next } else { next & 0xffff_ffff }
}

/// Where a direct branch leads to.
fn target(mode: Mode, address: u64, insn: &Instruction) -> u64 {
    match insn.op0_kind() {
        // The offset within 64 KiB; the code segment's base is part of an address.
        OpKind::NearBranch16 if mode == Mode::Bits16 => address & 0xffff_0000 | insn.near_branch_target(),
        _ => insn.near_branch_target(),
    }
}

fn classify(insn: &Instruction) -> Class {
    match insn.flow_control() {
        FlowControl::Next => sequential(insn),
        // If there is an overflow, that is an interrupt with a FUP.
        FlowControl::Interrupt if insn.mnemonic() == Mnemonic::Into => Class::Sequential,
        FlowControl::XbeginXabortXend => Class::Sequential,
        FlowControl::ConditionalBranch => Class::Conditional,
        FlowControl::UnconditionalBranch if insn.is_jmp_short_or_near() => Class::Jump,
        FlowControl::IndirectBranch if insn.is_jmp_near_indirect() => Class::IndirectJump,
        FlowControl::Return if insn.mnemonic() == Mnemonic::Ret => Class::Return,
        FlowControl::Call => call(insn),
        FlowControl::IndirectCall if insn.is_call_near_indirect() => Class::IndirectCall,
        FlowControl::Exception => Class::Exception,
        _ => Class::Far,
    }
}

/// What is called a call by its control flow: near calls, system calls, and calls of a hypervisor.
fn call(insn: &Instruction) -> Class {
    match insn.mnemonic() {
        Mnemonic::Call if insn.is_call_near() => Class::Call,
        Mnemonic::Call | Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Vmlaunch | Mnemonic::Vmresume => {
            Class::Far
        }
        // VMCALL, VMFUNC, SEAMCALL and others: if the processor leaves the guest, that is an event with a FUP.
        _ => Class::Sequential,
    }
}

fn sequential(insn: &Instruction) -> Class {
    match insn.code() {
        Code::Ptwrite_rm32 | Code::Ptwrite_rm64 => Class::Ptwrite,
        Code::Mov_cr_r32 | Code::Mov_cr_r64 if insn.op0_register() == Register::CR3 => Class::MovCr3,
        _ => Class::Sequential,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: Mode, bytes: &[u8], expect: (u8, Class, u64)) {
        let (len, class, target) = expect;
        assert_eq!(decode(mode, 0x1000, bytes), Ok(Insn { len, class, target }), "{bytes:02x?}");
    }

    #[test]
    fn instructions_have_classes() {
        use Class::*;
        let rows: &[(&[u8], _)] = &[
            (&[0x90], (1, Sequential, 0)),                           // nop
            (&[0x0f, 0xa2], (2, Sequential, 0)),                     // cpuid
            (&[0xf4], (1, Sequential, 0)),                           // hlt
            (&[0x74, 0x10], (2, Conditional, 0x1012)),               // je
            (&[0x0f, 0x85, 0, 1, 0, 0], (6, Conditional, 0x1106)),   // jne
            (&[0xe3, 0xfe], (2, Conditional, 0x1000)),               // jrcxz
            (&[0xe2, 0xfe], (2, Conditional, 0x1000)),               // loop
            (&[0xe0, 0x00], (2, Conditional, 0x1002)),               // loopne
            (&[0xeb, 0xfe], (2, Jump, 0x1000)),                      // jmp short
            (&[0xe9, 0, 1, 0, 0], (5, Jump, 0x1105)),                // jmp near
            (&[0xe8, 1, 0, 0, 0], (5, Call, 0x1006)),                // call
            (&[0xe8, 0, 0, 0, 0], (5, CallNext, 0x1005)),            // call of the next instruction
            (&[0x66, 0xe8, 0, 0, 0, 0], (6, CallNext, 0x1006)),      // with a prefix that is ignored
            (&[0xff, 0xe0], (2, IndirectJump, 0)),                   // jmp rax
            (&[0x3e, 0xff, 0xe0], (3, IndirectJump, 0)),             // notrack jmp rax
            (&[0xff, 0x25, 0, 0, 0, 0], (6, IndirectJump, 0)),       // jmp [rip]
            (&[0xff, 0xd0], (2, IndirectCall, 0)),                   // call rax
            (&[0xff, 0x14, 0x25, 0, 0, 0, 0], (7, IndirectCall, 0)), // call [0]
            (&[0xc3], (1, Return, 0)),                               // ret
            (&[0xc2, 8, 0], (3, Return, 0)),                         // ret 8
            (&[0xf3, 0xc3], (2, Return, 0)),                         // rep ret
            (&[0xcb], (1, Far, 0)),                                  // retf
            (&[0x48, 0xcf], (2, Far, 0)),                            // iretq
            (&[0xff, 0x18], (2, Far, 0)),                            // call far [rax]
            (&[0xff, 0x28], (2, Far, 0)),                            // jmp far [rax]
            (&[0x0f, 0x05], (2, Far, 0)),                            // syscall
            (&[0x48, 0x0f, 0x07], (3, Far, 0)),                      // sysretq
            (&[0x0f, 0x34], (2, Far, 0)),                            // sysenter
            (&[0x0f, 0x35], (2, Far, 0)),                            // sysexit
            (&[0xcc], (1, Far, 0)),                                  // int3
            (&[0xcd, 0x80], (2, Far, 0)),                            // int 0x80
            (&[0xf1], (1, Far, 0)),                                  // int1
            (&[0x0f, 0x01, 0xc2], (3, Far, 0)),                      // vmlaunch
            (&[0x0f, 0x01, 0xc3], (3, Far, 0)),                      // vmresume
            (&[0x0f, 0x01, 0xc1], (3, Sequential, 0)),               // vmcall
            (&[0x0f, 0xaa], (2, Far, 0)),                            // rsm
            (&[0xf3, 0x0f, 0x01, 0xec], (4, Far, 0)),                // uiret
            (&[0xf3, 0x48, 0x0f, 0xae, 0xe0], (5, Ptwrite, 0)),      // ptwrite rax
            (&[0x0f, 0x22, 0xd8], (3, MovCr3, 0)),                   // mov cr3, rax
            (&[0xc7, 0xf8, 0, 0, 0, 0], (6, Sequential, 0)),         // xbegin
            (&[0x0f, 0x0b], (2, Exception, 0)),                      // ud2
        ];
        for &(bytes, expect) in rows {
            check(Mode::Bits64, bytes, expect);
        }
        check(Mode::Bits64, &[0x0f, 0x22, 0xe0], (3, Sequential, 0)); // mov cr4, rax
        check(Mode::Bits64, &[0x0f, 0x01, 0xd5], (3, Sequential, 0)); // xend
    }

    #[test]
    fn other_modes_have_other_targets() {
        check(Mode::Bits32, &[0xce], (1, Class::Sequential, 0)); // into
        check(Mode::Bits32, &[0xea, 0, 0, 0, 0, 8, 0], (7, Class::Far, 0)); // jmp far
        check(Mode::Bits32, &[0x9a, 0, 0, 0, 0, 8, 0], (7, Class::Far, 0)); // call far
        check(Mode::Bits32, &[0xe9, 0xfb, 0xef, 0xff, 0xff], (5, Class::Jump, 0)); // jmp 0
        check(Mode::Bits32, &[0xe9, 0xfa, 0xef, 0xff, 0xff], (5, Class::Jump, 0xffff_ffff));
        check(Mode::Bits16, &[0xe9, 0, 1], (3, Class::Jump, 0x1103));
        check(Mode::Bits16, &[0xe8, 0, 0], (3, Class::CallNext, 0x1003));
        check(Mode::Bits16, &[0x66, 0xe9, 0, 1, 0, 0], (6, Class::Jump, 0x1106));
        // Within its 64 KiB.
        let jump = decode(Mode::Bits16, 0xf_fffe, &[0xeb, 2]);
        assert_eq!(jump, Ok(Insn { len: 2, class: Class::Jump, target: 0xf_0002 }));
    }

    #[test]
    fn what_is_no_instruction_is_refused() {
        assert_eq!(decode(Mode::Bits64, 0, &[]), Err(NoInsn::Short));
        assert_eq!(decode(Mode::Bits64, 0, &[0xe8, 0]), Err(NoInsn::Short));
        assert_eq!(decode(Mode::Bits64, 0, &[0x06, 0, 0]), Err(NoInsn::Invalid)); // push es
        assert_eq!(decode(Mode::Bits64, 0, &[0x66; 15]), Err(NoInsn::Invalid));
    }
}
