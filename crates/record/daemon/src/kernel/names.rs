//! Names of threads that kernel events are of: the kernel's records have the thread's id only.

use crate::process;
use std::collections::{BTreeSet, HashMap};

/// Names that a recording takes.
const NAMES_MAX: usize = 1 << 17;

/// The names that are known.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<u32, (u32, String)>,
    taken: usize,
}

impl Names {
    /// Looks at these threads; returns id, process and name of those that are new, or are called otherwise than before.
    pub(crate) fn look(&mut self, ids: &[u32]) -> Vec<(u32, u32, String)> {
        let mut news = Vec::new();
        for tid in ids {
            let Some((pid, name)) = name(*tid) else { continue };
            let is_known = self.known.get(tid).is_some_and(|known| known.0 == pid && known.1 == name);
            if !is_known && self.taken < NAMES_MAX {
                self.taken += 1;
                self.known.insert(*tid, (pid, name.clone()));
                news.push((*tid, pid, name));
            }
        }
        news
    }

    /// Takes a name that the kernel told; returns whether it is news.
    pub(crate) fn learn(&mut self, tid: u32, pid: u32, name: &str) -> bool {
        let is_known = self.known.get(&tid).is_some_and(|known| known.0 == pid && known.1 == name);
        if is_known || self.taken >= NAMES_MAX {
            return false;
        }
        self.taken += 1;
        self.known.insert(tid, (pid, name.to_owned()));
        true
    }

    /// The processes of these threads, each once.
    pub(crate) fn processes_of(&self, ids: &[u32]) -> BTreeSet<u32> {
        ids.iter().filter_map(|tid| Some(self.known.get(tid)?.0)).filter(|pid| *pid != 0).collect()
    }

    /// How many threads have a name.
    pub(crate) fn threads(&self) -> usize {
        self.known.len()
    }

    /// How many processes they are of.
    pub(crate) fn processes(&self) -> usize {
        self.known.values().map(|(pid, _)| *pid).collect::<BTreeSet<_>>().len()
    }
}

/// Process and name of a thread; `None` when it has ended.
fn name(tid: u32) -> Option<(u32, String)> {
    if tid == 0 {
        // The idle thread of each CPU.
        return Some((0, "swapper".to_owned()));
    }
    process::status(tid).map(|status| (status.pid, status.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_name_and_is_told_once() {
        let mut names = Names::default();
        let own = std::process::id();
        let named = names.look(&[own, own, 0, u32::MAX]);
        assert_eq!(named.len(), 2, "{named:?}");
        assert_eq!((named[0].0, named[0].1), (own, own));
        assert!(!named[0].2.is_empty());
        assert!(names.look(&[own]).is_empty());
    }
}
