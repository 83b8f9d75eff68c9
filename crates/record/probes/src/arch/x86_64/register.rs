//! Registers of x86-64: where the kernel keeps them while a program is interrupted (`struct pt_regs`), and by which
//! names operands call their parts.

/// Offset of `ip` in `struct pt_regs`.
pub(crate) const IP: u16 = 128;
/// Offset of `sp`.
pub(crate) const SP: u16 = 152;
/// Offset of what a function returns: rax.
pub(crate) const RETURNED: u16 = 80;
/// Offsets of the registers of the first six arguments, in their order: rdi, rsi, rdx, rcx, r8, r9.
pub(crate) const ARGUMENTS: [u16; 6] = [112, 104, 96, 88, 72, 64];

/// The registers with names of their own: the one of 64 bits, and its parts of 32, 16 and 8 bits.
const NAMED: [([&str; 4], u16); 8] = [
    (["rax", "eax", "ax", "al"], 80),
    (["rbx", "ebx", "bx", "bl"], 40),
    (["rcx", "ecx", "cx", "cl"], 88),
    (["rdx", "edx", "dx", "dl"], 96),
    (["rsi", "esi", "si", "sil"], 104),
    (["rdi", "edi", "di", "dil"], 112),
    (["rbp", "ebp", "bp", "bpl"], 32),
    (["rsp", "esp", "sp", "spl"], SP),
];

/// Offset of r8 and those behind it.
const NUMBERED: [u16; 8] = [72, 64, 56, 48, 24, 16, 8, 0];

/// Offset in `struct pt_regs` of the register with this name (without `%`), whose low bits are meant; `None` for those
/// that the kernel does not show (`xmm0`) and for the second bytes (`ah`).
pub(crate) fn offset(name: &str) -> Option<u16> {
    if let Some((_, offset)) = NAMED.iter().find(|(names, _)| names.contains(&name)) {
        return Some(*offset);
    }
    let number = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']);
    let number: usize = number.parse().ok()?;
    NUMBERED.get(number.checked_sub(8)?).copied()
}
