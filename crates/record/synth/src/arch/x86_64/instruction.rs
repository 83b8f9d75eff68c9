//! Instructions as their ways out: what a trace writes for them (SDM 3C, 33.2.1), and where they may lead.

use crate::fact::Exit;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic, Register};

/// Bytes of the longest instruction.
pub(crate) const INSTRUCTION_MAX: usize = 15;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) length: u8,
    pub(crate) kind: Kind,
}

/// Where an instruction may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the next one.
    Plain,
    /// To the next one, after as many rounds as it takes: a string instruction with REP.
    Repeated,
    /// To this address.
    Jump(u64),
    /// To this address or the next instruction.
    Conditional(u64),
    Call(u64),
    IndirectCall,
    IndirectJump,
    Return,
    /// To the kernel, by itself: SYSCALL, SYSENTER, INT 80H.
    System,
    /// A far branch, IRET, SYSRET: anywhere.
    Far,
    /// To the next one, and its operand into the trace: PTWRITE.
    Data,
    /// To the next one, in another address space: MOV to CR3.
    MovCr3,
    /// To the kernel as a trap, which comes back behind it: INT3, INT1, INTO.
    Trap,
}

/// It does not lead there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeadsElsewhere;

impl Instruction {
    /// The instruction at the begin of `bytes`, in 64-bit code; `None` where there is none, or where they are too few.
    /// What is no branch and no way to the kernel that programs have is [`Kind::Plain`].
    pub(crate) fn decode(bytes: &[u8], ip: u64) -> Option<Instruction> {
        let decoded = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        if decoded.is_invalid() {
            return None;
        }
        let target = decoded.near_branch_target();
        let kind = match decoded.flow_control() {
            _ if is_system(&decoded) => Kind::System,
            _ if is_far(&decoded) => Kind::Far,
            FlowControl::UnconditionalBranch => Kind::Jump(target),
            FlowControl::ConditionalBranch => Kind::Conditional(target),
            FlowControl::Call => Kind::Call(target),
            FlowControl::IndirectCall => Kind::IndirectCall,
            FlowControl::IndirectBranch => Kind::IndirectJump,
            FlowControl::Return => Kind::Return,
            FlowControl::Interrupt => Kind::Trap,
            _ if decoded.is_string_instruction()
                && (decoded.has_rep_prefix() || decoded.has_repne_prefix()) =>
            {
                Kind::Repeated
            }
            _ if decoded.mnemonic() == Mnemonic::Ptwrite => Kind::Data,
            _ if decoded.mnemonic() == Mnemonic::Mov && decoded.op0_register() == Register::CR3 => {
                Kind::MovCr3
            }
            _ => Kind::Plain,
        };
        Some(Instruction { length: decoded.len() as u8, kind })
    }

    /// How it was left that is at `ip`, when the next instruction is at `to`. Of a conditional jump to the next
    /// instruction is not known whether it was taken, and said that it was not. Not for [`Kind::Trap`]; of
    /// [`Kind::MovCr3`] the value is to be said by the caller.
    pub(crate) fn exit(&self, ip: u64, to: u64) -> Result<Exit, LeadsElsewhere> {
        let next = ip.wrapping_add(u64::from(self.length));
        let exit = match self.kind {
            Kind::Plain | Kind::Repeated | Kind::Data | Kind::MovCr3 if to == next => Exit::Plain,
            Kind::Jump(target) if to == target => Exit::Plain,
            Kind::Conditional(_) if to == next => Exit::Conditional { is_taken: false },
            Kind::Conditional(target) if to == target => Exit::Conditional { is_taken: true },
            Kind::Call(target) if to == target => Exit::Call { back: next },
            Kind::IndirectCall => Exit::IndirectCall { back: next },
            Kind::IndirectJump => Exit::IndirectJump,
            Kind::Return => Exit::Return,
            Kind::System => Exit::System,
            Kind::Far => Exit::Far,
            _ => return Err(LeadsElsewhere),
        };
        Ok(exit)
    }

    /// Whether a thread that has executed it may be where it was.
    pub(crate) fn leads_to_itself(&self, ip: u64) -> bool {
        matches!(self.kind, Kind::Jump(target) | Kind::Conditional(target) if target == ip)
    }
}

/// Whether it leads to the kernel by itself; iced has them as calls.
fn is_system(decoded: &iced_x86::Instruction) -> bool {
    let is_int80 = decoded.code() == Code::Int_imm8 && decoded.immediate8() == 0x80;
    is_int80 || matches!(decoded.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter)
}

fn is_far(decoded: &iced_x86::Instruction) -> bool {
    use iced_x86::OpKind::{FarBranch16, FarBranch32};
    matches!(decoded.op0_kind(), FarBranch16 | FarBranch32)
        || decoded.is_call_far_indirect()
        || decoded.is_jmp_far_indirect()
        || matches!(
            decoded.mnemonic(),
            Mnemonic::Retf
                | Mnemonic::Iret
                | Mnemonic::Iretd
                | Mnemonic::Iretq
                | Mnemonic::Sysret
                | Mnemonic::Sysretq
                | Mnemonic::Sysexit
                | Mnemonic::Sysexitq
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], kind: Kind) {
        let decoded =
            Instruction::decode(bytes, 0x1000).map(|decoded| (decoded.kind, decoded.length as usize));
        assert_eq!(decoded, Some((kind, bytes.len())));
    }

    #[test]
    fn kinds() {
        check(&[0x90], Kind::Plain);
        check(&[0xf3, 0xa4], Kind::Repeated);
        check(&[0xf2, 0xae], Kind::Repeated);
        check(&[0xa4], Kind::Plain);
        // PAUSE, ENDBR64 and a return with a prefix have F3, and do not repeat.
        check(&[0xf3, 0x90], Kind::Plain);
        check(&[0xf3, 0x0f, 0x1e, 0xfa], Kind::Plain);
        check(&[0xf3, 0xc3], Kind::Return);
        check(&[0xeb, 0xfe], Kind::Jump(0x1000));
        check(&[0x74, 0x02], Kind::Conditional(0x1004));
        check(&[0xe3, 0x00], Kind::Conditional(0x1002));
        check(&[0xe2, 0x00], Kind::Conditional(0x1002));
        check(&[0xe8, 0, 0, 0, 0], Kind::Call(0x1005));
        check(&[0xff, 0xd0], Kind::IndirectCall);
        check(&[0xff, 0x25, 0, 0, 0, 0], Kind::IndirectJump);
        check(&[0xc3], Kind::Return);
        check(&[0xc2, 8, 0], Kind::Return);
        check(&[0x0f, 0x05], Kind::System);
        check(&[0xcd, 0x80], Kind::System);
        check(&[0xcc], Kind::Trap);
        check(&[0xcb], Kind::Far);
        check(&[0x48, 0xcf], Kind::Far);
        check(&[0x48, 0x0f, 0x07], Kind::Far);
        check(&[0xff, 0x28], Kind::Far);
        check(&[0xf3, 0x0f, 0xae, 0xe0], Kind::Data);
        check(&[0x0f, 0x22, 0xdf], Kind::MovCr3);
        check(&[0x0f, 0x22, 0xc7], Kind::Plain);
        // What is cut off.
        assert_eq!(Instruction::decode(&[0x0f], 0), None);
        assert_eq!(Instruction::decode(&[], 0), None);
    }

    #[test]
    fn ways_out() {
        let jcc = Instruction { length: 2, kind: Kind::Conditional(0x1010) };
        assert_eq!(jcc.exit(0x1000, 0x1010), Ok(Exit::Conditional { is_taken: true }));
        assert_eq!(jcc.exit(0x1000, 0x1002), Ok(Exit::Conditional { is_taken: false }));
        assert_eq!(jcc.exit(0x1000, 0x1003), Err(LeadsElsewhere));
        let call = Instruction { length: 5, kind: Kind::Call(0x1010) };
        assert_eq!(call.exit(0x1000, 0x1010), Ok(Exit::Call { back: 0x1005 }));
        let plain = Instruction { length: 5, kind: Kind::Plain };
        assert_eq!(plain.exit(0x1000, 0x1000), Err(LeadsElsewhere));
    }
}
