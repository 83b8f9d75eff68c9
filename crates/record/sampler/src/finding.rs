//! What leads to the slots of processes' threads (`library::tops`), found on a thread of its own: for that it reads
//! their memory, and a process can hold up whatever does so (`memory`).

use crate::library::{finder, tops};
use crate::memory::Memory;
use mote_layout::stubs::WORDS;
use mote_symbol::LIBRARY;
use mote_symbol::collect;
use mote_symbol::mapped::{self, FileId};
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Takes, by a process's id, what leads to the slots of its threads (`mote_layout::stubs`), or that it has none.
pub type Found = Box<dyn FnMut(u32, Option<[u64; WORDS]>) + Send>;

/// Processes that wait to be looked at, at most. Of further ones stacks end where an address was replaced.
const WAITING: usize = 1024;
/// Processes with the library, and mappings of it, that are remembered.
const KNOWN_MAX: usize = 4096;

/// Which processes are looked at.
pub(crate) struct Finding {
    ask: SyncSender<u32>,
    /// Processes that have the library.
    known: HashSet<u32>,
}

impl Finding {
    /// Looks at all processes that have the library now. `None` when there is no thread.
    pub(crate) fn begin(found: Found) -> Option<Finding> {
        let (ask, asked) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("mote-slots".to_owned());
        thread.spawn(move || run(&asked, found)).ok()?;
        let mut finding = Finding { ask, known: HashSet::new() };
        let has_library = |pid: &u32| collect::maps(*pid).iter().any(|map| map.path == LIBRARY);
        collect::processes().filter(has_library).for_each(|pid| finding.look(pid, true, false));
        Some(finding)
    }

    /// A process has mapped something, or is new, or another program. Looks at it, if it has the library, or had it.
    pub(crate) fn look(&mut self, pid: u32, has_library: bool, is_exec: bool) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        if has_library {
            self.known.insert(pid);
        }
        let had = self.known.contains(&pid);
        if is_exec && !has_library {
            self.known.remove(&pid);
        }
        if had {
            let _ = self.ask.try_send(pid);
        }
    }
}

/// Until nobody asks any more.
fn run(asked: &Receiver<u32>, mut found: Found) {
    let mut finders = HashMap::new();
    for pid in asked {
        found(pid, find(pid, &mut finders));
    }
}

/// What leads to the slots of a process's threads. Of each mapping of a file it is remembered where in it the function
/// is that knows.
fn find(pid: u32, finders: &mut HashMap<(FileId, u64), Option<usize>>) -> Option<[u64; WORDS]> {
    let memory = Memory::of(pid)?;
    if finders.len() >= KNOWN_MAX {
        finders.clear();
    }
    mapped::code(pid).into_iter().filter(|mapped| mapped.map.path == LIBRARY).find_map(|mapped| {
        let (map, file) = (mapped.map, mapped.file?);
        let read = || memory.bytes(map.start..map.end).and_then(|code| finder(&code));
        let at = (*finders.entry((file, map.offset)).or_insert_with(read))?;
        tops(&memory, map.start.wrapping_add(at as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_with_the_library_are_looked_at() {
        let (ask, asked) = sync_channel(WAITING);
        let mut finding = Finding { ask, known: HashSet::new() };
        let mut looked = |pid, has_library, is_exec| {
            finding.look(pid, has_library, is_exec);
            asked.try_recv().ok()
        };
        assert_eq!(looked(7, false, false), None);
        assert_eq!(looked(7, true, false), Some(7));
        // What it maps later may be the code between its functions and the library.
        assert_eq!(looked(7, false, false), Some(7));
        // It has none any more: that is found once.
        assert_eq!(
            [looked(7, false, true), looked(7, false, false), looked(7, false, true)],
            [Some(7), None, None]
        );
        assert_eq!([looked(7, true, true), looked(7, true, true)], [Some(7); 2]);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_is_held_up() {
        let (ask, _asked) = sync_channel(1);
        let mut finding = Finding { ask, known: HashSet::new() };
        (0..3 * KNOWN_MAX as u32).for_each(|pid| finding.look(pid, true, false));
        assert!(finding.known.len() <= KNOWN_MAX);
    }

    #[test]
    fn processes_without_the_library_have_no_slots() {
        let mut finders = HashMap::new();
        assert_eq!(find(std::process::id(), &mut finders), None);
        assert_eq!(find(u32::MAX, &mut finders), None);
        assert!(finders.is_empty());
    }
}
