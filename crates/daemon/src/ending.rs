//! When a recording is over: what signals have asked for, and who is left.

use crate::command::{Arrived, Command};
use nix::sys::signal::Signal;
use std::time::Instant;

/// What has been asked about the end.
#[derive(Default)]
pub(crate) struct End {
    /// It is over.
    pub(crate) now: bool,
    asked: bool,
    /// It was told that only children are left.
    pub(crate) waiting_told: bool,
    /// Rounds of the loop in which neither the command nor a process was left.
    pub(crate) rounds_alone: u32,
    /// Since when that is so.
    pub(crate) alone_since: Option<Instant>,
}

impl End {
    /// A signal: the command gets it, and ends if it wants to. When it has ended already, or with the second
    /// request that is no Ctrl-C, the recording ends.
    pub(crate) fn signal(&mut self, arrived: Arrived, command: &mut Command) {
        if !arrived.asks_to_end() {
            return;
        }
        if command.has_ended() || (self.asked && arrived.signal != Signal::SIGINT) {
            self.now = true;
        }
        self.asked = true;
        if !arrived.from_terminal {
            command.pass_on(arrived.signal);
        }
    }
}
