//! The area of a session: words with names and flags of rules, which all its processes and the kernel's programs share.

use super::Memory;
use super::packets::Slots;
use crate::error::Error;
use mote_filter::SharedNames;
use mote_kernel::rules::shared::Shared;
use mote_layout::cooperation::{SHARED_BYTES, SHARED_MAGIC, SHARED_MAP_AT, SharedHeader, VERSION};
use mote_session::memory::SHAPE;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_vm::placed::{PlaceError, PlacedMap};
use std::mem::offset_of;
use std::sync::{Arc, OnceLock};

/// The words that a session shares, made when the first one wants them. Copies are the same.
#[derive(Clone)]
pub(crate) struct SessionArea(Arc<Inner>);

struct Inner {
    names: SharedNames,
    in_kernel: bool,
    made: OnceLock<Result<Made, Errno>>,
}

enum Made {
    Kernel(Box<Shared>),
    Processes(Memory),
}

impl SessionArea {
    /// Not made yet; as a map of the kernel's if that is to be.
    pub(crate) fn new(in_kernel: bool) -> SessionArea {
        SessionArea(Arc::new(Inner { names: SharedNames::default(), in_kernel, made: OnceLock::new() }))
    }

    /// Which name has which words.
    pub(crate) fn names(&self) -> &SharedNames {
        &self.0.names
    }

    /// Whether a process or a rule has wanted it, and it could be made.
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
            Ok(Made::Processes(_)) => Err(Error::Kernel(
                "this recording has no kernel events, so it shares no memory with the kernel".to_owned(),
            )),
            Err(errno) => {
                Err(Error::Kernel(format!("cannot make memory that is shared with the kernel: {errno}")))
            }
        }
    }

    /// How many snapshots rules on kernel events have asked for.
    pub(crate) fn snapshots(&self) -> u64 {
        match self.0.made.get() {
            Some(Ok(Made::Kernel(shared))) => shared.snapshots(),
            _ => 0,
        }
    }

    /// Where rules on kernel events ask for packets of the hardware trace, if the kernel has them.
    pub(super) fn packet_slots(&self) -> Option<&dyn Slots> {
        match self.0.made.get() {
            Some(Ok(Made::Kernel(shared))) => Some(&**shared),
            _ => None,
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

impl Slots for Shared {
    fn read(&self, offset: usize, to: &mut [u8]) {
        let at = offset_of!(SharedHeader, packets) + offset;
        for (word, to) in to.chunks_exact_mut(8).enumerate() {
            to.copy_from_slice(&self.memory().load64(at + 8 * word).to_le_bytes());
        }
    }

    fn write(&self, offset: usize, word: u64) {
        self.memory().store64(offset_of!(SharedHeader, packets) + offset, word);
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
            let session_area = SessionArea::new(in_kernel);
            assert!(!session_area.is_made());
            match session_area.fd() {
                Ok(_) => {}
                Err(Errno(libc::EPERM)) if in_kernel => {
                    mote_skip::skip("maps of the kernel's need CAP_BPF");
                    continue;
                }
                Err(errno) => panic!("{errno}"),
            }
            let placed = || PlacedMap::create(session_area.fd().expect("made"), SHARED_MAP_AT as u64, &SHAPE);
            let first = placed().expect("it fits");
            let mut value = vec![0; SHAPE.value_bytes as usize];
            value[8] = 7;
            first.update(&[0; 4], &value, mote_vm::map::Update::Any).expect("there");
            let mut read = vec![0; value.len()];
            placed().expect("again").lookup(&[0; 4], &mut read).expect("there");
            assert!(session_area.is_made() && read == value && session_area.kernel().is_ok() == in_kernel);
        }
    }
}
