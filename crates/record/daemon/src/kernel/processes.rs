//! Processes that kernel events are of, and what is kept so that addresses in their stacks have names later.

use super::Kernel;
use crate::process;
use mote_catalog::stack::Stacks;
use mote_journal::{Fact, Process};
use mote_symbol::collect::{self, BuildIds};
use std::collections::{HashMap, HashSet};
use std::io;

/// The processes.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    known: HashMap<u32, Known>,
    build_ids: BuildIds,
}

/// What the journal has of a process.
#[derive(Debug)]
struct Known {
    exe: String,
    /// Whose it is.
    owner: Option<u32>,
    maps: HashSet<(u64, String)>,
}

impl Processes {
    /// Looks at a process; returns what is new of it. Mappings are for user stacks.
    fn look(&mut self, pid: u32, with_maps: bool) -> Option<Process> {
        let exe = process::executable(pid as i32);
        let known = self.known.get(&pid);
        let how = match known {
            Some(known) if known.exe == exe && !with_maps => return None,
            Some(known) if known.exe == exe => "seen",
            // Everything that was mapped before is gone.
            Some(_) => "exec",
            None => "seen",
        };
        let status = process::status(pid)?;
        let mut maps = if with_maps { collect::maps(pid) } else { Vec::new() };
        let is_new = how == "exec" || known.is_none();
        if is_new {
            self.known.insert(
                pid,
                Known { exe: exe.clone(), owner: mote_symbol::mapped::user(pid), maps: HashSet::new() },
            );
        }
        let known = self.known.get_mut(&pid)?;
        maps.retain(|map| known.maps.insert((map.start, map.path.clone())));
        if !is_new && maps.is_empty() {
            return None;
        }
        self.build_ids.fill(pid, &mut maps);
        Some(Process {
            pid: pid as i32,
            parent: status.parent as i32,
            at: Kernel::now(),
            how: how.to_owned(),
            comm: status.name,
            exe,
            maps,
        })
    }
}

impl Kernel {
    /// Notes what is new of the processes that these threads are of.
    pub(super) fn note_processes(&mut self, threads: &[u32]) -> bool {
        let with_maps = self.wanted.stacks.user;
        let pids = self.names.processes_of(threads);
        pids.into_iter()
            .filter_map(|pid| self.processes.look(pid, with_maps))
            .fold(true, |noted, process| self.trace.directory.note(&Fact::Process(process)) & noted)
    }

    /// Keeps the kernel's symbols and the vdso, if stacks are recorded. Returns what cannot be kept.
    pub(super) fn keep_symbols(&self) -> Vec<String> {
        let Stacks { kernel, user } = self.wanted.stacks;
        let mut problems = Vec::new();
        if kernel
            && let Err(why) =
                collect::kallsyms().and_then(|text| self.keep(collect::KALLSYMS, text.as_bytes()))
        {
            problems.push(format!(
                "kernel stacks will have no function names: {why}; record as root, or set sysctl \
                 kernel.kptr_restrict=0"
            ));
        }
        if user && let Err(why) = collect::vdso().and_then(|bytes| self.keep(collect::VDSO, &bytes)) {
            problems.push(format!("stacks will have no function names in the vdso: {why}"));
        }
        problems
    }

    /// Keeps the tables of run-time compilers.
    pub(super) fn keep_tables(&self) {
        if self.wanted.stacks.user {
            let known = self.processes.known.iter().map(|(pid, known)| (*pid, known.owner));
            let all: HashMap<u32, Option<u32>> = self.heard().chain(known).collect();
            for (pid, owner) in all {
                let table = collect::perf_map(pid, self.listens_since(), owner);
                // What cannot be kept leaves addresses without names, which is seen where they are shown.
                let _ = table.map(|table| self.keep(&collect::perf_map_name(pid), &table));
            }
        }
    }

    fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let inner = self.trace.directory.inner();
        inner.replace(inner, name, bytes)
    }
}
