//! Tables of instructions that may fail, and of where a thread goes on then. As the kernel's `_ASM_EXTABLE`.
//!
//! A table is a section of the object ([`exception_table!`](crate::exception_table)); assembly adds to it where it is
//! written ([`exception!`](crate::exception)); a signal's handler looks an instruction up in it.

/// One entry: distances from its own words.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    instruction: i32,
    resume: i32,
}

const _: () = assert!(size_of::<Entry>() == 8);

/// Where a thread goes on whose instruction at `ip` failed, if an entry says so.
///
/// # Cost
/// Linear in the entries.
///
/// # Signal safety
/// Reads constants only.
///
/// # Safety
/// From `first` to `end` there are whole entries.
pub unsafe fn resume(first: *const Entry, end: *const Entry, ip: u64) -> Option<u64> {
    let mut entry = first;
    while entry < end {
        // SAFETY: the caller's promise.
        let Entry { instruction, resume } = unsafe { entry.read() };
        let at = entry as u64;
        // The empty entry would be found at its own address, where nothing is executed.
        if at.wrapping_add_signed(instruction.into()) == ip {
            return Some((at + 4).wrapping_add_signed(resume.into()));
        }
        entry = entry.wrapping_add(1);
    }
    None
}
