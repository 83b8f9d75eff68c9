//! x86-64. See [`crate::arch`] for what each item is.

pub(crate) const MACHINE: object::elf::Machine = object::elf::EM_X86_64;
pub(crate) const MACHINE_NAME: &str = "x86-64";
