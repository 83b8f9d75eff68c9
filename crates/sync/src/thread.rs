//! The thread pointer, and one thread-local word that is safe on a probe.
//!
//! `std::thread_local!` in a shared object compiles to a call to `__tls_get_addr`, which may
//! allocate on first use. The word here is initial-exec: its offset from the thread pointer is a
//! constant of the process that the dynamic linker stores in the global offset table.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.mote_thread_id,\"awT\",@nobits",
    ".balign 8",
    ".hidden mote_thread_id",
    ".weak mote_thread_id",
    ".type mote_thread_id,@tls_object",
    ".size mote_thread_id, 8",
    "mote_thread_id: .zero 8",
    ".popsection",
);

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
    let id: u32;
    // SAFETY: reads the thread's own copy of the initialised TLS word.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + mote_thread_id@gottpoff]",
            "mov {id:e}, dword ptr fs:[{offset}]",
            offset = out(reg) _,
            id = out(reg) id,
            options(readonly, nostack, preserves_flags),
        );
    }
    id
}

/// Notes the calling thread's id; 0 makes it unknown again, as after fork.
#[inline]
pub fn set_id(id: u32) {
    // SAFETY: writes the thread's own copy of the TLS word, which nobody else accesses.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + mote_thread_id@gottpoff]",
            "mov dword ptr fs:[{offset}], {id:e}",
            offset = out(reg) _,
            id = in(reg) id,
            options(nostack, preserves_flags),
        );
    }
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
    }
}
