//! x86-64. See [`crate::arch`] for what each item is.

use crate::event::State;

pub(crate) const MACHINE: object::elf::Machine = object::elf::EM_X86_64;
pub(crate) const MACHINE_NAME: &str = "x86-64";

pub(crate) const SITE_BYTES: usize = 5;
/// The NOP of a site that is off.
const NOP: [u8; SITE_BYTES] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// First byte of the jump of a site that is on.
const JUMP: u8 = 0xe9;
/// First byte of a site that is being changed.
const BREAKPOINT: u8 = 0xcc;

pub(crate) fn state_of(bytes: [u8; SITE_BYTES]) -> State {
    match bytes {
        NOP => State::Off,
        [JUMP, ..] => State::On,
        [BREAKPOINT, ..] => State::Changing,
        _ => State::Foreign,
    }
}
