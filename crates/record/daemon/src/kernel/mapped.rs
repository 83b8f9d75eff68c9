//! Mappings and names as the kernel tells them (`mote_sampler::mappings::Mappings`): also those of processes that were
//! gone before anybody looked.

use super::listening::{Late, Listening};
use super::{Kernel, Remarks};
use crate::options;
use crate::output::records::now;
use mote_journal::{Fact, Process};
use mote_sampler::mappings::{Change, How, Mappings, News};
use mote_symbol::collect::{self, BuildIds};
use mote_words::counted;
use std::collections::HashMap;
use std::time::SystemTime;

/// What has become of a process, for the journal.
pub(crate) fn of_change(change: Change) -> Process {
    let how = match change.how {
        How::Fork => "fork",
        How::Exec => "exec",
        How::Mapped => "seen",
    };
    let maps = change.maps;
    // The program is what an exec maps first.
    let exe = maps.first().filter(|_| change.how == How::Exec).map_or(String::new(), |map| map.path.clone());
    let (pid, parent) = (change.pid as i32, change.parent as i32);
    Process { pid, parent, at: change.at, how: how.to_owned(), comm: change.name, exe, maps }
}

impl Kernel {
    /// Listens to what those map that are recorded: this process, whose child the command will be, the attached ones,
    /// or all. Returns what is missing if that cannot be.
    pub(super) fn listen(&mut self, attached: &[u32]) -> Option<String> {
        let mut mappings = match Mappings::open(options::cpus(), !self.wanted.all) {
            Ok(mappings) => mappings,
            Err(why) => {
                return Some(format!(
                    "short-lived processes may have no names, and their stacks no symbols: {why:?}"
                ));
            }
        };
        let mut build_ids = BuildIds::default();
        for pid in attached.iter().copied().chain([std::process::id()]) {
            let mut maps = collect::maps(pid);
            build_ids.fill(pid, &mut maps);
            let status = crate::process::status(pid);
            let (parent, name) = status.map_or((0, String::new()), |status| (status.parent, status.name));
            mappings.know(pid, parent, &name, maps);
        }
        self.mappings = Some(Listening {
            mappings,
            noted_processes: HashMap::new(),
            since: SystemTime::now(),
            late: Late::default(),
        });
        None
    }

    /// Processes that were heard of, also those that are gone, and whose they were.
    pub(super) fn heard(&self) -> impl Iterator<Item = (u32, Option<u32>)> {
        self.mappings
            .iter()
            .flat_map(|listening| listening.noted_processes.iter().map(|(pid, owner)| (*pid, *owner)))
    }

    /// When this began to listen.
    pub(super) fn listens_since(&self) -> SystemTime {
        self.mappings.as_ref().map_or(SystemTime::UNIX_EPOCH, |listening| listening.since)
    }

    /// Notes what the kernel has said since.
    fn hear(&mut self) -> bool {
        let Some(Listening { mappings, noted_processes, late, .. }) = &mut self.mappings else { return true };
        let News { processes, threads } = mappings.news();
        for fork in processes.iter().filter(|change| change.how == How::Fork) {
            match self.tracer.probe_process(fork.pid) {
                Ok(true) => {
                    late.processes += 1;
                    late.ns_max = late.ns_max.max(now().saturating_sub(fork.at));
                }
                Ok(false) => {}
                Err(_) => late.failed += 1,
            }
        }
        // Without user stacks nobody asks for mappings, and names of threads do.
        let with_maps = self.wanted.stacks.user;
        let mut noted = true;
        for mut change in processes {
            if !with_maps {
                break;
            }
            // Those after a fork are its parent's, which are in the journal but for those of this process.
            let known = change.how == How::Fork && noted_processes.contains_key(&change.parent);
            if known {
                change.maps.clear();
            }
            let owner = mote_symbol::mapped::user(change.pid);
            let known = noted_processes.entry(change.pid).or_default();
            *known = owner.or(*known);
            noted &= self.trace.directory.note(&Fact::Process(of_change(change)));
        }
        let named = threads.into_iter().filter_map(|named| self.names.learn(named));
        named.fold(noted, |noted, fact| noted & self.trace.directory.note(&fact))
    }
}

impl Kernel {
    /// Notes what processes have mapped. Returns whether the journal has it.
    pub(crate) fn note_mapped(&mut self) -> bool {
        self.note_born() & self.hear()
    }

    /// What is missing of mappings and names, at the end.
    pub(crate) fn mapped_remarks(&self) -> Remarks {
        let mut remarks = Remarks::default();
        let Some(Listening { mappings, late, .. }) = &self.mappings else { return remarks };
        let Late { processes, failed, ns_max } = *late;
        if processes > 0 {
            let ms = ns_max.div_ceil(1_000_000);
            remarks.said.push(format!(
                "{} probed only a moment after the fork (up to {ms} ms); earlier events of the probes are missing",
                counted(processes, "child process was", "child processes were")
            ));
        }
        if failed > 0 {
            let children = counted(failed, "child process", "child processes");
            remarks.problems.push(format!("{children} could not be probed"));
        }
        let lost = mappings.lost();
        if lost > 0 {
            let text = format!(
                "the kernel dropped {} about mappings and names: some addresses and threads have no names",
                counted(lost, "message", "messages")
            );
            // Without stacks it is only names, most of which are found otherwise.
            if self.wanted.stacks.user { &mut remarks.problems } else { &mut remarks.said }.push(text);
        }
        remarks
    }
}
