//! Processes that have locked themselves in (seccomp), and those of which only the agent's thread is left.

use super::Recorder;
use crate::link::Link;
use crate::locked::{LOOK_EVERY, LOOKS, threads_without_main};
use mote_wire::Message;
use std::collections::HashMap;
use std::time::Instant;

impl Recorder<'_> {
    /// Looks at some processes: whether they have locked themselves in, and whether only their agents are left.
    pub(crate) fn look_at_agents(&mut self) {
        let mut agents: HashMap<i32, u32> = HashMap::new();
        for link in self.links.values().filter(|link| link.is_process) {
            *agents.entry(link.pid).or_default() += 1;
        }
        let without_clock = self.trace.flow.is_without_clock();
        let mut locked = Vec::new();
        let due = |link: &&mut Link| {
            link.is_process && link.lock.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY)
        };
        for link in self.links.values_mut().filter(due).take(LOOKS) {
            link.lock.looked = Some(Instant::now());
            let (pid, own) = (link.pid, agents.get(&link.pid).copied().unwrap_or(1));
            if link.lock.is_locked(pid) && !std::mem::replace(&mut link.lock.told, true) {
                link.let_be();
                locked.push(pid);
            }
            // Of one that we cannot see, only it can know.
            if pid == 0 || threads_without_main(pid) == Some(own + 1) {
                let _ = link.send(&Message::Look { agents: own }, &[]);
            }
            if without_clock && !link.lock.may_call && link.lock.is_free(pid) {
                link.lock.may_call = link.send(&Message::MayCall, &[]).is_ok();
            }
        }
        for pid in locked {
            self.watch.say(&format!(
                "process {pid} has locked itself in (seccomp, all threads): its rules stay as they are until it ends"
            ));
        }
    }
}
