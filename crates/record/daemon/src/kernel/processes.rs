//! Processes that kernel events are of, as the journal has them.

use crate::output::records::now;
use crate::process;
use mote_journal::Process;
use mote_symbol::collect::{self, BuildIds};
use std::collections::{HashMap, HashSet};

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
    /// The user whose process it is.
    owner: Option<u32>,
    maps: HashSet<(u64, String)>,
}

impl Processes {
    /// Those that the journal has, and whose they are.
    pub(super) fn known(&self) -> impl Iterator<Item = (u32, Option<u32>)> {
        self.known.iter().map(|(pid, known)| (*pid, known.owner))
    }

    /// Looks at a process; returns what is new of it. Mappings are for user stacks.
    pub(super) fn look(&mut self, pid: u32, with_maps: bool) -> Option<Process> {
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
            at: now(),
            how: how.to_owned(),
            comm: status.name,
            exe,
            maps,
        })
    }
}
