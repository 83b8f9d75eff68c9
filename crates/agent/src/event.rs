//! The state of one event.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use mote_ring::Writer;

/// State of one event: 16 bytes that its sites, its probe, and the agent share. `mote.h` has the same.
///
/// # Invariants
/// agent-I1: `channel` is null or points to a [`Writer`] that lives as long as the process.
#[repr(C)]
#[derive(Debug)]
pub struct Event {
    channel: AtomicPtr<Writer>,
    id: AtomicU32,
    switch: AtomicU32,
}
const _: () = assert!(size_of::<Event>() == 16);

impl Event {
    /// An event that is off and unknown to any session.
    pub const fn new() -> Event {
        Event {
            channel: AtomicPtr::new(core::ptr::null_mut()),
            id: AtomicU32::new(0),
            switch: AtomicU32::new(0),
        }
    }

    /// The channel to write to, and the event's id there; `None` while it is off.
    ///
    /// # Cost
    /// Two loads of one line.
    #[inline(always)]
    pub fn destination(&self) -> Option<(&'static Writer, u16)> {
        // Acquire pairs with the release in `on`: the id and the channel's fields are set.
        let channel = self.channel.load(Ordering::Acquire);
        // SAFETY: agent-I1.
        let channel = unsafe { channel.cast_const().as_ref() }?;
        Some((channel, self.id.load(Ordering::Relaxed) as u16))
    }

    /// Whether a site that tests instead of being patched should go on.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.switch.load(Ordering::Relaxed) != 0
    }

    /// Sends the event to `channel` under `id`.
    pub(crate) fn on(&self, channel: &'static Writer, id: u16) {
        self.id.store(u32::from(id), Ordering::Relaxed);
        self.channel.store((&raw const *channel).cast_mut(), Ordering::Release);
        self.switch.store(1, Ordering::Release);
    }

    /// Sends the event nowhere.
    pub(crate) fn off(&self) {
        self.switch.store(0, Ordering::Release);
        self.channel.store(core::ptr::null_mut(), Ordering::Release);
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}
