//! The mask of modes of the files that this process makes: ours while it records, so that we can open what we have just
//! made, and as before for the command.

use nix::sys::stat::{Mode, umask};

/// What it was before; it is that again when this is dropped.
pub(crate) struct Umask(Mode);

impl Umask {
    /// Takes nothing away from the owner, and everything from others. It is the whole process's.
    pub(crate) fn private() -> Umask {
        Umask(umask(Mode::S_IRWXG | Mode::S_IRWXO))
    }

    /// Does something with the mask as it was.
    pub(crate) fn as_before<T>(&self, work: impl FnOnce() -> T) -> T {
        let ours = umask(self.0);
        let done = work();
        umask(ours);
        done
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        umask(self.0);
    }
}
