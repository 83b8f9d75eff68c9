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

    /// Notes a process, and leaves of its mappings those that are new.
    pub(crate) fn note_maps(&mut self, pid: u32, maps: &mut Vec<Map>) {
        let known = self.maps.entry(pid).or_default();
        maps.retain(|map| known.insert((map.start, map.path.clone())));
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
        known.note_maps(7, &mut maps);
        assert_eq!(maps.len(), 2);
        let mut maps = vec![map(1, "a"), map(2, "c")];
        known.note_maps(7, &mut maps);
        assert_eq!(maps, [map(2, "c")]);
        known.note_maps(8, &mut maps);
        assert_eq!(maps, [map(2, "c")], "another process");
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
