//! Rings that are made ahead, for the group that comes next: their memory is taken while no process waits for it, on a
//! thread of its own, because to take it keeps a processor busy for 0.1 ms a megabyte.

use mote_ring::Geometry;
use mote_ring::reader::{Channel, MakeError};
use std::thread::{Builder, JoinHandle};

/// A channel, or one that is being made.
pub(crate) enum Spare {
    Made(Channel),
    Begun(JoinHandle<Result<Channel, MakeError>>),
}

impl Spare {
    /// Begins to make one of these sizes, with memory for the rings of the first `online` CPUs. `None` when there is no
    /// thread to be had.
    pub(crate) fn begin(sizes: Geometry, online: u32) -> Option<Spare> {
        let thread = Builder::new().name("mote-rings".to_owned());
        thread.spawn(move || Channel::make(sizes, 0..online)).ok().map(Spare::Begun)
    }

    /// The channel, once it is made; `None` when it could not be.
    pub(crate) fn take(self) -> Option<Channel> {
        match self {
            Spare::Made(channel) => Some(channel),
            Spare::Begun(thread) => thread.join().ok()?.ok(),
        }
    }
}
