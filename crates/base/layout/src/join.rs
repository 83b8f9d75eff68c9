//! How a process that runs already is asked to join a recording: what a recorder finds in a binary that carries mote,
//! and the words that both sides share.
//!
//! Section `mote_join` says where the code is that a thread is sent to, and where its memory is (`probe/src/join.rs`,
//! `inject`). Both are the binary's own; the memory is one for each copy of mote, and takes no page before it is used.
//!
//! # Who writes what
//! The recorder writes the place, the kind, and then the nonce; a thread that comes with another nonce in `r11` does
//! nothing. The process's side sets `BUSY` while a thread is on the stack that the memory's end is, and writes the
//! answer, and then `ANSWERED`, if the nonce is still its own.

/// Name of the ELF section that holds the [`JoinRecord`].
pub const SECTION: &str = "mote_join";
/// Version of all of this.
pub const VERSION: u32 = 2;
/// Bytes of the section's record.
pub const RECORD_BYTES: usize = 12;

/// Not 0 while a thread is on the memory's stack (32 bits).
pub const BUSY: usize = 0;
/// Which join it is (64 bits); 0 for none.
pub const NONCE: usize = 8;
/// With which error the kernel has interrupted the thread's call, above 0 (64 bits).
pub const KIND: usize = 16;
/// The join that is answered (64 bits).
pub const ANSWERED: usize = 24;
/// The answer: 0, or an error number below 0 (64 bits).
pub const ANSWER: usize = 32;
/// Where the session is, as in the environment, NUL-terminated.
pub const PLACE: usize = 40;
/// Bytes for the place, with its NUL.
pub const PLACE_BYTES: usize = 256;
/// Bytes of all words at the memory's start.
pub const WORDS_BYTES: usize = PLACE + PLACE_BYTES;
/// Bytes of the whole memory; its end is the stack.
pub const AREA_BYTES: usize = 64 << 10;

/// The instruction that enters the kernel.
pub const SYSCALL: [u8; RESTART_BYTES as usize] = crate::arch::SYSCALL_INSTRUCTION;

/// Bytes of code before the instruction that a thread is sent to: the length of [`SYSCALL`], which the kernel goes back
/// by when it begins an interrupted call again.
pub const RESTART_BYTES: u64 = crate::arch::SYSCALL_INSTRUCTION.len() as u64;

/// The kernel's answers for a call that was interrupted and is to be begun again (`linux/errno.h`), as they stand in
/// `rax`, without the sign.
pub mod restart {
    /// `ERESTARTSYS`: again, but after a handler without `SA_RESTART`.
    pub const SYS: u64 = 512;
    /// `ERESTARTNOINTR`: begun again in any case.
    pub const NOINTR: u64 = 513;
    /// `ERESTARTNOHAND`: again, but after a handler.
    pub const NOHAND: u64 = 514;
    /// `ERESTART_RESTARTBLOCK`: by restart_syscall(2), with the time that was left, but after a handler.
    pub const RESTARTBLOCK: u64 = 516;
}

/// The record in the section: offsets from their own places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRecord {
    /// [`VERSION`] of these words and of the record.
    pub version: u32,
    /// Distance to the code that a thread is sent to.
    pub code: i32,
    /// Distance to the memory of [`AREA_BYTES`].
    pub area: i32,
}

impl JoinRecord {
    /// Reads a record as it lies in memory or in the file.
    pub fn from_bytes(bytes: [u8; RECORD_BYTES]) -> JoinRecord {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        JoinRecord {
            version: u32::from_le_bytes([a, b, c, d]),
            code: i32::from_le_bytes([e, f, g, h]),
            area: i32::from_le_bytes([i, j, k, l]),
        }
    }

    /// The addresses of code and memory when the record lies at `at`.
    pub fn resolve(&self, at: u64) -> (u64, u64) {
        let place = |into: u64, offset: i32| at.wrapping_add(into).wrapping_add(i64::from(offset) as u64);
        (place(4, self.code), place(8, self.area))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_leads_to_code_and_memory() {
        let record = JoinRecord::from_bytes([2, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff, 0, 1, 0, 0]);
        assert_eq!(record, JoinRecord { version: 2, code: -4, area: 256 });
        assert_eq!(record.resolve(0x1000), (0x1000, 0x1108));
    }
}
