//! Loads and stores of memory that may not be there.
//!
//! Each is one instruction, written where it is used, with an entry in a section of the object: where the instruction
//! is, and where to go on if it fails. The handler then sets a register that is 0 otherwise. See [`mote_sys::extable`].

use super::Fault;
pub(crate) use crate::arch::{
    load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64,
};
use mote_sys::exception_table;

exception_table! {
    mote_faults:
    /// Where a thread goes on whose instruction at `ip` failed, if that is one of ours.
    ///
    /// # Cost
    /// Linear in the accesses in the object's code, some hundreds.
    /// # Signal safety
    /// Reads constants only.
    pub(super) fn resume
}

/// Copies `bytes` from an address that may not be there. After a fault, any part of `to` may have been written.
///
/// # Safety
/// `to` is that many bytes of the caller's own, which overlap nothing that lies at `from`.
pub(crate) unsafe fn copy(to: *mut u8, from: u64, bytes: usize) -> Result<(), Fault> {
    let mut done = 0;
    while bytes - done >= 8 {
        // SAFETY: as the caller promises.
        let word = unsafe { load_u64(from.wrapping_add(done as u64)) }?;
        // SAFETY: these 8 bytes lie inside `bytes`.
        unsafe { to.wrapping_add(done).cast::<u64>().write_unaligned(word) };
        done += 8;
    }
    while done < bytes {
        // SAFETY: as the caller promises.
        let byte = unsafe { load_u8(from.wrapping_add(done as u64)) }?;
        // SAFETY: `done` is less than `bytes`.
        unsafe { to.wrapping_add(done).write(byte) };
        done += 1;
    }
    Ok(())
}
