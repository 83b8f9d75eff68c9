//! Straight ways: what is executed from a place on while no conditional branch is taken.
//!
//! Compilers lay code out so that the usual way is a straight one. What lies on it is counted in the code as it was
//! linked, where a debugger cannot step through it: a restartable sequence begins anew when it is interrupted.

use super::LEN_MAX;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use thiserror::Error;

/// Most instructions of a way.
const INSTRUCTIONS_MAX: u32 = 10_000;

/// What a way leads through: 64-bit code, and pointers that it jumps by.
pub trait Memory {
    /// Copies the bytes from an address on; returns how many there are, at most as many as fit.
    fn code(&self, address: u64, to: &mut [u8; LEN_MAX]) -> usize;

    /// The pointer at an address, as it is when the program runs; nothing where that is not known.
    fn pointer(&self, address: u64) -> Option<u64>;
}

/// Why a way has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoWay {
    /// There is no code, or none that is an instruction.
    #[error("there is no code at {0:#x}")]
    NoCode(u64),
    /// An instruction that leads somewhere, and the code does not say where.
    #[error("where the instruction at {0:#x} leads is not known before it is executed")]
    Unknown(u64),
    /// It is longer than any: a loop, perhaps.
    #[error("it does not end within {INSTRUCTIONS_MAX} instructions")]
    Endless,
}

/// Goes from an address to the return of the function that it lies in, through whatever that calls; gives each
/// instruction to `each`. Returns how many there were.
///
/// # Errors
/// [`NoWay`].
pub fn straight(memory: &impl Memory, from: u64, mut each: impl FnMut(&Instruction)) -> Result<u32, NoWay> {
    let (mut at, mut callers) = (from, Vec::new());
    for count in 1..=INSTRUCTIONS_MAX {
        let mut bytes = [0; LEN_MAX];
        let length = memory.code(at, &mut bytes);
        let code = bytes.get(..length).unwrap_or_default();
        let instruction = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return Err(NoWay::NoCode(at));
        }
        each(&instruction);
        let leads_to = || destination(memory, &instruction).ok_or(NoWay::Unknown(instruction.ip()));
        at = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => at = leads_to()?,
            FlowControl::Call | FlowControl::IndirectCall => {
                callers.push(at);
                at = leads_to()?;
            }
            FlowControl::Return => match callers.pop() {
                Some(caller) => at = caller,
                None => return Ok(count),
            },
            _ => return Err(NoWay::Unknown(instruction.ip())),
        }
    }
    Err(NoWay::Endless)
}

/// Where a jump or call leads; one through memory goes by the table of the linker.
fn destination(memory: &impl Memory, instruction: &Instruction) -> Option<u64> {
    match instruction.op0_kind() {
        OpKind::NearBranch64 => Some(instruction.near_branch_target()),
        OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
            memory.pointer(instruction.ip_rel_memory_address())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code from 0x1000 on, and one pointer at 0x2000.
    struct Small(&'static [u8]);

    impl Memory for Small {
        fn code(&self, address: u64, to: &mut [u8; LEN_MAX]) -> usize {
            let from = usize::try_from(address.wrapping_sub(0x1000)).unwrap_or(usize::MAX);
            let rest = self.0.get(from..).unwrap_or_default();
            to.iter_mut().zip(rest).map(|(to, byte)| *to = *byte).count()
        }

        fn pointer(&self, address: u64) -> Option<u64> {
            (address == 0x2000).then_some(0x100d)
        }
    }

    #[track_caller]
    fn check(code: &'static [u8], expect: Result<u32, NoWay>) {
        assert_eq!(straight(&Small(code), 0x1000, |_| {}), expect);
    }

    #[test]
    fn ways_lead_through_calls_to_the_return() {
        // je behind it; call *0x2000(%rip); jmp over a hlt; ret; what is called: nop; ret
        check(&[0x74, 0x7f, 0xff, 0x15, 0xf8, 0x0f, 0, 0, 0xeb, 0x01, 0xf4, 0xc3, 0xf4, 0x90, 0xc3], Ok(6));
        check(&[0x90], Err(NoWay::NoCode(0x1001)));
        check(&[0xff, 0xe0], Err(NoWay::Unknown(0x1000)));
        check(&[0x90, 0x0f, 0x05], Err(NoWay::Unknown(0x1001)));
        check(&[0xeb, 0xfe], Err(NoWay::Endless));
    }
}
