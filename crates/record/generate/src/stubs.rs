//! What leads to the slots of a process's threads, where probes of functions have replaced return addresses
//! (`mote_layout::stubs`): the recorder finds it in processes, and the programs that copy stacks ask for it.
//!
//! Each process has one place, by its id. Of two that have the same one the last has it, and stacks of the other one
//! end where an address was replaced.

use mote_bpf::helper::PROBE_READ_USER;
use mote_builder::{Build, Expr, Local};
use mote_layout::stubs::{REGION, SLOTS_AT, WORDS};

/// log2 of the bytes of an entry.
pub const ENTRY_BITS: u32 = 5;
/// Entries, a power of two.
pub const ENTRIES: u32 = 1024;
/// Bytes of all.
pub const BYTES: u32 = ENTRIES << ENTRY_BITS;

/// An entry.
#[repr(C)]
#[derive(Debug)]
pub struct Process {
    /// Its id, as the recorder sees it; 0 for none, and while the words are written.
    pub pid: u32,
    _free: u32,
    /// How far from the pointer of a thread the words lie that lead to its slots.
    pub tops: [u64; WORDS],
    _free2: u64,
}

const _: () = assert!(size_of::<Process>() == 1 << ENTRY_BITS);

/// Offset of a process's entry in the table.
#[must_use]
pub const fn offset(pid: u32) -> u32 {
    (pid & (ENTRIES - 1)) << ENTRY_BITS
}

/// Reads where the slots end that the running thread uses, by the addresses of the words that lead to them; 0 where it
/// has none.
pub fn read_top<B: Build>(code: &mut B, words: [Local<u64>; WORDS]) -> Local<u64> {
    let top = code.local::<u64>();
    let [now, before] = words;
    let read = |code: &mut B, word: Local<u64>| {
        // It leaves 0 where it fails.
        let _ = code.invoke(PROBE_READ_USER, (top.address(), 8, word));
    };
    read(code, now);
    code.when(Expr::from(top).eq(0), |code| read(code, before));
    top
}

/// How many bytes of slots there are in the region in which they end.
pub fn in_region(top: Local<u64>) -> Expr {
    const IN_REGION: i32 = REGION as i32 - 1;
    ((Expr::from(top) - 1) & IN_REGION) + 1 - SLOTS_AT as i32
}
