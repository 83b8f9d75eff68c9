//! x86-64.

mod convention;
mod copy;
mod entry;
mod reach;

pub(crate) use convention::{Arguments, declared, result};
pub(crate) use entry::{Candidate, Entry};
pub(crate) use reach::Reach;

use mote_layout::functions::{JUMP_BYTES, RECORD_AT};

/// Bytes of the smallest page.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the two cells before a body.
pub(crate) const BODY_AT: u64 = RECORD_AT;
/// Bodies lie at multiples of it, in bytes.
const ALIGNMENT: u64 = 16;
/// `call [rip - 14]`, by the cell that is 8 bytes before it: for code that returns.
const CALL: [u8; 6] = [0xff, 0x15, 0xf2, 0xff, 0xff, 0xff];
/// `push rax; lea rax, [rip + 6]; jmp [rip - 22]`: the same for code that has the copy behind it called by a stub.
const LEAD: [u8; 14] = [0x50, 0x48, 0x8d, 0x05, 0x06, 0x00, 0x00, 0x00, 0xff, 0x25, 0xea, 0xff, 0xff, 0xff];
/// `jmp rel32`.
const JUMP: u8 = 0xe9;
/// `int3`.
const TRAP: u8 = 0xcc;
/// Bytes that are no instruction in 64-bit mode, whatever follows (SDM vol. 2, PUSHA, POPA, AAS, AAA, DAS, DAA, POP,
/// PUSH): jumps of which they are the highest byte lead up, from 1.5 GiB on down.
const INVALID: [u8; 9] = [0x60, 0x61, 0x3f, 0x37, 0x2f, 0x27, 0x1f, 0x1e, 0x17];

/// Bytes of a jump to a body: `jmp [rip]`, and the address.
pub(crate) const STUB_BYTES: usize = 14;

/// The jump from a function at `from`.
pub(crate) fn jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let distance = to.wrapping_sub(from + JUMP_BYTES as u64);
    let [a, b, c, d, ..] = distance.to_le_bytes();
    [JUMP, a, b, c, d]
}

/// A breakpoint in the place of the first byte.
pub(crate) fn trap([_, b, c, d, e]: [u8; JUMP_BYTES]) -> [u8; JUMP_BYTES] {
    [TRAP, b, c, d, e]
}

/// The jump to a body, wherever that is.
pub(crate) fn stub(to: u64) -> [u8; STUB_BYTES] {
    let [a, b, c, d, e, f, g, h] = to.to_le_bytes();
    [0xff, 0x25, 0, 0, 0, 0, a, b, c, d, e, f, g, h]
}

/// A place from which the same is reached as from `address`, but not by short jumps.
pub(crate) fn some_place(address: u64) -> u64 {
    (address / ALIGNMENT * ALIGNMENT).wrapping_add(1 << 28)
}
