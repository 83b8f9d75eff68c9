//! Areas: memory that processes share with the recorder besides their rings. There are three kinds.
//!
//! | area | shared by | what is in it |
//! |---|---|---|
//! | [`session`] | all processes of a session, and the kernel's programs | words with names, flags of rules |
//! | [`group`] | the processes of a group, which share rings | counters, speculations, maps of filters |
//! | of a process ([`crate::cooperation`]) | its threads, the kernel's programs | thresholds, state of threads |
//!
//! [`packets`] reads what rules ask for of the hardware trace, which is in both of the first two.

pub(crate) mod group;
pub(crate) mod packets;
pub(crate) mod session;

use mote_sys::bpf::mapped::Mapped;
use mote_sys::fd::{self, Fd};
use mote_sys::mem;
use std::ffi::CStr;

/// Some memory, by offsets. Processes write there: what is read is a number and nothing else.
pub(crate) enum Memory {
    /// An array map of the kernel's with one element.
    Map(Mapped),
    /// A file that only processes share.
    File(Fd),
}

/// A file of zeros that processes share.
///
/// # Errors
/// `ENOMEM`, `ENOSPC`, `EMFILE`.
pub(crate) fn file(name: &'static CStr, bytes: u64) -> mote_sys::Result<Fd> {
    let file = mem::sealed_memfd(name, bytes)?;
    // A process that touches a page that cannot be had dies.
    mem::allocate(&file, 0, bytes)?;
    Ok(file)
}

impl Memory {
    /// Zeros.
    ///
    /// # Errors
    /// `EPERM` for a map without the right; `ENOMEM`, `ENOSPC`, `EMFILE`.
    pub(crate) fn make(name: &'static CStr, bytes: usize, in_kernel: bool) -> mote_sys::Result<Memory> {
        if in_kernel {
            return Mapped::create(name.to_str().unwrap_or("mote"), bytes as u32).map(Memory::Map);
        }
        file(name, bytes as u64).map(Memory::File)
    }

    /// What processes map.
    pub(crate) fn fd(&self) -> &Fd {
        match self {
            Memory::Map(map) => map.fd(),
            Memory::File(file) => file,
        }
    }

    /// Writes a word; nothing where there is none.
    pub(crate) fn put64(&self, offset: usize, value: u64) {
        match self {
            Memory::Map(map) => map.store64(offset, value),
            // It cannot shrink.
            Memory::File(file) => drop(fd::write_at(file, &value.to_le_bytes(), offset as u64)),
        }
    }

    /// Writes a word of 32 bits.
    pub(crate) fn put32(&self, offset: usize, value: u32) {
        match self {
            Memory::Map(map) => map.store32(offset, value),
            Memory::File(file) => drop(fd::write_at(file, &value.to_le_bytes(), offset as u64)),
        }
    }

    /// A word; 0 when it cannot be read.
    pub(crate) fn get64(&self, offset: usize) -> u64 {
        match self {
            Memory::Map(map) => map.load64(offset),
            Memory::File(file) => {
                let mut word = [0; 8];
                let read = fd::read_at(file, &mut word, offset as u64);
                if read == Ok(word.len()) { u64::from_le_bytes(word) } else { 0 }
            }
        }
    }
}
