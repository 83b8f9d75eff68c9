//! What is kept so that addresses in the stacks of kernel events have names later.

use super::Kernel;
use crate::output::directory::Directory;
use mote_catalog::stack::Stacks;
use mote_journal::Fact;
use mote_symbol::collect;
use std::collections::HashMap;
use std::io;
use std::time::SystemTime;

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
        keep_symbols(&self.trace.directory, self.wanted.stacks)
    }

    /// Keeps the tables of run-time compilers.
    pub(super) fn keep_tables(&self) {
        if self.wanted.stacks.user {
            let all: HashMap<u32, Option<u32>> = self.heard().chain(self.processes.known()).collect();
            keep_tables(&self.trace.directory, all, self.listens_since());
        }
    }
}

/// Keeps the kernel's symbols and the vdso in a recording with such stacks. Returns what cannot be kept.
pub(crate) fn keep_symbols(directory: &Directory, stacks: Stacks) -> Vec<String> {
    let Stacks { kernel, user, .. } = stacks;
    let mut problems = Vec::new();
    if kernel
        && let Err(why) =
            collect::kallsyms().and_then(|text| keep(directory, collect::KALLSYMS, text.as_bytes()))
    {
        problems.push(format!(
            "kernel stacks will have no function names: {why}; record as root, or set sysctl \
             kernel.kptr_restrict=0"
        ));
    }
    if user && let Err(why) = collect::vdso().and_then(|bytes| keep(directory, collect::VDSO, &bytes)) {
        problems.push(format!("stacks will have no function names in the vdso: {why}"));
    }
    problems
}

/// Keeps the tables of run-time compilers in these processes, with whose they are, that were written since then.
pub(crate) fn keep_tables(
    directory: &Directory,
    processes: impl IntoIterator<Item = (u32, Option<u32>)>,
    since: SystemTime,
) {
    for (pid, owner) in processes {
        let table = collect::perf_map(pid, since, owner);
        // What cannot be kept leaves addresses without names, which is seen where they are shown.
        let _ = table.map(|table| keep(directory, &collect::perf_map_name(pid), &table));
    }
}

fn keep(directory: &Directory, name: &str, bytes: &[u8]) -> io::Result<()> {
    let inner = directory.inner();
    inner.replace(inner, name, bytes)
}
