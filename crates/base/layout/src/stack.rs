//! A stack in a record: the addresses that its functions return to, or a copy of it, of which the recorder makes them.
//!
//! The field is a sequence of 64-bit words ([`USER`], `x64[]`) in either case: who does not know of copies walks over
//! one as over addresses. Rings have copies; what the recorder writes has addresses, the innermost first, and behind
//! them one of the [`End`]s where the stack could not be followed to where the program or the thread began.
//!
//! | word | of a copy |
//! |---|---|
//! | 0 | [`COPY`] |
//! | 1 | the process's id, as the recorder sees it; bit [`TO_END`] |
//! | 2, 3, 4 | frame pointer, stack pointer, instruction pointer |
//! | from 5 on | the stack, from where the stack pointer points to |

/// Name of the field with the process's stack; LTTng's.
pub const USER: &str = "callstack_user";

/// What a copy begins with, in the place of an address: no process has code there.
pub const COPY: u64 = u64::MAX - 4;
/// In the word with the process's id: the stack is copied to where it is known to end.
pub const TO_END: u32 = 32;
/// Words in front of the stack.
pub const HEADER_WORDS: usize = 2 + REGISTERS;
/// Registers of a copy.
pub const REGISTERS: usize = 3;
/// Most bytes of a stack in a copy.
pub const BYTES_MAX: u32 = 16 << 10;
/// Most addresses of a stack: what the kernel gives by default (sysctl `kernel.perf_event_max_stack`).
pub const FRAMES_MAX: usize = 127;

/// Why a stack ends before its begin. Its number stands behind the last address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum End {
    /// A handler of a signal runs on a stack of its own: what it has interrupted is on another one.
    Stack = u64::MAX - 3,
    /// It has more than [`FRAMES_MAX`] functions.
    Frames = u64::MAX - 2,
    /// What comes next is code that says nothing of its frames, or lies to us.
    Code = u64::MAX - 1,
    /// The stack is deeper than the copy.
    Copy = u64::MAX,
}

impl End {
    /// The end that stands in the place of an address, if it is one.
    #[must_use]
    pub fn of(word: u64) -> Option<End> {
        [End::Stack, End::Frames, End::Code, End::Copy].into_iter().find(|end| *end as u64 == word)
    }
}

/// A copy of a stack, as a record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy<'r> {
    /// The process's id.
    pub process: u32,
    /// Frame pointer, stack pointer, instruction pointer.
    pub registers: [u64; REGISTERS],
    /// The stack, from where the stack pointer points to.
    pub stack: &'r [u8],
    /// There is no more of it.
    pub is_to_end: bool,
}

impl Copy<'_> {
    /// Reads the elements of the sequence; `None` when they are addresses.
    #[must_use]
    pub fn read(elements: &[u8]) -> Option<Copy<'_>> {
        let mut rest = elements;
        let mut next = || {
            let (word, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(u64::from_le_bytes(*word))
        };
        if next()? != COPY {
            return None;
        }
        let process = next()?;
        let registers = [next()?, next()?, next()?];
        let is_to_end = process >> TO_END & 1 == 1;
        Some(Copy { process: process as u32, registers, stack: rest, is_to_end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_addresses() {
        let mut bytes = [0; 56];
        for (to, word) in bytes.chunks_exact_mut(8).zip([COPY, 1 << TO_END | 7, 1, 2, 3, 4, 5]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let copy = Copy::read(&bytes).expect("a copy");
        assert_eq!((copy.process, copy.registers, copy.stack.len()), (7, [1, 2, 3], 16));
        assert!(copy.is_to_end);
        for len in 0..40 {
            assert_eq!(Copy::read(&bytes[..len]), None);
        }
        assert_eq!(Copy::read(&bytes[..40]).map(|copy| copy.stack.len()), Some(0));
        assert_eq!(Copy::read(&bytes[8..]), None);
    }

    #[test]
    fn ends_are_no_addresses() {
        assert_eq!(End::of(u64::MAX), Some(End::Copy));
        assert_eq!(End::of(End::Code as u64), Some(End::Code));
        assert_eq!((End::of(COPY), End::of(0x7fff_ffff_f000)), (None, None));
    }
}
