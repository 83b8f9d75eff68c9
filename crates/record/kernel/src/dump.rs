//! The state of the system when a recording starts: processes, threads, open files, mappings, interfaces, CPUs, disks,
//! interrupts.
//!
//! Names and fields are those of LTTng's state dump (lttng-modules, `lttng-statedump.h`), so that analyses know from
//! the first event on what a thread or a descriptor is. What comes from `/proc` and `/sys` differs from what LTTng
//! reads in the kernel in this:
//!
//! - `file_table_address` is not an address but the id of the process that has the table, and
//!   `lttng_statedump_file_descriptor` has the `pid` too;
//! - `lttng_statedump_vm_map` has the `filename` besides the inode;
//! - `lttng_statedump_process_pid_ns` is there once for each thread: of the innermost namespace, whose `ns_inum` is 0
//!   where it may not be seen.
//!
//! A process that ends meanwhile is left out from where it ended; that is normal and no error.

mod event;
mod files;
mod process;
mod system;
mod write;

pub use event::{Record, descriptions};

use crate::births::Born;
use event::Kind;
use std::path::Path;

/// Of which processes the state is dumped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All processes.
    All,
    /// The processes with these ids.
    Processes(Vec<u32>),
}

/// The record of a thread that has other ids for itself than the recorder has for it. The inode of its namespace is not
/// known.
pub fn namespace(born: &Born) -> Record {
    process::of_namespace((born.tid, born.level, 0), [born.vtid.into(), born.vpid.into(), 0])
}

/// A dump that can be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    scope: Scope,
}

impl Dump {
    /// The one of these processes, and of the system.
    pub fn of(scope: Scope) -> Dump {
        Dump { scope }
    }

    /// Hands the records to `take`, from `lttng_statedump_start` to `lttng_statedump_end`, as they are found.
    ///
    /// # Cost
    /// Reads four files of each process and two of each descriptor: some milliseconds for a system of some hundred
    /// processes.
    pub fn for_each(&self, mut take: impl FnMut(Record)) {
        from(Path::new("/proc"), Path::new("/sys"), &self.scope, &mut take);
    }
}

fn from(proc: &Path, sys: &Path, scope: &Scope, take: &mut dyn FnMut(Record)) {
    take(write::Fields::new(Kind::Start).record());
    system::cpus(proc, take);
    system::disks(sys, take);
    system::interfaces(proc, take);
    system::interrupts(proc, take);
    match scope {
        Scope::Processes(list) => list.iter().for_each(|pid| process::process(proc, *pid, take)),
        Scope::All => process::all(proc).into_iter().for_each(|pid| process::process(proc, pid, take)),
    }
    take(write::Fields::new(Kind::End).record());
}

#[cfg(test)]
mod tests;
