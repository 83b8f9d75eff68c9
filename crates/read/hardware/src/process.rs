//! One process of a capture: the program that is meant, among those that have started it.

use mote_capture::{Note, Of, What};
use std::collections::BTreeSet;
use std::path::Path;

/// A process, from when on it is what is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    tids: BTreeSet<i32>,
    /// The thread that became the program, and behind how many instructions of which stream; nothing where the process
    /// is meant from its begin on.
    begin: Option<(i32, Of, u64)>,
}

impl Process {
    /// The first one of a capture.
    #[must_use]
    pub fn first(notes: &[Note]) -> Option<Process> {
        let first = notes.iter().find(|note| matches!(note.what, What::Thread { .. }))?;
        Some(Process { tids: tids(notes, first.pid), begin: None })
    }

    /// The first one that became a program (execve(2)) for which `is_it` holds, from then on. Only captures that count
    /// instructions say when that was: those of `mote pt synth`.
    #[must_use]
    pub fn that_became(notes: &[Note], is_it: impl Fn(&Path) -> bool) -> Option<Process> {
        let begin = |note: &Note| match &note.what {
            What::Exec { path } if is_it(path) => {
                let of = note.cpu.map_or(Of::Thread(note.tid), Of::Cpu);
                Some((note.pid, (note.tid, of, note.instructions?)))
            }
            _ => None,
        };
        let (pid, begin) = notes.iter().find_map(begin)?;
        Some(Process { tids: tids(notes, pid), begin: Some(begin) })
    }

    /// Whether a thread is one of its own.
    #[must_use]
    pub fn has(&self, tid: i32) -> bool {
        self.tids.contains(&tid)
    }

    /// Behind how many instructions of a stream it begins to be what is meant, where that is not the begin.
    pub(crate) fn begin_in(&self, of: Of) -> Option<u64> {
        self.begin.filter(|(_, stream, _)| *stream == of).map(|(_, _, count)| count)
    }

    /// The thread that became what is meant.
    pub(crate) fn main(&self) -> Option<i32> {
        self.begin.map(|(tid, ..)| tid)
    }
}

/// Its threads; other notes may be of what one of another process has met.
fn tids(notes: &[Note], pid: i32) -> BTreeSet<i32> {
    let is_thread = |note: &&Note| note.pid == pid && matches!(note.what, What::Thread { .. } | What::Switch);
    notes.iter().filter(is_thread).map(|note| note.tid).collect()
}
