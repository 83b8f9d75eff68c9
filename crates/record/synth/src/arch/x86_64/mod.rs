//! x86-64. See [`crate::arch`] for what each item is.

mod event;
mod instruction;
mod registers;

pub(crate) use event::{PAGE, is_fault};
pub(crate) use instruction::{INSTRUCTION_MAX, Instruction, Kind};
pub(crate) use registers::Registers;

/// The emulator of a program, and that of a machine.
pub(crate) const QEMU: &str = "qemu-x86_64";
pub(crate) const QEMU_SYSTEM: &str = "qemu-system-x86_64";
/// `e_machine` of ELF files: `EM_X86_64` (ELF for x86-64, 4.1).
pub(crate) const ELF_MACHINE: u16 = 62;
