//! Copies of instructions that do elsewhere what they did where they were.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions as Options, Code, FlowControl, Instruction, InstructionBlock,
    MemoryOperand, Register,
};
use mote_functions::ends;

/// Code that was moved.
pub(crate) struct Copy {
    pub(crate) bytes: Vec<u8>,
    /// Where each instruction's copy begins.
    pub(crate) offsets: Vec<u64>,
}

/// Where no code is: the name of the address to which a call returns, among the instructions of a block.
const RETURN_ADDRESS: u64 = 1;

/// The code at `at` that does what these instructions do, and goes on behind them. `None` when there is none: what they
/// name is not within reach, or one that is not the last calls something.
pub(crate) fn copy(instructions: &[Instruction], at: u64) -> Option<Copy> {
    let (last, before) = instructions.split_last()?;
    let mut block = before.to_vec();
    if block.iter().any(is_call) {
        return None;
    }
    match last {
        last if is_call(last) => block.extend(call(last)?),
        last if ends(last) => block.push(*last),
        last => block.extend([*last, Instruction::with_branch(Code::Jmp_rel32_64, last.next_ip()).ok()?]),
    }
    // What names one of them means the original: it has no place in the block.
    block.iter_mut().filter(|one| !is_data(one)).for_each(|one| one.set_ip(0));
    let block = InstructionBlock::new(&block, at);
    let encoded = BlockEncoder::encode(64, block, Options::RETURN_NEW_INSTRUCTION_OFFSETS).ok()?;
    let offsets: Vec<u64> =
        encoded.new_instruction_offsets.iter().take(instructions.len()).copied().map(u64::from).collect();
    // One that became several has no offset.
    let has_all = offsets.iter().skip(1).all(|offset| *offset != u64::from(u32::MAX));
    has_all.then_some(Copy { bytes: encoded.code_buffer, offsets })
}

fn is_data(instruction: &Instruction) -> bool {
    instruction.code() == Code::DeclareQword
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

/// A call that returns to where it did: unwinding needs to find the function there. It pushes the address and jumps.
fn call(instruction: &Instruction) -> Option<[Instruction; 3]> {
    let jump = match instruction.code() {
        Code::Call_rel32_64 => {
            Instruction::with_branch(Code::Jmp_rel32_64, instruction.near_branch_target()).ok()?
        }
        Code::Call_rm64 if !names_stack(instruction) => {
            let mut jump = *instruction;
            jump.set_code(Code::Jmp_rm64);
            jump
        }
        _ => return None,
    };
    let cell = MemoryOperand::with_base_displ(Register::RIP, RETURN_ADDRESS.cast_signed());
    let push = Instruction::with1(Code::Push_rm64, cell).ok()?;
    let mut address = Instruction::try_with_declare_qword_1(instruction.next_ip()).ok()?;
    address.set_ip(RETURN_ADDRESS);
    Some([push, jump, address])
}

/// Whether where it leads depends on the stack pointer, which the push changes.
fn names_stack(instruction: &Instruction) -> bool {
    instruction.memory_base() == Register::RSP || instruction.op0_register() == Register::RSP
}
