//! A stack in a record: the addresses that its functions return to, or a copy of it, of which the recorder makes them.
//!
//! The field is a sequence of 64-bit words ([`USER`], `x64[]`) in either case: who does not know of copies walks over
//! one as over addresses. Rings have copies; what the recorder writes has addresses, the innermost first, and behind
//! them one of the [`End`]s where the stack could not be followed to where the program or the thread began.
//!
//! | word | of a copy |
//! |---|---|
//! | 0 | [`COPY`] |
//! | 1 | the process's id, as the recorder knows it; bits [`TO_END`], [`IS_OURS`]; from bit [`REPLACED`] on, a number |
//! | 2, 3, 4 | frame pointer, stack pointer, instruction pointer |
//! | two for each of that number | where on the stack a return address was replaced, and what it really is; or [`SLOTS`] |
//! | the rest | the stack, from where the stack pointer points to |
//!
//! Return addresses are replaced by probes of functions (`mote-trace-hook`). In the place of a place there may be
//! [`FUNCTION`], with the function whose call has just returned, or [`PARENT`], with the process that this one was
//! forked from, by which it is known until it is known itself. The kernel's programs, which make copies without the
//! process, have nothing but [`SLOTS`] there, with where the thread's slots end, and in the other pairs these, as they
//! are in the process ([`crate::stubs`]).

use crate::stubs::Slots;

/// Name of the field with the process's stack; LTTng's.
pub const USER: &str = "callstack_user";

/// What a copy begins with, in the place of an address: no process has code there.
pub const COPY: u64 = u64::MAX - 4;
/// In the word with the process's id: the stack is copied to where it is known to end.
pub const TO_END: u32 = 32;
/// In the same word: the function that the registers are of is the tracer's, and none of the program's stack.
pub const IS_OURS: u32 = 33;
/// In the same word, above: how many return addresses were replaced, at most [`REPLACED_MAX`].
pub const REPLACED: u32 = 40;
/// In the place of a place on the stack: the function whose call has just returned.
pub const FUNCTION: u64 = 0;
/// In the place of a place on the stack: the process that this one was forked from.
pub const PARENT: u64 = 1;
/// In the place of the first place on the stack: what is behind are slots, of two pairs each.
pub const SLOTS: u64 = 2;
/// Most slots of a copy.
pub const SLOTS_MAX: usize = 127;
/// Most replaced return addresses of a copy: of further ones the stack ends there.
pub const REPLACED_MAX: usize = 32;
/// What stands in front of the function that finds replaced return addresses. Other copies of the library in the
/// process hear of the function from a session, and see by this that it is one. Nothing that is compiled has it.
pub const FINDER: [u64; 2] = [0x6d6f_7465_8f1c_d4a3, 0x91e7_b25d_0c6a_fe38];
/// Words in front of the stack, and of what was replaced.
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
    /// The innermost function is the tracer's.
    pub is_ours: bool,
    /// Of a copy that the process has not made: what is known of return addresses that were replaced.
    pub slots: Slots<'r>,
    /// Where return addresses were replaced, and what they really are, word by word.
    replaced: &'r [u8],
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
        let has = |bit: u32| process >> bit & 1 == 1;
        let (is_to_end, is_ours) = (has(TO_END), has(IS_OURS));
        let count = (process >> REPLACED & 0xff) as usize;
        let (replaced, stack) = rest.split_at_checked(16 * count)?;
        let (slots, replaced) = match slots(replaced) {
            Some(slots) => (slots, &[][..]),
            None => (Slots::default(), replaced),
        };
        Some(Copy { process: process as u32, registers, stack, is_to_end, is_ours, slots, replaced })
    }

    /// The function whose call has just returned to where the registers are, by the address of its first instruction.
    #[must_use]
    pub fn function(&self) -> Option<u64> {
        self.pairs().find(|(place, _)| *place == FUNCTION).map(|(_, function)| function)
    }

    /// The process that this one was forked from, which has had the same memory: where this one is not known yet.
    #[must_use]
    pub fn parent(&self) -> Option<u32> {
        self.pairs().find(|(place, _)| *place == PARENT).map(|(_, process)| process as u32)
    }

    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + use<'_> {
        let words = self.replaced.as_chunks::<8>().0.as_chunks::<2>().0;
        words.iter().map(|[place, real]| (u64::from_le_bytes(*place), u64::from_le_bytes(*real)))
    }

    /// Where return addresses were replaced, in bytes from the begin of the stack, and what they really are; those
    /// that are in the copy.
    pub fn replaced(&self) -> impl Iterator<Item = (usize, u64)> + use<'_> {
        let [_, bottom, _] = self.registers;
        self.pairs().filter_map(move |(place, real)| {
            let at = usize::try_from(place.checked_sub(bottom)?).ok()?;
            (at.checked_add(8)? <= self.stack.len()).then_some((at, real))
        })
    }
}

/// The slots in these pairs, if that is what they are.
fn slots(pairs: &[u8]) -> Option<Slots<'_>> {
    let (first, rest) = pairs.split_first_chunk::<8>()?;
    let (top, slots) = rest.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*first) == SLOTS).then(|| Slots::new(u64::from_le_bytes(*top), slots))
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
        assert!(!copy.is_ours && copy.replaced().next().is_none());
        for len in 0..40 {
            assert_eq!(Copy::read(&bytes[..len]), None);
        }
        assert_eq!(Copy::read(&bytes[..40]).map(|copy| copy.stack.len()), Some(0));
        assert_eq!(Copy::read(&bytes[8..]), None);
    }

    #[test]
    fn replaced_addresses_stand_before_the_stack() {
        let (pid, two) = (7, 2 << REPLACED | 1 << IS_OURS);
        // The second one is beyond the copy.
        let words = [COPY, two | pid, 1, 0x100, 3, 0x108, 0x5000, 0x110, 0x6000, 21, 22];
        let bytes = words.map(u64::to_le_bytes);
        let copy = Copy::read(bytes.as_flattened()).expect("a copy");
        assert_eq!((copy.process, copy.stack.len(), copy.is_ours, copy.is_to_end), (7, 16, true, false));
        assert!(copy.replaced().eq([(8, 0x5000)]));
        assert_eq!((copy.function(), copy.parent()), (None, None));
        assert_eq!(Copy::read(&bytes.as_flattened()[..8 * 8]), None);
        // Places that cannot be.
        let wild = [COPY, two | pid, 1, 0x100, 3, FUNCTION, 0x5000, PARENT, 9].map(u64::to_le_bytes);
        let copy = Copy::read(wild.as_flattened()).expect("a copy");
        assert_eq!((copy.function(), copy.parent(), copy.replaced().count()), (Some(0x5000), Some(9), 0));
        let wild = [COPY, two | pid, 1, 0x100, 3, u64::MAX, 0x5000, 0x200, 9].map(u64::to_le_bytes);
        assert_eq!(Copy::read(wild.as_flattened()).expect("a copy").replaced().count(), 0);
    }

    #[test]
    fn slots_stand_there_of_copies_that_the_kernel_has_made() {
        const AREA: u64 = 0x7e00_0000_0000;
        let top = AREA + crate::stubs::SLOTS_AT as u64 + 64;
        let about = 3 << REPLACED | 7;
        let words = [COPY, about, 1, 0x100, 3, SLOTS, top, 0x5000, 0x108, 0, 0, AREA + 36, 22];
        let bytes = words.map(u64::to_le_bytes);
        let copy = Copy::read(bytes.as_flattened()).expect("a copy");
        assert_eq!((copy.process, copy.stack.len(), copy.slots.behind(AREA + 36)), (7, 16, Some(0x5000)));
        assert_eq!((copy.function(), copy.parent(), copy.replaced().count()), (None, None, 0));
        // None of them.
        let words = [COPY, 1 << REPLACED | 7, 1, 0x100, 3, SLOTS, top, 21].map(u64::to_le_bytes);
        let copy = Copy::read(words.as_flattened()).expect("a copy");
        assert_eq!((copy.stack.len(), copy.slots.behind(AREA + 36)), (8, None));
    }

    #[test]
    fn ends_are_no_addresses() {
        assert_eq!(End::of(u64::MAX), Some(End::Copy));
        assert_eq!(End::of(End::Code as u64), Some(End::Code));
        assert_eq!((End::of(COPY), End::of(0x7fff_ffff_f000)), (None, None));
    }
}
