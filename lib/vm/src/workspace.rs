//! Memory for the verifier, where there is no allocator.

use core::ops::{Deref, DerefMut};
use mote_bpf::verify::Workspace;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};

/// A verifier's workspace in a mapping of its own, which goes when this is dropped.
///
/// # Invariants
/// `workspace-private`: the mapping is private, ours alone, as large as a `Workspace`, and began as zeros.
#[derive(Debug)]
pub struct WorkspaceGuard(Mapping);

/// A fresh workspace.
///
/// # Errors
/// `ENOMEM`.
///
/// # Cost
/// Two system calls, and a page fault for each page that the verifier touches.
pub fn workspace() -> Result<WorkspaceGuard> {
    let mapping = Mapping::private(Workspace::BYTES)?;
    if !mapping.base().cast::<Workspace>().is_aligned() {
        return Err(Errno(libc::ENOMEM));
    }
    Ok(WorkspaceGuard(mapping))
}

impl Deref for WorkspaceGuard {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        // SAFETY: `workspace-private`; all bits zero are a valid workspace, and after that only the verifier writes,
        // through `deref_mut`.
        unsafe { &*self.0.base().cast::<Workspace>() }
    }
}

impl DerefMut for WorkspaceGuard {
    fn deref_mut(&mut self) -> &mut Workspace {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { &mut *self.0.base().cast::<Workspace>() }
    }
}
