//! x86-64. See [`crate::arch`] for what each item is.

mod operand;
mod register;

pub(crate) use operand::operand;
pub(crate) use register::{ARGUMENTS, IP, RETURNED, SP};

pub(crate) const MACHINE: object::Architecture = object::Architecture::X86_64;
pub(crate) const NAME: &str = "x86-64";

/// Directories that the dynamic linker looks into without being told (ld.so(8)), and Debian's.
pub(crate) const LIBRARIES: [&str; 6] =
    ["/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"];

/// Words of the arguments that are passed on the stack begin behind the return address.
pub(crate) const STACK_ARGUMENTS: i64 = 8;
