//! Names of threads that kernel events are of: the kernel's records have the thread's id only.

use crate::process;
use mote_journal::Fact;
use mote_sampler::mappings::Named;
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
    /// Looks at a thread as it is `at` this time; returns what the journal is to have of it: when it is new, or is
    /// called otherwise than before.
    pub(crate) fn look(&mut self, tid: u32, at: u64) -> Option<Fact> {
        let (pid, name) = name(tid)?;
        self.learn(Named { tid, pid, at, name })
    }

    /// Takes a name that the kernel told; returns what the journal is to have of it, as [`Names::look`].
    pub(crate) fn learn(&mut self, named: Named) -> Option<Fact> {
        let Named { tid, pid, at, name } = named;
        let is_known = self.known.get(&tid).is_some_and(|known| known.0 == pid && known.1 == name);
        if is_known || self.taken >= NAMES_MAX {
            return None;
        }
        self.taken += 1;
        self.known.insert(tid, (pid, name.clone()));
        Some(Fact::Thread { tid, pid, at, name })
    }

    /// Whether a thread has a name.
    pub(crate) fn has(&self, tid: u32) -> bool {
        self.known.contains_key(&tid)
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
        let named: Vec<Fact> =
            [own, own, 0, u32::MAX].into_iter().filter_map(|tid| names.look(tid, 7)).collect();
        assert_eq!(named.len(), 2, "{named:?}");
        assert!(matches!(&named[0], Fact::Thread { tid, pid, at: 7, name }
                if (*tid, *pid) == (own, own) && !name.is_empty()));
        assert!(names.look(own, 8).is_none());
    }
}
