//! Processes that have locked themselves in (seccomp), and those of which only the agent's thread is left.

use super::Recorder;
use crate::registration::connection::Connection;
use crate::registration::sandbox::{LOOK_EVERY, LOOKS, threads_without_main};
use mote_wire::Message;
use std::collections::HashMap;
use std::time::Instant;

impl Recorder<'_> {
    /// Looks at some processes: whether they have locked themselves in, and whether only their agents are left.
    pub(crate) fn look_at_agents(&mut self) {
        let mut agents: HashMap<i32, u32> = HashMap::new();
        for connection in self.connections.values().filter(|connection| connection.is_process) {
            *agents.entry(connection.pid).or_default() += 1;
        }
        let without_clock = self.trace.state.is_without_clock();
        let mut locked = Vec::new();
        let due = |connection: &&mut Connection| {
            connection.is_process
                && connection.sandbox.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY)
        };
        for connection in self.connections.values_mut().filter(due).take(LOOKS) {
            connection.sandbox.looked = Some(Instant::now());
            let (pid, own) = (connection.pid, agents.get(&connection.pid).copied().unwrap_or(1));
            if connection.sandbox.is_locked(pid)
                && !std::mem::replace(&mut connection.sandbox.is_reported, true)
            {
                connection.let_be();
                locked.push(pid);
            }
            // Of one that we cannot see, only it can know.
            if pid == 0 || threads_without_main(pid) == Some(own + 1) {
                let _ = connection.send(&Message::Look { agents: own }, &[]);
            }
            if without_clock && !connection.sandbox.may_call && connection.sandbox.is_free(pid) {
                connection.sandbox.may_call = connection.send(&Message::MayCall, &[]).is_ok();
            }
        }
        for pid in locked {
            self.watch.say(&format!(
                "process {pid} has put all of its threads into a sandbox (seccomp): its rules can no longer change"
            ));
        }
    }
}
