//! The processes and threads that were seen so far, and what the journal has of them.

use mote_journal::Map;
use std::collections::{BTreeSet, HashMap, HashSet};

/// What was seen.
#[derive(Default)]
pub(crate) struct Known {
    /// Whose processes have which ids, as they see them themselves.
    users: HashMap<u32, u32>,
    /// The processes, and the mappings of each that the journal has: begin and path.
    maps: HashMap<u32, HashSet<(u64, String)>>,
    threads: BTreeSet<u32>,
    /// In which processes a copy of the library replaces return addresses, and where its function for that is.
    replace: HashMap<i32, u64>,
}

impl Known {
    /// Whether a process with this id is known that is another user's.
    pub(crate) fn is_of_other(&self, pid: u32, uid: u32) -> bool {
        self.users.get(&pid).is_some_and(|known| *known != uid)
    }

    /// Notes whose process has this id.
    pub(crate) fn note_user(&mut self, pid: u32, uid: u32) {
        self.users.insert(pid, uid);
    }

    /// Notes a process, which has begun a program if `begins`, and leaves of its mappings those that are new. Returns
    /// whether the program is another one than was known: there may be several copies of the library in one, each of
    /// which says hello when it begins.
    pub(crate) fn note_maps(&mut self, pid: u32, begins: bool, maps: &mut Vec<Map>) -> bool {
        let known = self.maps.entry(pid).or_default();
        let is_same = maps.first().is_some_and(|first| known.contains(&(first.start, first.path.clone())));
        if begins && !is_same {
            known.clear();
        }
        maps.retain(|map| known.insert((map.start, map.path.clone())));
        !is_same
    }

    /// A copy of the library in the process `pid` replaces return addresses.
    pub(crate) fn note_replaces(&mut self, pid: i32, find: u64) {
        self.replace.insert(pid, find);
    }

    /// Whether one does, and where its function for that is.
    pub(crate) fn replaces(&self, pid: i32) -> Option<u64> {
        self.replace.get(&pid).copied()
    }

    /// The process `pid` has another program now.
    pub(crate) fn note_program(&mut self, pid: i32) {
        self.replace.remove(&pid);
    }

    /// Counts a thread that has had an event, once.
    pub(crate) fn note_thread(&mut self, tid: u32) {
        self.threads.insert(tid);
    }

    /// How many processes and threads there were.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.maps.len(), self.threads.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_process_that_is_known_only_new_mappings_are_left() {
        let map = |start, path: &str| Map {
            start,
            end: start + 1,
            offset: 0,
            path: path.to_owned(),
            build_id: String::new(),
        };
        let mut known = Known::default();
        let mut maps = vec![map(1, "a"), map(2, "b")];
        assert!(known.note_maps(7, true, &mut maps));
        assert_eq!(maps.len(), 2);
        let mut maps = vec![map(1, "a"), map(2, "c")];
        assert!(!known.note_maps(7, true, &mut maps), "another copy of the library");
        assert_eq!(maps, [map(2, "c")]);
        known.note_maps(8, true, &mut maps);
        assert_eq!(maps, [map(2, "c")], "another process");
        let mut maps = vec![map(3, "d"), map(2, "b")];
        assert!(known.note_maps(7, true, &mut maps), "another program");
        assert_eq!(maps.len(), 2);
        let mut maps = vec![map(9, "e"), map(2, "b")];
        known.note_maps(7, false, &mut maps);
        assert_eq!(maps, [map(9, "e")]);
        assert_eq!(known.count(), (2, 0));
    }

    #[test]
    fn an_id_stays_its_users() {
        let mut known = Known::default();
        assert!(!known.is_of_other(7, 1000));
        known.note_user(7, 1000);
        assert!(known.is_of_other(7, 1001) && !known.is_of_other(7, 1000));
    }
}
