//! Memory that is shared with processes beside rings and filters: as maps of the kernel's, so that its programs reach them, or as plain files where there are no such
//! programs.

use crate::error::Error;
use mote_filter::SharedNames;
use mote_kernel::rules::shared::Shared;
use mote_layout::cooperation::{SHARED_BYTES, SHARED_MAGIC, SHARED_MAP_AT, SharedHeader, VERSION};
use mote_session::memory::SHAPE;
use mote_sys::Errno;
use mote_sys::bpf::mapped::Mapped;
use mote_sys::fd::{self, Fd};
use mote_sys::mem;
use mote_vm::placed::{PlaceError, PlacedMap};
use std::ffi::CStr;
use std::mem::offset_of;
use std::sync::{Arc, OnceLock};

/// Some memory, by offsets. Processes write there: what is read is a number and nothing else.
pub(crate) enum Memory {
    /// An array map of the kernel's with one element.
    Map(Mapped),
    /// A file that only processes share.
    File(Fd),
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
        let file = mem::sealed_memfd(name, bytes as u64)?;
        // Who touches a page that cannot be had dies.
        mem::allocate(&file, 0, bytes as u64)?;
        Ok(Memory::File(file))
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

/// The words that a session shares, made when the first one wants them. Copies are the same.
#[derive(Clone)]
pub(crate) struct Commons(Arc<Inner>);

struct Inner {
    names: SharedNames,
    in_kernel: bool,
    made: OnceLock<Result<Made, Errno>>,
}

enum Made {
    Kernel(Box<Shared>),
    Processes(Memory),
}

impl Commons {
    /// Not made yet; as a map of the kernel's if that is to be.
    pub(crate) fn new(in_kernel: bool) -> Commons {
        Commons(Arc::new(Inner { names: SharedNames::default(), in_kernel, made: OnceLock::new() }))
    }

    /// Who has which words.
    pub(crate) fn names(&self) -> &SharedNames {
        &self.0.names
    }

    /// Whether somebody has wanted it, and it could be made.
    pub(crate) fn is_made(&self) -> bool {
        matches!(self.0.made.get(), Some(Ok(_)))
    }

    fn made(&self) -> Result<&Made, Errno> {
        self.0.made.get_or_init(|| make(self.0.in_kernel)).as_ref().map_err(|errno| *errno)
    }

    /// What processes map; made if need be.
    ///
    /// # Errors
    /// `EPERM`, `ENOMEM` and the like.
    pub(crate) fn fd(&self) -> Result<&Fd, Errno> {
        Ok(match self.made()? {
            Made::Kernel(shared) => shared.memory().fd(),
            Made::Processes(memory) => memory.fd(),
        })
    }

    /// What the kernel's programs have of it; made if need be.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub(crate) fn kernel(&self) -> Result<&Shared, Error> {
        match self.made() {
            Ok(Made::Kernel(shared)) => Ok(shared),
            Ok(Made::Processes(_)) => {
                Err(Error::Kernel("there is no memory shared with the kernel".to_owned()))
            }
            Err(errno) => Err(Error::Kernel(format!("no memory shared with the kernel: {errno}"))),
        }
    }

    /// How many snapshots rules on kernel events have asked for.
    pub(crate) fn snapshots(&self) -> u64 {
        match self.0.made.get() {
            Some(Ok(Made::Kernel(shared))) => shared.snapshots(),
            _ => 0,
        }
    }

    /// Flags of rules, and whether they are set.
    pub(crate) fn flags(&self) -> Vec<(String, bool)> {
        let Some(Ok(Made::Kernel(shared))) = self.0.made.get() else { return Vec::new() };
        let names = self.names().flags().into_iter().enumerate();
        names.map(|(slot, name)| (name, shared.flag(slot))).collect()
    }

    /// Sets the thread that rules on kernel events know as the session's.
    pub(crate) fn set_target(&self, tid: u32) {
        if let Some(Ok(Made::Kernel(shared))) = self.0.made.get() {
            shared.set_target(tid);
        }
    }
}

fn make(in_kernel: bool) -> Result<Made, Errno> {
    let made = if in_kernel {
        Made::Kernel(Box::new(Shared::create().map_err(|_| Errno(libc::EPERM))?))
    } else {
        let memory = Memory::make(c"mote-shared", SHARED_BYTES, false)?;
        memory.put64(offset_of!(SharedHeader, magic), SHARED_MAGIC);
        memory.put32(offset_of!(SharedHeader, version), VERSION);
        Made::Processes(memory)
    };
    let fd = match &made {
        Made::Kernel(shared) => shared.memory().fd(),
        Made::Processes(memory) => memory.fd(),
    };
    // Its head is written here, before a process opens it.
    match PlacedMap::create(fd, SHARED_MAP_AT as u64, &SHAPE) {
        Ok(_) => Ok(made),
        Err(PlaceError::System(errno)) => Err(errno),
        Err(PlaceError::Map(_)) => Err(Errno(libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_made_once_and_for_both_sides() {
        for in_kernel in [false, true] {
            let commons = Commons::new(in_kernel);
            assert!(!commons.is_made());
            match commons.fd() {
                Ok(_) => {}
                Err(Errno(libc::EPERM)) if in_kernel => {
                    println!("SKIP: maps of the kernel's need CAP_BPF");
                    continue;
                }
                Err(errno) => panic!("{errno}"),
            }
            let placed = || PlacedMap::create(commons.fd().expect("made"), SHARED_MAP_AT as u64, &SHAPE);
            let first = placed().expect("it fits");
            let mut value = vec![0; SHAPE.value_bytes as usize];
            value[8] = 7;
            first.update(&[0; 4], &value, mote_vm::map::Update::Any).expect("there");
            let mut read = vec![0; value.len()];
            placed().expect("again").lookup(&[0; 4], &mut read).expect("there");
            assert!(commons.is_made() && read == value && commons.kernel().is_ok() == in_kernel);
        }
    }
}
