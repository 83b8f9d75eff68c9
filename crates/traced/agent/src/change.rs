//! Changing sites for the program itself, which wants all of them changed or none: its own switches, and events that it
//! connects probes to.
//!
//! A session switches events as well as it can, and is told what was left. A program's logic goes by its switches: half
//! of one is worse than none. So what cannot be done now is tried again for a while, and then taken back.

use crate::hold::{self, Control};
use crate::{fork, keep, registry};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use mote_layout::site::SiteRecord;
use mote_patch::{Edit, Refusal};
use mote_sys::{Errno, time};

/// The pauses between tries: how long the first is, in nanoseconds, and how many there are, each twice as long as the
/// one before; two seconds in all. Most threads block their signals for a moment only.
const PAUSES: (u64, u32) = (1_000_000, 11);

/// Bounds of an object's section of site records.
pub(crate) type Sites = (*const SiteRecord, *const SiteRecord);

/// Why sites could not be changed. All of them are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeError {
    sites: usize,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The first change that was refused.
    Refused(Refusal),
    Failed(mote_patch::Error),
    /// There is no place or no memory for something.
    NoRoom,
}

impl ChangeError {
    /// No place for an object, or no memory.
    pub(crate) const NO_ROOM: ChangeError = ChangeError { sites: 0, why: Why::NoRoom };

    /// How many sites were refused; 0 when it was not one of them that was in the way.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The number that C programs get: `EBUSY` when it may work later.
    pub fn errno(&self) -> i32 {
        match self.why {
            Why::Refused(Refusal::Blocked) => libc::EBUSY,
            Why::Refused(_) => libc::ENOEXEC,
            Why::Failed(
                mote_patch::Error::NotWritable { errno: Errno(errno), .. }
                | mote_patch::Error::NoBarrier(Errno(errno)),
            ) => errno,
            Why::Failed(_) => libc::EIO,
            Why::NoRoom => libc::ENOMEM,
        }
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Refused(why) => write!(f, "{} sites cannot be changed, so none is: {why}", self.sites),
            Why::Failed(why) => write!(f, "sites cannot be changed: {why}"),
            Why::NoRoom => f.write_str("no memory, or more than 256 objects have sites"),
        }
    }
}

impl core::error::Error for ChangeError {}

/// Makes `attempt` with the control path held until it succeeds, or fails for good, or for two seconds; then calls
/// `give_up`, with the control path still held, to take back what was changed.
///
/// # Errors
/// What the last attempt said.
pub(crate) fn persist<T>(
    mut attempt: impl FnMut(&mut Control) -> Result<T, ChangeError>,
    give_up: impl FnOnce(&mut Control),
) -> Result<T, ChangeError> {
    prepare();
    let (mut pause, mut left) = PAUSES;
    loop {
        let mut control = hold::control();
        match attempt(&mut control) {
            Err(ChangeError { why: Why::Refused(Refusal::Blocked), .. }) if left > 0 => {}
            Err(why) => {
                give_up(&mut control);
                return Err(why);
            }
            done => return done,
        }
        drop(control);
        let _ = time::sleep(pause);
        pause *= 2;
        left -= 1;
    }
}

/// Before the first change: this object stays loaded, as the handler of SIGTRAP is in it; and no child is made in the
/// middle of a change. Without the control path: the dynamic linker is waited for.
fn prepare() {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if !PREPARED.load(Ordering::Acquire) {
        keep::loaded();
        fork::watch();
        mote_rcu::library::prepare();
        PREPARED.store(true, Ordering::Release);
    }
}

/// Has the registry know an object. With the control path held.
///
/// # Errors
/// It is one too many.
///
/// # Safety
/// As `registry::add_sites`.
pub(crate) unsafe fn know((first, end): Sites) -> Result<(), ChangeError> {
    // SAFETY: the caller's promise.
    unsafe { registry::add_sites(first, end) };
    match registry::object(first) {
        Some(_) => Ok(()),
        None => Err(ChangeError::NO_ROOM),
    }
}

/// Changes sites of the registry. With the control path held, which keeps them mapped.
///
/// Not generic: the code of patching is large, and need not be there for each kind of iterator.
///
/// # Errors
/// Some are left as they were.
pub(crate) fn apply(edits: &mut dyn Iterator<Item = Edit>) -> Result<(), ChangeError> {
    let (mut sites, mut first) = (0, None);
    // SAFETY: the sites' records come from the macros and the header (`registry::add_sites`):
    // 1. each code address is a 5-byte site of a mapped object;
    // 2. it is one instruction that nothing jumps into;
    // 3. its target is the label of the same `asm!` block.
    let applied = unsafe {
        mote_patch::apply(edits, |_, why| {
            sites += 1;
            first.get_or_insert(why);
        })
    };
    match (applied, first) {
        (Err(error), _) => Err(ChangeError { sites, why: Why::Failed(error) }),
        (Ok(_), Some(why)) => Err(ChangeError { sites, why: Why::Refused(why) }),
        (Ok(_), None) => Ok(()),
    }
}
