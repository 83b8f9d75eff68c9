//! Instructions that call hooks, jump to them, or take their addresses.
//!
//! | what compilers and linkers make | bytes | becomes |
//! |---|---|---|
//! | `call hook`, also by an entry of the PLT | `e8 rel32` | a NOP |
//! | `call *hook@GOTPCREL(%rip)` | `ff 15 rel32` | a NOP |
//! | the same, once the linker knows where the hook is | `67 e8 rel32` | a NOP |
//! | `jmp hook`, `jmp *hook@GOTPCREL(%rip)` | `e9 rel32`, `ff 25 rel32` | a return and a NOP |
//! | `jcc hook`; `mov hook@GOTPCREL(%rip), reg`, `lea hook(%rip), reg`, `mov $hook, reg` | | stays |

use crate::binary::Code as Section;
use crate::hooks::Hooks;
use crate::site::{Left, Site, Why};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use mote_probelist::{Kind, Was};

/// What an instruction does with a hook.
enum Use {
    Reaches(Was),
    Leaves(Why),
}

/// Finds those of a section, which is decoded anew from each address at which something begins.
pub(crate) fn uses(
    section: &Section<'_>,
    begins: &[u64],
    hooks: &Hooks<'_, '_>,
    sites: &mut Vec<Site>,
    left: &mut Vec<Left>,
) {
    if hooks.is_empty() || section.is_linkage {
        return;
    }
    let mut at = section.address;
    let mut next = begins.get(begins.partition_point(|begin| *begin <= at)..).unwrap_or_default().iter();
    while at < section.end() {
        let until = next.next().map_or(section.end(), |begin| (*begin).min(section.end()));
        let bytes = section.from(at).unwrap_or_default();
        let len = usize::try_from(until - at).unwrap_or(usize::MAX).min(bytes.len());
        let mut decoder =
            Decoder::with_ip(64, bytes.get(..len).unwrap_or_default(), at, DecoderOptions::NONE);
        let mut one = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut one);
            let found = of(&one, section, hooks);
            let Some((kind, made)) = found.filter(|(kind, _)| !hooks.is_at(*kind, one.ip())) else {
                continue;
            };
            let (address, size) = (one.ip(), one.len() as u64);
            match made {
                Use::Reaches(was) => sites.push(Site { address, size, kind, was, event: None }),
                Use::Leaves(why) => left.push(Left { address, kind, why }),
            }
        }
        at = until;
    }
}

/// What an instruction does with which hook.
fn of(one: &Instruction, section: &Section<'_>, hooks: &Hooks<'_, '_>) -> Option<(Kind, Use)> {
    let direct = || hooks.function_at(one.near_branch_target());
    let by_slot = || hooks.in_slot(slot(one)?);
    match one.flow_control() {
        FlowControl::Call => Some((direct()?, Use::Reaches(Was::Call))),
        FlowControl::UnconditionalBranch => Some((direct()?, Use::Reaches(Was::Jump))),
        FlowControl::ConditionalBranch => Some((direct()?, Use::Leaves(Why::Conditional))),
        FlowControl::IndirectCall => Some((by_slot()?, Use::Reaches(Was::Call))),
        FlowControl::IndirectBranch => Some((by_slot()?, Use::Reaches(Was::Jump))),
        _ => Some((taken(one, section, hooks)?, Use::Leaves(Why::Address))),
    }
}

/// The word of memory through which an instruction calls or jumps, or which it loads; `None` when a register decides.
fn slot(one: &Instruction) -> Option<u64> {
    let is_memory = (0..one.op_count()).any(|operand| one.op_kind(operand) == OpKind::Memory);
    let is_plain = one.memory_index() == Register::None
        && one.segment_prefix() == Register::None
        && matches!(one.memory_base(), Register::None | Register::RIP | Register::EIP);
    (is_memory && is_plain).then(|| one.memory_displacement64())
}

/// The hook whose address an instruction takes.
fn taken(one: &Instruction, section: &Section<'_>, hooks: &Hooks<'_, '_>) -> Option<Kind> {
    if let Some(address) = slot(one) {
        return match one.mnemonic() {
            Mnemonic::Lea => hooks.function_at(address),
            Mnemonic::Nop => None,
            _ => hooks.in_slot(address),
        };
    }
    let is_large = |kind| matches!(kind, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64);
    let mut operands = (0..one.op_count()).filter(|operand| is_large(one.op_kind(*operand)));
    // Code that can be loaded anywhere holds no addresses.
    let number = one.immediate(operands.next().filter(|_| section.is_fixed)?);
    hooks.function_at(number)
}

/// The entries of a table of the linker that lead to hooks: `jmp *slot`, perhaps behind `endbr64`. `in_slot` knows the
/// hook whose address is in a word.
pub(crate) fn thunks(section: &Section<'_>, in_slot: impl Fn(u64) -> Option<Kind>) -> Vec<(u64, Kind)> {
    let mut decoder = Decoder::with_ip(64, section.bytes, section.address, DecoderOptions::NONE);
    let (mut one, mut landing, mut thunks) = (Instruction::default(), None, Vec::new());
    while decoder.can_decode() {
        decoder.decode_out(&mut one);
        if one.flow_control() == FlowControl::IndirectBranch
            && let Some(kind) = slot(&one).and_then(&in_slot)
        {
            thunks.push((landing.unwrap_or(one.ip()), kind));
        }
        landing = (one.code() == Code::Endbr64).then_some(one.ip());
    }
    thunks
}
