//! The thread pointer, and a few thread-local words that are safe on a probe.
//!
//! `std::thread_local!` in a shared object compiles to a call to `__tls_get_addr`, which may
//! allocate on first use. The words here are initial-exec: their offset from the thread pointer is a
//! constant of the process that the dynamic linker stores in the global offset table.

use core::arch::{asm, global_asm};

/// Makes the thread-local word `$name` of `$bytes` bytes, 0 in a fresh thread. Weak, because several objects of one program may hold this crate.
macro_rules! tls_word {
    ($name:literal, $bytes:literal) => {
        global_asm!(
            concat!(".pushsection .tbss.", $name, ",\"awT\",@nobits"),
            ".balign 8",
            concat!(".hidden ", $name),
            concat!(".weak ", $name),
            concat!(".type ", $name, ",@tls_object"),
            concat!(".size ", $name, ", ", $bytes),
            concat!($name, ": .zero ", $bytes),
            ".popsection",
        );
    };
}

/// The calling thread's copy of a word: `word!(name)` reads its 8 bytes, `word!(name = value)` writes them.
macro_rules! word {
    ($name:literal) => {{
        let word: u64;
        // SAFETY: reads the thread's own copy of the initialised TLS word.
        unsafe {
            asm!(
                concat!("mov {offset}, qword ptr [rip + ", $name, "@gottpoff]"),
                "mov {word}, qword ptr fs:[{offset}]",
                offset = out(reg) _,
                word = out(reg) word,
                options(readonly, nostack, preserves_flags),
            );
        }
        word
    }};
    ($name:literal = $word:expr) => {
        // SAFETY: writes the thread's own copy of the TLS word, which nobody else accesses.
        unsafe {
            asm!(
                concat!("mov {offset}, qword ptr [rip + ", $name, "@gottpoff]"),
                "mov qword ptr fs:[{offset}], {word}",
                offset = out(reg) _,
                word = in(reg) $word,
                options(nostack, preserves_flags),
            );
        }
    };
}

tls_word!("mote_thread_id", 8);
tls_word!("mote_thread_aside", 64);
tls_word!("mote_thread_slot", 8);
tls_word!("mote_thread_writes", 8);

/// The x86-64 thread pointer: the address that `fs:0` holds.
#[inline(always)]
pub fn pointer() -> *mut u8 {
    let pointer;
    // SAFETY: on x86-64 Linux `fs:0` holds its own address (ELF TLS ABI, variant II).
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    pointer
}

/// The calling thread's id as noted by [`set_id`]; 0 before that and in a fresh thread.
#[inline(always)]
pub fn id() -> u32 {
    word!("mote_thread_id") as u32
}

/// Notes the calling thread's id; 0 makes it unknown again, as after fork.
#[inline]
pub fn set_id(id: u32) {
    word!("mote_thread_id" = u64::from(id));
}

/// How many words [`aside`] has.
pub const ASIDES: usize = 8;

/// Where the calling thread keeps records aside for the session `session`, as noted by [`set_aside`]; 0 in a fresh thread. Of sessions
/// from [`ASIDES`] on there is none.
#[inline(always)]
pub fn aside(session: usize) -> u64 {
    if session >= ASIDES {
        return 0;
    }
    let aside: u64;
    // SAFETY: as in `word`; the word is one of `ASIDES`.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + mote_thread_aside@gottpoff]",
            "mov {aside}, qword ptr fs:[{offset} + 8 * {session}]",
            offset = out(reg) _,
            session = in(reg) session,
            aside = lateout(reg) aside,
            options(readonly, nostack, preserves_flags),
        );
    }
    aside
}

/// Notes where the calling thread keeps records aside for the session `session`; what the number means is its caller's affair.
#[inline]
pub fn set_aside(session: usize, aside: u64) {
    if session >= ASIDES {
        return;
    }
    // SAFETY: as in `word`; the word is one of `ASIDES`.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + mote_thread_aside@gottpoff]",
            "mov qword ptr fs:[{offset} + 8 * {session}], {aside}",
            offset = out(reg) _,
            session = in(reg) session,
            aside = in(reg) aside,
            options(nostack, preserves_flags),
        );
    }
}

/// What the calling thread knows of its slot in the memory that it shares with the kernel's programs, as noted by [`set_slot`]; 0 in a
/// fresh thread.
#[inline(always)]
pub fn slot() -> u64 {
    word!("mote_thread_slot")
}

/// Notes what the calling thread knows of its slot; what the number means is its caller's affair.
#[inline]
pub fn set_slot(slot: u64) {
    word!("mote_thread_slot" = slot);
}

/// How many writes of the ring's atomic writer are under way in the calling thread, one interrupted by the next, as noted by [`set_writes`]; 0 in a
/// fresh thread.
#[inline(always)]
pub fn writes() -> u64 {
    word!("mote_thread_writes")
}

/// Notes how many writes are under way. No access to memory moves across it.
#[inline(always)]
pub fn set_writes(writes: u64) {
    word!("mote_thread_writes" = writes);
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn each_thread_has_its_own_word() {
        super::set_id(7);
        let other = std::thread::spawn(|| {
            let fresh = super::id();
            super::set_id(9);
            (fresh, super::id())
        });
        assert_eq!(other.join().expect("thread ends"), (0, 9));
        assert_eq!(super::id(), 7);
        super::set_aside(2, u64::MAX - 1);
        super::set_aside(super::ASIDES, 5);
        let all = || std::array::from_fn::<u64, 9, _>(super::aside);
        assert_eq!((all(), super::id()), ([0, 0, u64::MAX - 1, 0, 0, 0, 0, 0, 0], 7));
        assert_eq!(std::thread::spawn(all).join().expect("thread ends"), [0; 9]);
        super::set_slot(5);
        assert_eq!((super::aside(2), super::slot()), (u64::MAX - 1, 5));
        assert_eq!(std::thread::spawn(super::slot).join().expect("thread ends"), 0);
        super::set_writes(3);
        assert_eq!((super::slot(), super::writes()), (5, 3));
        assert_eq!(std::thread::spawn(super::writes).join().expect("thread ends"), 0);
    }
}
