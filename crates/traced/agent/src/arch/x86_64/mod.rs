//! x86-64: the frame of a thread that a recorder has sent (`probe/src/arch/x86_64/join.rs` makes it), and a row of
//! thread-local words.

#[cfg(feature = "filters")]
mod speculation;
#[cfg(feature = "filters")]
pub(crate) use speculation::{load_word_at, store_word_at};

/// Frame pointer, stack pointer and instruction pointer here: in the function that this is inlined into.
#[inline(always)]
pub(crate) fn registers() -> [usize; 3] {
    let (frame, stack, instruction);
    // SAFETY: only reads registers.
    unsafe {
        core::arch::asm!(
            "lea {instruction}, [rip]",
            "mov {stack}, rsp",
            "mov {frame}, rbp",
            instruction = out(reg) instruction,
            stack = out(reg) stack,
            frame = out(reg) frame,
            options(nomem, nostack, preserves_flags),
        );
    }
    [frame, stack, instruction]
}

/// What a thread keeps on its own stack while it is here, from the lowest address on.
#[repr(C)]
#[derive(Debug)]
pub struct Interrupted {
    /// The signals that it had blocked.
    pub(crate) mask: u64,
    all: u64,
    kept: [u64; 4],
    /// Which join the recorder has sent it for.
    pub nonce: u64,
    more: [u64; 8],
    /// What the call answers, `-EINTR`, or the call with which it begins again.
    pub rax: u64,
    /// Where it returns to.
    pub rcx: u64,
    flags: u64,
}

impl Interrupted {
    /// Ends the interrupted call with this error: it is not begun again.
    pub(crate) fn end_call(&mut self, errno: i32) {
        self.rax = -i64::from(errno) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_the_code_pushes() {
        assert_eq!(size_of::<Interrupted>(), 18 * 8);
        let offsets = [
            core::mem::offset_of!(Interrupted, nonce),
            core::mem::offset_of!(Interrupted, rax),
            core::mem::offset_of!(Interrupted, rcx),
        ];
        assert_eq!(offsets, [48, 120, 128]);
    }
}
