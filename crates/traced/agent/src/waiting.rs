//! Sessions that the process has asked, and that have not let it in yet: the recorder stands still, or the process has
//! no descriptor left.
//!
//! The program goes on meanwhile. Our thread waits for the answer, or asks again from its own descriptor table, for as
//! long as the recorder lives. How long that took the session is told with `Ready`: events of that time are missing.

use crate::environment::Place;
use core::sync::atomic::{AtomicU32, Ordering};
use mote_sys::{Errno, tsc};
use mote_wire::{How, SESSIONS_MAX};

/// How many sessions are waited for.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Whether there are some.
pub(crate) fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

/// One session that is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) place: Place,
    /// The process had begun before it was asked to come: nothing is missing.
    pub(crate) attached: u32,
    /// Since when, in nanoseconds.
    pub(crate) since: u64,
    /// The session's number plus one while its answer is waited for; 0 when it has to be asked again.
    asked: usize,
}

impl Wait {
    /// For a session that the process has wanted to join just now.
    pub(crate) fn begin(place: &Place, how: How) -> Wait {
        let attached = u32::from(how == How::Attach);
        Wait { place: *place, attached, since: tsc::monotonic_by_call(), asked: 0 }
    }

    /// How the process comes.
    pub(crate) fn how(&self) -> How {
        if self.attached != 0 { How::Attach } else { How::Start }
    }

    /// How long events are missing by now, in milliseconds; 0 when none are.
    pub(crate) fn late_ms(&self) -> u32 {
        let waited = tsc::monotonic_by_call().saturating_sub(self.since) / 1_000_000;
        if self.attached != 0 { 0 } else { u32::try_from(waited.max(1)).unwrap_or(u32::MAX) }
    }
}

/// Whether a session that could not be joined for this reason may be joined later.
pub(crate) fn may_come(why: Errno) -> bool {
    matches!(why, Errno(libc::ETIMEDOUT | libc::EMFILE | libc::ENFILE | libc::EAGAIN))
}

/// All of them. Changed with the control path held.
#[derive(Debug)]
pub(crate) struct Waiting {
    all: [Option<Wait>; SESSIONS_MAX],
}

impl Waiting {
    /// None.
    pub(crate) const fn new() -> Waiting {
        Waiting { all: [None; SESSIONS_MAX] }
    }

    /// Waits for one more, whose answer comes on the link of the session `number`, if it was asked. False when there
    /// are too many.
    pub(crate) fn add(&mut self, wait: &Wait, number: Option<usize>) -> bool {
        let Some(place) = self.all.iter_mut().find(|wait| wait.is_none()) else { return false };
        *place = Some(Wait { asked: number.map_or(0, |number| number + 1), ..*wait });
        COUNT.fetch_add(1, Ordering::Release);
        true
    }

    /// Takes out the one whose answer comes on the link of the session `number`.
    pub(crate) fn take_asked(&mut self, number: usize) -> Option<Wait> {
        self.take(|wait| wait.asked == number + 1)
    }

    /// Takes out one that has to be asked again.
    pub(crate) fn take_unasked(&mut self) -> Option<Wait> {
        self.take(|wait| wait.asked == 0)
    }

    /// In a child of fork, which has its parent's links no more.
    pub(crate) fn after_fork(&mut self) {
        self.all.iter_mut().flatten().for_each(|wait| wait.asked = 0);
    }

    fn take(&mut self, which: impl Fn(&Wait) -> bool) -> Option<Wait> {
        let taken = self.all.iter_mut().find(|wait| wait.as_ref().is_some_and(&which))?.take();
        COUNT.fetch_sub(1, Ordering::Release);
        taken
    }
}
